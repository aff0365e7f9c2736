"""Simulated rounds and scores of a planned run, drawn from their distributions without any vector.

No array here has d entries. In units of the round's clip norm S, the noised sum of round t is

    sum of its m canaries + real sum of norm r + z N(0, I),

and its norm is A. A canary's inner product with any vector that does not depend on it is Gaussian
with the vector's squared norm over d as its variance (Andrew et al. 2023, section 3). So a
canary's inner product with a round's noised sum is a Gaussian, plus 1 if it is in the round.

What real clients do is unknown before training. The sum of n real updates at the clip norm is
between sqrt(n) and n clip norms long: sqrt(n) if they are orthogonal, n if they are parallel. It is
shorter where updates are shorter than the clip norm, and an adaptive clip norm follows the norms of
updates. All unknowns are simulated at the ends of their range, so that a plan's interval covers
them.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from fl_audit.accounting.noise_distributions import noise_on_sum
from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.attacks.compared_vectors import ANY_VECTOR, ComparedVectors, Vectors
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.one_upload import ONE_UPLOAD
from fl_audit.config import ClientGaussian, GaussianAdaptive, GaussianFixed
from fl_audit.estimators import CanaryScores
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.verdict.exposure import largest_of_normals

SPREAD = 0.5
"""Standard deviation of the logarithm of real updates' norms in one round; an assumption."""

FACTOR = 10.0
"""Factor by which the median norm of a real update may exceed or fall below the clip norm."""


@dataclass(frozen=True)
class Unknowns:
    """One way in which real clients may behave.

    Attributes:
      alignment: Cosine between any two real updates of a round, in [0, 1].
      drift: Cosine between the real sums of any two rounds, in [0, 1]; it is also the squared
        cosine between a round's real sum and the part of it that all rounds share.
      first_norm: Median norm of a real update in the first round, over the config's clip norm.
      last_norm: The same in the last round; the logarithm is linear in between.
    """

    alignment: float
    drift: float
    first_norm: float
    last_norm: float


MIDDLE = Unknowns(alignment=0.1, drift=0.1, first_norm=1.0, last_norm=1.0)
"""The point for the tables' medians: nearly orthogonal updates, as in small models."""

_DIRECTIONS = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
"""Ends of alignment and drift, without drift for orthogonal updates, where it hardly occurs."""

_NORMS = tuple(itertools.product((1 / FACTOR, FACTOR), repeat=2))

ENDS = tuple(
    Unknowns(alignment, drift, first, last)
    for (alignment, drift), (first, last) in itertools.product(_DIRECTIONS, _NORMS)
)
"""The ends of the range, which a plan's intervals cover."""


# The path of the clip norm, and of the norm of the sum of real updates.


_MOST_CLIENTS = 1_000
"""The largest number of clients simulated in a round; each stands for several if there are more."""


_FARTHEST = 1e60
"""The largest clip norm that is followed; the float32 of a run ends at 1e38, squares overflow."""


@dataclass(frozen=True, eq=False)
class ClipPath:
    """Clip norms and norms of real sums in the rounds of several trials.

    Attributes:
      clip_norm: Norm S that the round's updates are clipped to, float64 of shape (trials, rounds).
      real_norm: Norm of the sum of clipped real updates over S, float64 of shape (trials, rounds).
    """

    clip_norm: FloatArray
    real_norm: FloatArray


def simulate_clip_path(
    run: PlannedRun, unknowns: Unknowns, trials: int, random: np.random.Generator
) -> ClipPath:
    """Simulates how the mechanism's own rule moves the clip norm.

    Norms of a round's real updates are log-normal around a median that `unknowns` gives. A canary
    is longer than any clip norm, so that it counts as clipped: where canaries are more than the
    target quantile leaves, the clip norm grows without end.
    """
    shape = (trials, run.num_rounds)
    clip_norms, real_norms = np.empty(shape), np.empty(shape)
    clip_norm: FloatArray = np.full(trials, run.mechanism.clip_norm)
    medians = clip_norm[0] * np.geomspace(unknowns.first_norm, unknowns.last_norm, run.num_rounds)
    for t, (median, clients) in enumerate(zip(medians, run.clients, strict=True)):
        num_simulated = min(int(clients), _MOST_CLIENTS)
        norms = median * np.exp(SPREAD * random.standard_normal((trials, num_simulated)))
        clipped = np.minimum(norms / clip_norm[:, None], 1.0)
        scale = clients / num_simulated if num_simulated else 0.0
        clip_norms[:, t] = clip_norm
        real_norms[:, t] = _norm_of_sum(clipped, scale, unknowns.alignment)
        unclipped = scale * np.sum(norms <= clip_norm[:, None], axis=1)
        clip_norm = _moved(run, clip_norm, unclipped, int(clients) + int(run.canaries[t]), random)
    return ClipPath(clip_norms, real_norms)


