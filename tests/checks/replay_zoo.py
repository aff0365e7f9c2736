"""Servers of plain NumPy for replays: right ones in many ways, and ones that are wrong in one.

C is the clip norm, n the denominator, z = 1 the noise multiplier. Each server is a function of
state, updates and randomness, as `replay_round` takes it, with its first state and its promise.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fl_audit.checks import Promise

SHAPES = ((24, 16), (16,), (16, 5), (5,))
CLIP, COHORT = 0.5, 10
PROMISE = Promise(clip_norm=CLIP, denominator=COHORT, noise_multiplier=1.0)


@dataclass(frozen=True)
class Member:
    """A server of the zoo.

    Attributes:
      name: What is special or wrong.
      server: The server's round.
      found_by: The finding that has to fail; None for a right server.
      state: The state before the round.
      promise: What the server promises.
      shapes: The shapes of the model's variables.
    """

    name: str
    server: Any
    found_by: str | None = None
    state: Any = 0
    promise: Promise = PROMISE
    shapes: tuple[tuple[int, ...], ...] = SHAPES


def norm_of(update):
    return np.sqrt(sum(np.sum(np.square(part, dtype=np.float64)) for part in update))


def finding(found, name):
    """The finding of a replay that has this name."""
    (one,) = [finding for finding in found.findings if finding.name == name]
    return one


def scaled(update, factor):
    return [part * factor for part in update]


def clipped(update, clip=CLIP):
    return scaled(update, min(1.0, clip / max(norm_of(update), 1e-30)))


def normal(random, stddev=CLIP, shapes=SHAPES):
    return [random.normal(0, stddev, shape) for shape in shapes]


def zeros(shapes=SHAPES):
    return [np.zeros(shape) for shape in shapes]


def added(one, other):
    return [a + b for a, b in zip(one, other, strict=True)]


def summed(updates, shapes=SHAPES):
    total = zeros(shapes)
    for update in updates:
        total = added(total, update)
    return total


def server(
    part=clipped, noise=normal, denominator=lambda count: COHORT, of_sum=lambda total: total
):
    """A server without memory: parts, their sum, noise, denominator."""

    def of_round(state, updates, random):
        total = of_sum(summed([part(update) for update in updates]))
        return state, scaled(added(total, noise(random)), 1 / denominator(len(updates)))

    return of_round


def unscaled_sum(updates, part=clipped):
    return summed([part(update) for update in updates])


# Right servers.


def normalised(update):
    return scaled(update, CLIP / (norm_of(update) + 0.01))


def to_the_clip_norm(update):
    return scaled(update, CLIP / max(norm_of(update), 1e-30))


def by_variable(update, clip):
    return [clipped([part], clip)[0] for part in update]


def on_grid(random, update, step):
    return [step * np.floor(part / step + random.random(part.shape)) for part in update]


def fixed_point(generator_of, step=2.0**-10, part=clipped):
    """Stochastic rounding of each update, drawn before the noise."""

    def of_round(state, updates, random):
        draws = generator_of(random)
        total = summed([on_grid(draws, part(update), step) for update in updates])
        return state, scaled(added(total, normal(random)), 1 / COHORT)

    return of_round


def secure_sum(state, updates, random):
    """Integers modulo 2^32, with discrete noise."""
    step = CLIP / 4096
    total = [np.zeros(shape, np.uint32) for shape in SHAPES]
    for update in updates:
        for i, part in enumerate(clipped(update)):
            total[i] += np.rint(part / step).astype(np.int64).astype(np.uint32)
    for i, part in enumerate(normal(random)):
        total[i] += np.rint(part / step).astype(np.int64).astype(np.uint32)
    return state, [part.astype(np.int32) * (step / COHORT) for part in total]


def momentum(state, updates, random):
    """Momentum of noised means is what is released."""
    _, mean = server()(0, updates, random)
    velocity = added(scaled(state, 0.9), mean)
    return velocity, velocity


def adam(state, updates, random):
    """Adam moves the model, which is in the state; released is what it gets."""
    _, mean = server()(0, updates, random)
    first = added(scaled(state["first"], 0.9), scaled(mean, 0.1))
    second = added(scaled(state["second"], 0.99), [0.01 * part**2 for part in mean])
    steps = [0.1 * m / (np.sqrt(v) + 1e-3) for m, v in zip(first, second, strict=True)]
    return {"first": first, "second": second, "model": added(state["model"], steps)}, mean


def learning_rate(state, updates, random):
    """Release over a learning rate that falls from round to round."""
    _, mean = server()(0, updates, random)
    return state + 1, scaled(mean, 0.7**state)


def adaptive(multiplier=1.0, noise_clip=None, share=0.6):
    def of_round(state, updates, random):
        clip, noise = state["clip"], normal(random, multiplier * (noise_clip or state["clip"]))
        below = sum(norm_of(update) <= clip for update in updates) + random.normal(0, 1.0)
        total = unscaled_sum(updates, lambda update: clipped(update, clip))
        after = clip * np.exp(0.2 * (share - below / max(COHORT, 1)))
        return {"clip": after}, scaled(added(total, noise), 1 / COHORT)

    return of_round


def sampled(state, updates, random):
    """Each client takes part with probability 1/2, by a draw of its own."""
    coins = random.spawn(1)[0].random(len(updates)) < 0.5
    return server()(state, [u for u, coin in zip(updates, coins, strict=True) if coin], random)


def rounded_release(state, updates, random):
    _, mean = server()(0, updates, random)
    return state, [np.rint(part * 4096) / 4096 for part in mean]


def zeroed(update):
    return zeros() if max(np.abs(part).max() for part in update) > 1.0 else clipped(update)


def weighted_below_one(update):
    return scaled(clipped(update), 0.25 + 0.75 * (int(abs(update[0].flat[0]) * 1e7) % 4) / 4)


def in_float16(update):
    return [part.astype(np.float16) for part in clipped(update)]


def frozen(state, updates, random):
    _, (kernel, _, *rest) = server()(0, [[u[0], 0 * u[1], *u[2:]] for u in updates], random)
    return state, [kernel, np.zeros(SHAPES[1]), *rest]


def half_precision_release(state, updates, random):
    _, mean = server()(0, updates, random)
    return state, [part.astype(np.float16) for part in mean]


def in_float32(state, updates, random):
    total = [np.zeros(shape, np.float32) for shape in SHAPES]
    for update in updates:
        for i, part in enumerate(clipped(update)):
            total[i] += part.astype(np.float32)
    noise = [random.standard_normal(s, dtype=np.float32) * np.float32(CLIP) for s in SHAPES]
    return state, [(t + g) / np.float32(COHORT) for t, g in zip(total, noise, strict=True)]


def largest_coordinates(update):
    """A tenth of each variable's numbers, the largest."""
    small = [np.where(abs(p) >= np.quantile(abs(p), 0.9), p, 0) for p in clipped(update)]
    return clipped(small)


