"""Servers of NumPy, a right one and ones that are each wrong in one place.

Each is a function of state, updates and randomness, as `fl_audit.replay_round` takes it. The state
is a dictionary with the `round` and the `clip` norm. C is the clip norm, z the noise multiplier, n
the denominator.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fl_audit.array_types import FloatArray

SHAPES = ((64, 24), (24,), (24, 10), (10,))
DIM = sum(int(np.prod(shape)) for shape in SHAPES)
CLIP, NOISE, DENOMINATOR = 0.3, 1.43, 12.5
COUNT_STDDEV = 1.0
"""The noise on the count of unclipped updates, in clients, where the clip norm adapts."""

SUM_NOISE = (NOISE**-2 - (2 * COUNT_STDDEV) ** -2) ** -0.5
"""The noise multiplier of the sum that pays for the count (Andrew et al. 2021, theorem 1)."""

Arrays = list[FloatArray]
Server = Callable[
    [dict[str, Any], list[Arrays], np.random.Generator], tuple[dict[str, Any], Arrays]
]
Preprocess = Callable[[Arrays, float], Arrays]
Noise = Callable[[np.random.Generator, float], Arrays]


def norm_of(update: Sequence[FloatArray]) -> float:
    """The L2 norm of an update's variables together."""
    return float(np.sqrt(sum(np.sum(np.square(part, dtype=np.float64)) for part in update)))


def clipped(update: Arrays, clip: float) -> Arrays:
    """The update, scaled down to the clip norm."""
    scale = min(1.0, clip / max(norm_of(update), 1e-30))
    return [part * scale for part in update]


def normal(random: np.random.Generator, stddev: float) -> Arrays:
    """Gaussian noise on every variable."""
    return [random.normal(0, stddev, shape) for shape in SHAPES]


def zeros() -> Arrays:
    """No noise, or an empty sum."""
    return [np.zeros(shape) for shape in SHAPES]


def added(first: Arrays, second: Sequence[FloatArray]) -> Arrays:
    """The sum of two updates."""
    return [a + b for a, b in zip(first, second, strict=True)]


def summed(updates: Sequence[Sequence[FloatArray]]) -> Arrays:
    """The sum of updates."""
    total = zeros()
    for update in updates:
        total = added(total, update)
    return total


def server(
    preprocess: Preprocess = clipped,
    noise: Noise = normal,
    multiplier: float = NOISE,
    denominator: Callable[[int], float] = lambda count: DENOMINATOR,
) -> Server:
    """The right server, or one with a part replaced."""

    def of_round(state: Any, updates: Any, random: np.random.Generator) -> Any:
        clip = state["clip"]
        total = summed([preprocess(update, clip) for update in updates])
        noised = added(total, noise(random, multiplier * clip))
        after = {**state, "round": state["round"] + 1}
        return after, [part / denominator(len(updates)) for part in noised]

    return of_round


def share_of_data_set(count: int) -> float:
    """The sampling rate times the size of the data set: who came, and 230 others."""
    return DENOMINATOR * (count + 230) / 250


CLIP_QUANTILE, CLIP_RATE = 0.6, 0.2


def adaptive(
    multiplier: float = SUM_NOISE,
    first_clip: float | None = None,
    count_stddev: float = COUNT_STDDEV,
) -> Server:
    """A server whose clip norm follows a noised count; noise at another norm if one is given.

    The count is from one half, so that a client changes it by one half.
    """

    def of_round(state: Any, updates: Any, random: np.random.Generator) -> Any:
        clip = state["clip"]
        noise = normal(random, multiplier * (first_clip or clip))
        below = sum(norm_of(update) <= clip for update in updates)
        count = below - len(updates) / 2 + random.normal(0, count_stddev)
        share = min(1.0, max(0.0, count / DENOMINATOR + 0.5))
        total = summed([clipped(update, clip) for update in updates])
        moved = clip * np.exp(CLIP_RATE * (CLIP_QUANTILE - share))
        after = {**state, "round": state["round"] + 1, "clip": moved}
        return after, [part / DENOMINATOR for part in added(total, noise)]

    return of_round


def noised_then_clipped(state: Any, updates: Any, random: np.random.Generator) -> Any:
    """Each client adds its share of the noise before it clips."""
    share = NOISE * state["clip"] / np.sqrt(DENOMINATOR)
    sent = [clipped(added(update, normal(random, share)), state["clip"]) for update in updates]
    return state, [part / DENOMINATOR for part in summed(sent)]


def unclipped(variable: int) -> Preprocess:
    """A clip that leaves one variable out."""

    def preprocess(update: Arrays, clip: float) -> Arrays:
        rest = [np.zeros_like(p) if i == variable else p for i, p in enumerate(update)]
        small = clipped(rest, clip)
        small[variable] = update[variable]
        return small

    return preprocess


def clip_of_sum(state: Any, updates: Any, random: np.random.Generator) -> Any:
    """The sum is clipped, not the updates."""
    total = clipped(summed(updates), state["clip"])
    noised = added(total, normal(random, NOISE * state["clip"]))
    return state, [part / DENOMINATOR for part in noised]


def clip_of_noised_sum(state: Any, updates: Any, random: np.random.Generator) -> Any:
    """Noise is added to the sum of unclipped updates, and the result is clipped."""
    noised = added(summed(updates), normal(random, NOISE * state["clip"]))
    return state, [part / DENOMINATOR for part in clipped(noised, 50 * state["clip"])]


def retried(state: Any, updates: Any, random: np.random.Generator) -> Any:
    """One upload in ten is counted twice."""
    draws = random.spawn(1)[0]
    sent = [update for update in updates for _ in range(1 + int(draws.random() < 0.1))]
    return server()(state, sent, random)