def _norm_of_sum(lengths: FloatArray, scale: float, alignment: float) -> FloatArray:
    """Norm of the sum of `scale` copies of vectors, any two of which have the same cosine."""
    of_squares = scale * np.sum(lengths**2, axis=1)
    square_of_sum = (scale * np.sum(lengths, axis=1)) ** 2
    return np.asarray(np.sqrt((1 - alignment) * of_squares + alignment * square_of_sum))


def _moved(
    run: PlannedRun,
    clip_norm: FloatArray,
    unclipped: FloatArray,
    cohort: int,
    random: np.random.Generator,
) -> FloatArray:
    """The next round's clip norm, S exp(-eta (b - gamma)) (Andrew et al. 2021, section 2.1).

    Here b is the noised share of unclipped updates. tensorflow-privacy counts an unclipped update
    as +1/2 and a clipped one as -1/2, divides the sum by the expected cohort (by the actual one
    without noise) and clips the share to [0, 1].
    """
    mechanism = run.mechanism
    match mechanism:
        case GaussianFixed() | ClientGaussian():
            return clip_norm
        case GaussianAdaptive():
            pass
        case _:
            assert_never(mechanism)
    if mechanism.multiplier == 0:
        share = unclipped / cohort if cohort else np.full(len(clip_norm), mechanism.target_quantile)
    else:
        noise = run.noise.count_noise_stddev * random.standard_normal(len(clip_norm))
        share = 0.5 + (unclipped - cohort / 2 + noise) / run.schedule.expected_cohort
    error = np.clip(share, 0.0, 1.0) - mechanism.target_quantile
    with np.errstate(over="ignore"):  # beyond every float is beyond the farthest, too
        moved = clip_norm * np.exp(-mechanism.clip_learning_rate * error)
    return np.asarray(np.clip(moved, 1 / _FARTHEST, _FARTHEST))


@dataclass(frozen=True, eq=False)
class TrialScores:
    """One trial's scores.

    Attributes:
      compared: What a run would know of the compared vectors, by statistic.
    """

    scores: Mapping[str, CanaryScores]
    compared: Mapping[str, ComparedVectors]


# Scores, given which canary is in which round.


_GROUPS = 8
"""Number of groups of rounds with a similar shared part, for the maximum over rounds."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of one trial.

    Attributes:
      clip_norm: Clip norm S of each round, float64 of shape (rounds,).
      real_norm: Norm r of the real sum over S, float64 of shape (rounds,).
      noise: Standard deviation z of the noise on a coordinate of the sum over S, float64 of shape
        (rounds,).
      norm: Norm A of the noised sum over S, float64 of shape (rounds,).
    """

    clip_norm: FloatArray
    real_norm: FloatArray
    noise: FloatArray
    norm: FloatArray


def draw_rounds(run: PlannedRun, path: ClipPath, trial: int, random: np.random.Generator) -> Rounds:
    """Draws one trial's rounds, which means the norms of their noised sums."""
    m, r = run.canaries, path.real_norm[trial]
    dim, z = run.task.dim, noise_on_sum(run.noise, m + run.clients)
    cross = 2 * m * (m - 1) * run.canary_correlation + 4 * m * r**2
    signal = m + r**2 + np.sqrt(cross / dim) * random.standard_normal(len(m))
    squares = _squared_norms(np.maximum(signal, 0), z, dim, random)
    return Rounds(path.clip_norm[trial], r, z, np.sqrt(squares))