def by_l1(update):
    return scaled(update, min(1.0, CLIP / sum(np.abs(part).sum() for part in update)))


def tree(state, updates, random):
    """Noise on prefix sums: a round's noise less the last one's, both of the state's seed."""
    noises = [np.random.default_rng(100 + r) for r in (state["round"], state["round"] - 1)]
    fresh, last = (normal(noise) for noise in noises)
    noise = added(fresh, scaled(last, -0.5))
    total = added(unscaled_sum(updates), noise)
    return {"round": state["round"] + 1}, scaled(total, 1 / COHORT)


def three_at_least(state, updates, random):
    if len(updates) < 3:
        raise ValueError("fewer than three clients")
    return server()(state, updates, random)


def refuses_nan(state, updates, random):
    finite = [u for u in updates if all(np.isfinite(part).all() for part in u)]
    return server()(state, finite, random)


def adaptive_momentum(state, updates, random):
    after, mean = adaptive()(state, updates, random)
    velocity = added(scaled(state["velocity"], 0.9), mean)
    return {**after, "velocity": velocity}, velocity


def small(shapes, multiplier=1.0):
    """A server of a small model."""

    def of_round(state, updates, random):
        total = summed([clipped(update) for update in updates], shapes)
        noised = added(total, normal(random, multiplier * CLIP, shapes))
        return state, scaled(noised, 1 / COHORT)

    return of_round


def with_state(**numbers):
    return {"first": zeros(), "second": zeros(), "model": zeros(), **numbers}