def weighted(state: Any, updates: Any, random: np.random.Generator) -> Any:
    """Clients weigh as much as they have examples, 1 to 5."""
    counts = [1 + int(abs(update[0].flat[0]) * 1e6) % 5 for update in updates]
    sent = [
        [n * p for p in clipped(u, state["clip"])] for n, u in zip(counts, updates, strict=True)
    ]
    return server(lambda update, clip: update)(state, sent, random)


def microbatches(state: Any, updates: Any, random: np.random.Generator) -> Any:
    """Pairs of clients are averaged and clipped together, each pair counting for two."""
    pairs = [updates[i : i + 2] for i in range(0, len(updates), 2)]
    means = [[part / len(pair) for part in summed(pair)] for pair in pairs]
    sent = [[2 * part for part in clipped(mean, state["clip"])] for mean in means]
    return server(lambda update, clip: update)(state, sent, random)


def no_noise_when_empty(state: Any, updates: Any, random: np.random.Generator) -> Any:
    """A round without clients is skipped, and its noise with it."""
    return server()(state, updates, random) if updates else (state, zeros())


def momentum_before_noise(state: Any, updates: Any, random: np.random.Generator) -> Any:
    """Momentum of the sums is released, with one round's noise on it."""
    fresh = summed([clipped(update, state["clip"]) for update in updates])
    velocity = [0.9 * part for part in state.get("velocity", zeros())]
    state = {**state, "velocity": added(velocity, fresh)}
    noised = added(state["velocity"], normal(random, NOISE * state["clip"]))
    return state, [part / DENOMINATOR for part in noised]


def overflowing(state: Any, updates: Any, random: np.random.Generator) -> Any:
    """A sum of 8-bit integers without room for the carry."""
    step = state["clip"] / 100
    total = zeros()
    for update in updates:
        small = clipped(update, state["clip"])
        total = added(total, [np.rint(part / step) for part in small])
    wrapped = [((part + 8) % 16 - 8) * step for part in total]
    noised = added(wrapped, normal(random, NOISE * state["clip"]))
    return state, [part / DENOMINATOR for part in noised]


def reseeded(seed_of: Callable[[dict[str, Any]], int]) -> Server:
    """Noise from a seed that the state gives, and not the round's randomness."""

    def of_round(state: Any, updates: Any, random: np.random.Generator) -> Any:
        del random
        return server()(state, updates, np.random.default_rng(seed_of(state)))

    return of_round


def restarted_trees(state: Any, updates: Any, random: np.random.Generator) -> Any:
    """Trees of eight rounds, whose restart begins with the same nodes again."""
    return reseeded(lambda state: 100 + state["round"] % 8)(state, updates, random)


def correlated(
    column: Sequence[float],
    *,
    multiplier: float = NOISE,
    restart_every: int | None = None,
    z_every: int = 1,
) -> Server:
    """Noise C^-1 z, row by row, for the strategy with this first column.

    Args:
      column: The first column of C.
      multiplier: The standard deviation of z, in clip norms.
      restart_every: The number of rounds after which the stream begins again, as after a resume
        that has lost what it keeps; None for never.
      z_every: The number of rounds that share one row of z.
    """
    first, *below = column

    def of_round(state: Any, updates: Any, random: np.random.Generator) -> Any:
        clip, number = state["clip"], state["round"]
        past = state.get("past", [])
        if restart_every is not None and number % restart_every == 0:
            past = []
        z = normal(random, multiplier * clip)
        if number % z_every and "z" in state:
            z = state["z"]
        row = z
        for entry, earlier in zip(below, past, strict=False):
            row = [part - entry * old for part, old in zip(row, earlier, strict=True)]
        row = [part / first for part in row]
        noised = added(summed([clipped(update, clip) for update in updates]), row)
        kept = [row, *past][: len(below)]
        after = {**state, "round": number + 1, "past": kept, "z": z}
        return after, [part / DENOMINATOR for part in noised]

    return of_round


def one_key(random: np.random.Generator, stddev: float) -> Arrays:
    """One key for the noise of all variables."""
    key = int(random.integers(2**31))
    return [np.random.default_rng(key).normal(0, stddev, shape) for shape in SHAPES]


def same_pieces(random: np.random.Generator, stddev: float) -> Arrays:
    """Four workers that hold a piece of the model each add noise from one seed."""
    piece = random.normal(0, stddev, -(-DIM // 4))
    whole = np.tile(piece, 4)[:DIM]
    ends = np.cumsum([int(np.prod(shape)) for shape in SHAPES])[:-1]
    return [p.reshape(s) for p, s in zip(np.split(whole, ends), SHAPES, strict=True)]


def same_workers(random: np.random.Generator, stddev: float) -> Arrays:
    """Four workers that each sum a part of the cohort add noise from one seed."""
    return [4 * part for part in normal(random, stddev / 2)]


def with_holes(random: np.random.Generator, stddev: float) -> Arrays:
    """A tenth of the coordinates has no noise."""
    return [part * (random.random(part.shape) > 0.1) for part in normal(random, stddev)]


def in_float16(random: np.random.Generator, stddev: float) -> Arrays:
    """Noise in half precision."""
    return [part.astype(np.float16).astype(np.float64) for part in normal(random, stddev)]


def but_the_last_bias(random: np.random.Generator, stddev: float) -> Arrays:
    """No noise on the last bias."""
    return [*normal(random, stddev)[:-1], np.zeros(SHAPES[-1])]


def clamped(update: Arrays, clip: float) -> Arrays:
    """Every coordinate clamped to the clip norm, not the update's length."""
    return [np.clip(part, -clip, clip) for part in update]