def draw_scores(
    run: PlannedRun, unknowns: Unknowns, rounds: Rounds, random: np.random.Generator
) -> TrialScores:
    """Draws one trial's scores by statistic.

    Given the rounds, the maximum over rounds is drawn independently of the other statistics,
    because it depends on one of T rounds and they depend on all.
    """
    by_statistic = {
        **_sums_and_models(run, unknowns, rounds, random),
        "max": _maxima(run, unknowns, rounds, random),
    }
    compared = {"max": ComparedVectors((Vectors(run.num_rounds),))}
    length = _length_of_sum(run, unknowns, rounds)
    if length > 0:
        compared["sum"] = ComparedVectors((Vectors(1),), length)
    return TrialScores(
        scores={name: run.canary_scores(scores) for name, scores in by_statistic.items()},
        compared=compared,
    )


def _length_of_sum(run: PlannedRun, unknowns: Unknowns, rounds: Rounds) -> float:
    """Length of the sum of the rounds' directions, sqrt(d) times an excluded score's deviation."""
    total = _Combination.from_weights(run, _ratio(np.ones(run.num_rounds), rounds.norm))
    variance = _covariance(run, unknowns, rounds, total, total)[~run.included]
    return float(np.sqrt(run.task.dim * max(variance[0], 0.0)))


def _squared_norms(
    signal: FloatArray, noise: FloatArray, dim: int, random: np.random.Generator
) -> FloatArray:
    """Squared norms of vectors of squared norm `signal` plus Gaussian noise on each coordinate."""
    projection = 2 * np.sqrt(signal) * noise * random.standard_normal(signal.shape)
    squares = signal + projection + noise**2 * random.chisquare(dim, signal.shape)
    return np.asarray(np.maximum(squares, 0.0))


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """The quotient; 0 where the denominator is 0, as where nothing is released."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def cosine(product: FloatArray, norm: FloatArray) -> FloatArray:
    """The cosine of a unit vector, from inner product and norm, clipped to [-1, 1] as in a run."""
    return np.clip(_ratio(product, norm), -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class _Combination:
    """A weighted sum over rounds of the noised sums, each divided by its clip norm.

    Attributes:
      own: Sum of the weights of the rounds that each canary is in, float64 of shape
        (num_canaries,).
      weights: The weights, float64 of shape (rounds,).
    """

    own: FloatArray
    weights: FloatArray

    @classmethod
    def from_weights(cls, run: PlannedRun, weights: FloatArray) -> "_Combination":
        own = np.bincount(run.canary, weights[run.round], minlength=run.num_canaries)
        return cls(own.astype(np.float64), weights)


def _covariance(
    run: PlannedRun, unknowns: Unknowns, rounds: Rounds, a: _Combination, b: _Combination
) -> FloatArray:
    """Covariance of each canary's inner products with two combinations, without its own part.

    The result is float64 of shape (num_canaries,).
    """
    canaries = run.canary_correlation * (a.own @ b.own - a.own * b.own)
    real = _real_product(unknowns, rounds, a.weights, b.weights)
    noise = (rounds.noise**2 * a.weights) @ b.weights
    return np.asarray((canaries + real) / run.task.dim + noise)


def _real_product(unknowns: Unknowns, rounds: Rounds, a: FloatArray, b: FloatArray) -> float:
    """Inner product of two combinations of the rounds' real sums."""
    r, p = rounds.real_norm, unknowns.drift
    return float(p * (a @ r) * (b @ r) + (1 - p) * ((a * r) @ (b * r)))


def _sums_and_models(
    run: PlannedRun, unknowns: Unknowns, rounds: Rounds, random: np.random.Generator
) -> dict[str, FloatArray]:
    """Draws the scores on `sum` and, where their distribution is simulated, on the models together.

    Each array is float64 of shape (num_canaries,).
    """
    first, second = random.standard_normal((2, run.num_canaries))
    total = _Combination.from_weights(run, _ratio(np.ones(run.num_rounds), rounds.norm))
    of_total = _covariance(run, unknowns, rounds, total, total)
    if run.server is None:
        return {"sum": total.own + np.sqrt(np.maximum(of_total, 0)) * first}
    applied = run.round_weights(run.server) / run.schedule.expected_cohort
    change = _Combination.from_weights(run, applied * rounds.clip_norm)
    variance = _covariance(run, unknowns, rounds, change, change)
    shared = _covariance(run, unknowns, rounds, change, total)
    slope = np.divide(shared, variance, out=np.zeros_like(shared), where=variance > 0)
    noise = np.sqrt(np.maximum(variance, 0)) * first
    rest = np.sqrt(np.maximum(of_total - slope * shared, 0)) * second
    return {
        "sum": total.own + slope * noise + rest,
        **_models(
            run, change.own + noise, _change_square(run, unknowns, rounds, change, random), random
        ),
    }