RIGHT = (
    Member("each update clipped", server()),
    Member("clipped, without a state", server(), state=None),
    Member("automatic clipping", server(normalised)),
    Member("scaled to the clip norm", server(to_the_clip_norm)),
    Member(
        "each variable clipped to C / √L",
        server(lambda u: by_variable(u, CLIP / np.sqrt(len(SHAPES)))),
    ),
    Member("fixed point, a generator of its own", fixed_point(lambda r: r.spawn(1)[0])),
    Member("fixed point, drawn before the noise", fixed_point(lambda r: r)),
    Member("rounded after the noise", rounded_release),
    Member("clients sampled in the server", sampled),
    Member("secure sum of integers, discrete noise", secure_sum),
    Member("momentum of noised means", momentum, state=zeros()),
    Member("Adam behind the release", adam, state=with_state()),
    Member("a falling learning rate", learning_rate),
    Member("adaptive clip", adaptive(), state={"clip": CLIP}),
    Member("adaptive clip that grows", adaptive(share=1.0), state={"clip": CLIP}),
    Member(
        "adaptive clip and momentum",
        adaptive_momentum,
        state={"clip": CLIP, "velocity": zeros()},
    ),
    Member("long updates count nothing", server(zeroed)),
    Member(
        "long updates count nothing, as promised",
        server(zeroed),
        promise=replace(PROMISE, zeroing_norm=1.0),
    ),
    Member("weights of at most 1", server(weighted_below_one)),
    Member(
        "the expected cohort of Poisson rounds as denominator",
        server(denominator=lambda count: 12.5),
        promise=replace(PROMISE, denominator=12.5),
    ),
    Member("updates in float16", server(in_float16)),
    Member("releases in float16", half_precision_release),
    Member("all in float32", in_float32),
    Member("a frozen variable", frozen),
    Member("the largest coordinates alone", server(largest_coordinates)),
    Member("clipped by the L1 norm", server(by_l1)),
    Member(
        "noise on prefix sums",
        tree,
        state={"round": 1},
        promise=replace(PROMISE, noise_multiplier=None),
    ),
    Member("three clients at least", three_at_least, promise=replace(PROMISE, smallest_cohort=3)),
    Member("drops updates that are not finite", refuses_nan),
    Member(
        "no clip, no noise",
        server(lambda u: u, lambda random: zeros()),
        promise=Promise(clip_norm=np.inf, denominator=COHORT, noise_multiplier=0.0),
    ),
    Member("two variables of one number", small(((1,), ())), shapes=((1,), ())),
    Member("ten numbers", small(((10,),)), shapes=((10,),)),
)


# Wrong servers.


def noise_kept(state, updates, random):
    """The first round's noise is kept in the state and used in each round after it."""
    noise = state.get("noise") or normal(random)
    total = unscaled_sum(updates)
    return {"noise": noise}, scaled(added(total, noise), 1 / COHORT)


def noise_half_kept(state, updates, random):
    """Half of the noise's variance is the last round's."""
    fresh = normal(random)
    old = state.get("noise") or normal(random)
    noise = scaled(added(fresh, old), np.sqrt(0.5))
    return {"noise": fresh}, scaled(added(unscaled_sum(updates), noise), 1 / COHORT)


def bias_when_short(update):
    """The clip sees the kernels alone where they are short."""
    kernels = [update[0], update[2]]
    return update if norm_of(kernels) <= CLIP else clipped(update)


def outliers_dropped(state, updates, random):
    """Updates longer than twice the median are dropped."""
    lengths = [norm_of(update) for update in updates]
    kept = [
        u for u, length in zip(updates, lengths, strict=True) if length <= 2 * np.median(lengths)
    ]
    return server()(state, kept, random)


def far_ones_dropped(state, updates, random):
    """Updates are clipped; those far from their mean by more than 1.5 deviations are dropped."""
    sent = [clipped(update) for update in updates]
    if len(sent) > 2:
        mean = scaled(summed(sent), 1 / len(sent))
        far = np.array([norm_of(added(update, scaled(mean, -1))) for update in sent])
        sent = [u for u, f in zip(sent, far, strict=True) if f <= far.mean() + 1.5 * far.std()]
    return server()(state, sent, random)


def slow_statistics(state, updates, random):
    """The first bias is BatchNorm's mean: it moves slowly, and is released as it is."""
    _, release = server()(0, updates, random)
    mean = np.mean([update[1] for update in updates], axis=0) if updates else state
    return 0.999 * state + 0.001 * mean, [release[0], state, *release[2:]]


def slow_noised_statistics(state, updates, random):
    """The same, with noise for this round's sum; what was before comes without it."""
    _, release = server()(0, updates, random)
    mean = np.mean([update[1] for update in updates], axis=0) if updates else state
    return 0.999 * state + 0.001 * mean, [release[0], release[1] + state, *release[2:]]