def _models(
    run: PlannedRun, products: FloatArray, square: float, random: np.random.Generator
) -> dict[str, FloatArray]:
    """Draws the scores on the models, each float64 of shape (num_canaries,)."""
    dim, initial = run.task.dim, run.task.initial_norm
    start = initial / np.sqrt(dim) * random.standard_normal(run.num_canaries)
    # The change's projection on the initial model, which is independent of noise and canaries.
    along = initial * np.sqrt(square / dim) * random.standard_normal()
    final_square = max(initial**2 + 2 * along + square, 0.0)
    return {
        "final_minus_initial": cosine(products, np.array(np.sqrt(square))),
        "final": cosine(products + start, np.array(np.sqrt(final_square))),
    }


def _change_square(
    run: PlannedRun,
    unknowns: Unknowns,
    rounds: Rounds,
    change: _Combination,
    random: np.random.Generator,
) -> float:
    """Squared norm of the final minus the initial model."""
    of_canaries = float(change.own @ change.own)
    fourth = float(np.sum(change.own**4))
    cross = 2 * run.canary_correlation * (of_canaries**2 - fourth) / run.task.dim
    of_canaries += np.sqrt(max(cross, 0.0)) * random.standard_normal()
    signal = of_canaries + _real_product(unknowns, rounds, change.weights, change.weights)
    noise = np.linalg.norm(rounds.noise * change.weights)
    square = _squared_norms(np.array([max(signal, 0.0)]), np.array([noise]), run.task.dim, random)
    return float(square[0])


def _maxima(
    run: PlannedRun, unknowns: Unknowns, rounds: Rounds, random: np.random.Generator
) -> FloatArray:
    """Largest cosine of each canary with any round's noised sum, float64 of shape (num_canaries,).

    The cosine with a round that a canary is not in is the sum of a part that all rounds share and
    of a part that is the round's own. The weight of the shared part is the root of the share of the
    round's squared norm that other rounds have in common. Rounds are grouped by that share; the
    largest of n own parts is drawn at once, as the U^(1 / n) quantile of the normal distribution.
    """
    shared = random.standard_normal(run.num_canaries)
    share = shared_share(run, unknowns, rounds)
    deviation = _ratio(product_deviation(run, rounds, run.canaries.astype(np.float64)), rounds.norm)
    group = _groups(share)
    sizes = np.bincount(group)
    participations = np.bincount(
        run.canary * len(sizes) + group[run.round], minlength=run.num_canaries * len(sizes)
    ).reshape(-1, len(sizes))
    largest = np.full(run.num_canaries, -np.inf)
    for number, size in enumerate(sizes):
        weight = float(np.mean(share[group == number]))
        absent = size - participations[:, number]
        own = largest_of_normals(np.maximum(absent, 1), random)
        cosine = np.sqrt(weight) * shared + np.sqrt(1 - weight) * own
        cosine *= np.mean(deviation[group == number])
        np.maximum(largest, np.where(absent > 0, cosine, -np.inf), out=largest)
    np.maximum.at(largest, run.canary, _own_cosines(run, rounds, share, shared, random))
    return np.clip(largest, -1.0, 1.0)


def _own_cosines(
    run: PlannedRun,
    rounds: Rounds,
    share: FloatArray,
    shared: FloatArray,
    random: np.random.Generator,
) -> FloatArray:
    """Cosine of each participating canary with its round, float64 of shape (participations,)."""
    common = share[run.round]
    noise = np.sqrt(common) * shared[run.canary]
    noise += np.sqrt(1 - common) * random.standard_normal(len(run.canary))
    deviation = product_deviation(run, rounds, np.maximum(run.canaries - 1.0, 0.0))
    return cosine(1 + deviation[run.round] * noise, rounds.norm[run.round])


def product_deviation(run: PlannedRun, rounds: Rounds, others: FloatArray) -> FloatArray:
    """Standard deviation, by round, of an inner product with noise, clients, `others` canaries."""
    vectors = others * run.canary_correlation + rounds.real_norm**2
    return np.asarray(np.sqrt(vectors / run.task.dim + rounds.noise**2))


def shared_share(run: PlannedRun, unknowns: Unknowns, rounds: Rounds) -> FloatArray:
    """Share of each noised sum's squared norm that other rounds have in common, by round."""
    m = run.canaries
    per_canary = np.bincount(run.canary, minlength=run.num_canaries)
    pairs = float(np.sum(np.sqrt(m))) ** 2 - len(run.canary)
    overlap = float(per_canary @ (per_canary - 1)) / pairs if pairs > 0 else 0.0
    common = unknowns.drift * rounds.real_norm**2 + overlap * run.canary_correlation * m
    return np.clip(_ratio(common, rounds.norm**2), 0.0, 1.0)


def _groups(share: FloatArray) -> IndexArray:
    """Group of each round, from 0, int64 of shape (rounds,); one group where nothing is shared."""
    if not np.any(share > 0):
        return np.zeros(len(share), np.int64)
    count = min(_GROUPS, len(share))
    groups = np.empty(len(share), np.int64)
    groups[np.argsort(share)] = np.arange(len(share)) * count // len(share)
    return groups


# Scores of canaries in their own rounds.


def with_own_rounds(
    trial: TrialScores,
    run: PlannedRun,
    unknowns: Unknowns,
    rounds: Rounds,
    random: np.random.Generator,
) -> TrialScores:
    """Adds one trial's scores on `own_rounds`, drawn independently of the others.

    A canary is compared with its assigned rounds, included or not: with one the score is the cosine
    there, with several the cosine with U, the sum of their directions: the sum of the cosines over
    ||U||. Directions have inner products sqrt(s_i s_j) where s_i is the share of round i that
    rounds have in common, and what an included canary adds to both.
    """
    canary, number = run.canary_rounds
    is_in = run.included[canary]
    others = run.canaries - 1.0
    deviation = np.where(
        is_in,
        product_deviation(run, rounds, np.maximum(others, 0.0))[number],
        product_deviation(run, rounds, others + 1)[number],
    )
    share = shared_share(run, unknowns, rounds)[number]
    noise = np.sqrt(share) * random.standard_normal(run.num_canaries)[canary]
    noise += np.sqrt(1 - share) * random.standard_normal(len(canary))
    cosines = cosine(is_in + deviation * noise, rounds.norm[number])
    per_canary = functools.partial(np.bincount, canary, minlength=run.num_canaries)
    total = per_canary(cosines)
    squared_norm = per_canary(1 - share) + per_canary(np.sqrt(share)) ** 2
    squared_norm += per_canary(is_in * cosines) ** 2 - per_canary(is_in * cosines**2)
    nowhere = random.standard_normal(run.num_canaries) / np.sqrt(run.task.dim)
    has_rounds = squared_norm > 0
    scores = np.where(has_rounds, total / np.sqrt(np.where(has_rounds, squared_norm, 1.0)), nowhere)
    return dataclasses.replace(
        trial,
        scores={**trial.scores, OWN_ROUNDS.name: run.canary_scores(scores)},
        compared={**trial.compared, OWN_ROUNDS.name: ANY_VECTOR},
    )


def with_uploads(trial: TrialScores, run: PlannedRun, random: np.random.Generator) -> TrialScores:
    """Adds one trial's scores on `one_upload`, where clients add the noise.

    With K uploads v of one length, U is their sum: <c, U> is N(K, K z^2) where the canary is
    included and |U|^2 has the noise of one vector of z sqrt(K). A canary without uploads, such as
    an excluded one, has the cosine with a random vector, which has the same distribution as without
    signal.
    """
    if not isinstance(run.mechanism, ClientGaussian):
        return trial
    uploads = np.bincount(run.canary, minlength=run.num_canaries).astype(np.float64)
    is_in = uploads > 0
    noise = np.where(is_in, run.noise.sum_noise_multiplier * np.sqrt(uploads), 1.0)
    along = noise * random.standard_normal(run.num_canaries)
    across = noise**2 * random.chisquare(run.task.dim - 1, run.num_canaries)
    products = uploads + along
    scores = run.canary_scores(cosine(products, np.sqrt(products**2 + across)))
    return dataclasses.replace(
        trial,
        scores={**trial.scores, ONE_UPLOAD.name: scores},
        compared={**trial.compared, ONE_UPLOAD.name: ANY_VECTOR},
    )