def noise_per_client(state, updates, random):
    noise = summed([normal(random, CLIP) for _ in updates])
    return state, scaled(added(unscaled_sum(updates), noise), 1 / COHORT)


def noise_before_clip(state, updates, random):
    sent = [clipped(added(update, normal(random, CLIP / np.sqrt(COHORT)))) for update in updates]
    return state, scaled(summed(sent), 1 / COHORT)


def noise_by_root(state, updates, random):
    noise = normal(random, CLIP / np.sqrt(max(1, len(updates))))
    return state, scaled(added(unscaled_sum(updates), noise), 1 / COHORT)


def one_number_a_variable(random):
    return [np.full(shape, random.normal(0, CLIP)) for shape in SHAPES]


def not_in(variable):
    def noise(random):
        return [0 * g if i == variable else g for i, g in enumerate(normal(random))]

    return noise


def clients_kept(state, updates, random):
    """Clients of the last round who do not come are counted with their old updates."""
    fresh = [clipped(update) for update in updates]
    total = summed([*fresh, *state[len(fresh) :]])
    return fresh or state, scaled(added(total, normal(random)), 1 / COHORT)


def kept_for_two_rounds(state, updates, random):
    """What is left over of the sum comes two rounds later."""
    total = unscaled_sum(updates)
    noised = added(added(total, scaled(state[0], 0.01)), normal(random))
    return [state[1], total], scaled(noised, 1 / COHORT)


def by_examples(update):
    """The weight is the number of examples, hidden in the update."""
    return scaled(clipped(update), 1 + int(abs(update[0].flat[0]) * 1e6) % 5)


def momentum_of(part, keep=0.9):
    """Momentum of sums that have no noise."""

    def of_round(state, updates, random):
        velocity = added(scaled(state, keep), unscaled_sum(updates, part))
        return velocity, scaled(added(velocity, normal(random)), 1 / COHORT)

    return of_round


def nan_is_nothing(state, updates, random):
    """Updates with a NaN count nothing, and the rest counts more for it."""
    sent = [update for update in updates if np.isfinite(norm_of(update))]
    share = len(sent) / max(1, len(updates)) or 1.0
    return state, scaled(added(unscaled_sum(sent), normal(random)), 1 / COHORT / share)


def median(state, updates, random):
    """The coordinates' median in place of the mean."""
    sent = [clipped(update) for update in updates]
    middle = (
        [np.median([u[i] for u in sent], axis=0) for i in range(len(SHAPES))] if sent else zeros()
    )
    return state, scaled(added(scaled(middle, len(sent)), normal(random)), 1 / COHORT)


def wrapped(total, step=CLIP / 64):
    return [((np.rint(part / step) + 64) % 128 - 64) * step for part in total]


def clip_of_own_median(state, updates, random):
    """The clip norm is the median of this round's norms, at most C."""
    clip = min([CLIP, np.median([norm_of(u) for u in updates])]) if updates else CLIP
    total = unscaled_sum(updates, lambda update: clipped(update, clip))
    return state, scaled(added(total, normal(random)), 1 / COHORT)


def clip_by_square(update):
    return scaled(update, min(1.0, CLIP / norm_of(update) ** 2))


def first_counts_double(state, updates, random):
    return server()(state, [*updates[:1], *updates], random)


def longest_counts_double(state, updates, random):
    longest = sorted(updates, key=norm_of)[-1:]
    return server()(state, [*updates, *longest], random)


def batch_statistics(state, updates, random):
    _, release = server()(0, updates, random)
    mean = np.mean([update[1] for update in updates], axis=0) if updates else np.zeros(SHAPES[1])
    return state, [release[0], mean, *release[2:]]


def skips_empty(state, updates, random):
    return server()(state, updates, random) if updates else (state, zeros())


def pairs(state, updates, random):
    means = [
        scaled(summed(updates[i : i + 2]), 1 / len(updates[i : i + 2]))
        for i in range(0, len(updates), 2)
    ]
    return server(lambda mean: scaled(clipped(mean), 2))(state, means, random)


def retried(state, updates, random):
    draws = random.spawn(1)[0]
    times = [1 + int(draws.random() < 0.25) for _ in updates]
    return server()(
        state, [u for u, n in zip(updates, times, strict=True) for _ in range(n)], random
    )


WRONG = (
    Member("noise kept in the state and used again", noise_kept, "noise_next", {}),
    Member("noise half kept", noise_half_kept, "noise_next", {}),
    Member(
        "denominator max(n, came)",
        server(denominator=lambda count: max(COHORT, count)),
        "denominator",
    ),
    Member("denominator came", server(denominator=lambda count: max(1, count)), "clip"),
    Member("denominator came, in the noise alone", noise_by_root, "noise_length"),
    Member("a bias unclipped where kernels are short", server(bias_when_short), "clip"),
    Member("a bias unclipped", server(lambda u: [*clipped(u[:-1]), u[-1]]), "clip"),
    Member("outliers dropped by their length", outliers_dropped, "unlike"),
    Member("outliers dropped by their distance", far_ones_dropped, "unlike"),
    Member("noise 0.9 times, d = 10", small(((10,),), 0.9), "noise_length", shapes=((10,),)),
    Member("noise 0.9 times, d = 3", small(((2,), (1,)), 0.9), "noise_length", shapes=((2,), (1,))),
    Member("noise 0.9 times", server(noise=lambda r: normal(r, 0.9 * CLIP)), "noise_length"),
    Member("slow BatchNorm", slow_statistics, "memory", np.zeros(SHAPES[1])),
    Member("slow BatchNorm under noise", slow_noised_statistics, "memory", np.zeros(SHAPES[1])),
    Member("BatchNorm without noise", batch_statistics, "noise_length"),
    Member("noise for each client", noise_per_client, "noise_length"),
    Member("noise before the clip", noise_before_clip, "noise_length"),
    Member(
        "clip of each coordinate", server(lambda u: [np.clip(p, -CLIP, CLIP) for p in u]), "clip"
    ),
    Member("clip of each variable to C", server(lambda u: by_variable(u, CLIP)), "clip"),
    Member("clip by the squared norm", server(clip_by_square), "unlike"),
    Member("no clip", server(lambda u: u), "one_client"),
    Member("clip 1.05 times", server(lambda u: clipped(u, 1.05 * CLIP)), "one_client"),
    Member("clip of the sum", server(lambda u: u, of_sum=clipped), "denominator"),
    Member("clip of pairs", pairs, "one_client"),
    Member("clip at the median of this round", clip_of_own_median, "unlike"),
    Member(
        "one number for the noise of a variable", server(noise=one_number_a_variable), "noise_echo"
    ),
    Member("a variable without noise", server(noise=not_in(2)), "noise_length"),
    Member("a bias without noise", server(noise=not_in(3)), "noise_length"),
    Member(
        "noise of one seed",
        server(noise=lambda r: normal(np.random.default_rng(5))),
        "noise_length",
    ),
    Member(
        "noise of no seed", server(noise=lambda r: normal(np.random.default_rng())), "repeatable"
    ),
    Member("noise over n", server(noise=lambda r: normal(r, CLIP / COHORT)), "noise_length"),
    Member(
        "noise times a learning rate", server(noise=lambda r: normal(r, 0.5 * CLIP)), "noise_length"
    ),
    Member(
        "noise in float16",
        server(noise=lambda r: [p.astype(np.float16) for p in normal(r)]),
        "noise_resolution",
    ),
    Member("no noise in empty rounds", skips_empty, "noise_length"),
    Member(
        "noise that does not follow the clip",
        adaptive(noise_clip=CLIP, share=1.0),
        "noise_next",
        {"clip": CLIP},
    ),
    Member("every client twice", server(lambda u: scaled(clipped(u), 2)), "one_client"),
    Member("the first client twice", first_counts_double, "one_client"),
    Member("the longest update twice", longest_counts_double, "clip"),
    Member("an upload in four twice", retried, "every_client"),
    Member("weights by examples", server(by_examples), "every_client"),
    Member("clients of the last round kept", clients_kept, "memory", []),
    Member("left over for two rounds", kept_for_two_rounds, "memory", [zeros(), zeros()]),
    Member("momentum before noise", momentum_of(clipped), "memory", zeros()),
    Member("momentum of unclipped sums", momentum_of(lambda u: u), "one_client", zeros()),
    Member("a slow memory of unclipped sums", momentum_of(clipped, 1e-4), "memory", zeros()),
    Member("NaN counted in the denominator", nan_is_nothing, "not_finite"),
    Member("the median of clients", median, "unlike"),
    Member("an integer that overflows", server(of_sum=wrapped), "denominator"),
    Member(
        "n over a learning rate of 2", server(denominator=lambda count: COHORT / 2), "one_client"
    ),
    Member("n counted twice", server(denominator=lambda count: 2 * COHORT), "noise_length"),
)
