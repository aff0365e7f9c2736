"""The simulated scores of canaries, drawn from their law given which canary is in which round.

No array here has d entries. In units of the round's clip norm S, the noised sum of round t is

    sum of its m canaries + real sum of norm r + z N(0, I),

and its norm is A. A canary's inner product with any vector that does not depend on it is Gaussian
with the vector's squared norm over d as its variance (Andrew et al. 2023, section 3). So a
canary's inner product with a round's noised sum is a Gaussian, plus 1 if it is in the round.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.attacks.compared_vectors import ComparedVectors, Vectors
from fl_audit.planning.clip_path import ClipPath
from fl_audit.planning.drawn_scores import DrawnScores
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.unknowns import Unknowns

_GROUPS = 8
"""Number of groups of rounds with a similar shared part, for the maximum over rounds."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of one trial.

    Attributes:
      clip_norm: Clip norm S of each round, float64 of shape (rounds,).
      real_norm: Norm r of the real sum over S, float64 of shape (rounds,).
      noise: Standard deviation z of the noise on a coordinate over S.
      norm: Norm A of the noised sum over S, float64 of shape (rounds,).
    """

    clip_norm: FloatArray
    real_norm: FloatArray
    noise: float
    norm: FloatArray


def draw_rounds(run: PlannedRun, path: ClipPath, trial: int, random: np.random.Generator) -> Rounds:
    """Draws one trial's rounds, which means the norms of their noised sums.

    Args:
      run: The planned run.
      path: The paths of the clip norm.
      trial: Index of the trial in `path`.
      random: Source of random numbers.
    """
    m, r = run.canaries, path.real_norm[trial]
    dim, z = run.task.dim, run.noise.sum_noise_multiplier
    cross = 2 * m * (m - 1) * run.canary_correlation + 4 * m * r**2
    signal = m + r**2 + np.sqrt(cross / dim) * random.standard_normal(len(m))
    squares = _squared_norms(np.maximum(signal, 0), np.full(len(m), z), dim, random)
    return Rounds(path.clip_norm[trial], r, z, np.sqrt(squares))


def draw_scores(
    run: PlannedRun, unknowns: Unknowns, rounds: Rounds, random: np.random.Generator
) -> DrawnScores:
    """Draws one trial's scores by statistic.

    Given the rounds, the maximum over rounds is drawn independently of the other statistics,
    because it depends on one of T rounds and they depend on all.

    Args:
      run: The planned run.
      unknowns: How real clients behave.
      rounds: The rounds of the same trial.
      random: Source of random numbers.
    """
    drawn = {
        **_sums_and_models(run, unknowns, rounds, random),
        "max": _maxima(run, unknowns, rounds, random),
    }
    compared = {"max": ComparedVectors((Vectors(run.num_rounds),))}
    length = _length_of_sum(run, unknowns, rounds)
    if length > 0:
        compared["sum"] = ComparedVectors((Vectors(1),), length)
    return DrawnScores(
        scores={name: run.canary_scores(scores) for name, scores in drawn.items()},
        compared=compared,
    )


def _length_of_sum(run: PlannedRun, unknowns: Unknowns, rounds: Rounds) -> float:
    """Length of the sum of the rounds' directions, sqrt(d) times an excluded score's deviation."""
    total = _Combination.of(run, _ratio(np.ones(run.num_rounds), rounds.norm))
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
    def of(cls, run: PlannedRun, weights: FloatArray) -> "_Combination":
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
    noise = rounds.noise**2 * (a.weights @ b.weights)
    return np.asarray((canaries + real) / run.task.dim + noise)


def _real_product(unknowns: Unknowns, rounds: Rounds, a: FloatArray, b: FloatArray) -> float:
    """Inner product of two combinations of the rounds' real sums."""
    r, p = rounds.real_norm, unknowns.drift
    return float(p * (a @ r) * (b @ r) + (1 - p) * ((a * r) @ (b * r)))


def _sums_and_models(
    run: PlannedRun, unknowns: Unknowns, rounds: Rounds, random: np.random.Generator
) -> dict[str, FloatArray]:
    """Draws the scores on `sum` and, where their law is simulated, on the models together.

    Each array is float64 of shape (num_canaries,).
    """
    first, second = random.standard_normal((2, run.num_canaries))
    total = _Combination.of(run, _ratio(np.ones(run.num_rounds), rounds.norm))
    of_total = _covariance(run, unknowns, rounds, total, total)
    if run.server is None:
        return {"sum": total.own + np.sqrt(np.maximum(of_total, 0)) * first}
    applied = run.round_weights(run.server) / run.schedule.expected_cohort
    change = _Combination.of(run, applied * rounds.clip_norm)
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
    """Draws the scores on the models, each float64 of shape (num_canaries,).

    Args:
      run: The planned run.
      products: Inner product of each canary with the final minus the initial model, float64 of
        shape (num_canaries,).
      square: Squared norm of that difference.
      random: Source of random numbers.
    """
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
    noise = rounds.noise * np.linalg.norm(change.weights)
    square = _squared_norms(np.array([max(signal, 0.0)]), np.array([noise]), run.task.dim, random)
    return float(square[0])


def _maxima(
    run: PlannedRun, unknowns: Unknowns, rounds: Rounds, random: np.random.Generator
) -> FloatArray:
    """Largest cosine of each canary with any round's noised sum, float64 of shape (num_canaries,).

    The cosine with a round that a canary is not in is the sum of a part that all rounds share and
    of a part that is the round's own. The weight of the shared part is the root of the share of the
    round's squared norm that other rounds have in common. Rounds are grouped by that share; the
    largest of n own parts is drawn at once, as the U^(1 / n) quantile of the normal law.
    """
    shared = random.standard_normal(run.num_canaries)
    share = shared_share(run, unknowns, rounds)
    deviation = _ratio(product_deviation(run, rounds, run.canaries.astype(np.float64)), rounds.norm)
    group = _groups(share)
    sizes = np.bincount(group)
    presented = np.bincount(
        run.canary * len(sizes) + group[run.round], minlength=run.num_canaries * len(sizes)
    ).reshape(-1, len(sizes))
    largest = np.full(run.num_canaries, -np.inf)
    for number, size in enumerate(sizes):
        weight = float(np.mean(share[group == number]))
        absent = size - presented[:, number]
        own = _largest_of(np.maximum(absent, 1), random)
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
    """Cosine of each presented canary with its round, float64 of shape (presentations,)."""
    common = share[run.round]
    noise = np.sqrt(common) * shared[run.canary]
    noise += np.sqrt(1 - common) * random.standard_normal(len(run.canary))
    deviation = product_deviation(run, rounds, np.maximum(run.canaries - 1.0, 0.0))
    return cosine(1 + deviation[run.round] * noise, rounds.norm[run.round])


def product_deviation(run: PlannedRun, rounds: Rounds, others: FloatArray) -> FloatArray:
    """Deviation by round of a canary's inner product with noise, real sum and `others` canaries."""
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


def _groups(share: FloatArray) -> npt.NDArray[np.int64]:
    """Group of each round, from 0, int64 of shape (rounds,); one group where nothing is shared."""
    if not np.any(share > 0):
        return np.zeros(len(share), np.int64)
    count = min(_GROUPS, len(share))
    groups = np.empty(len(share), np.int64)
    groups[np.argsort(share)] = np.arange(len(share)) * count // len(share)
    return groups


def _largest_of(numbers: npt.NDArray[np.int64], random: np.random.Generator) -> FloatArray:
    """Draws the largest of n standard normal numbers, for each n in `numbers`, at least 1."""
    return np.asarray(special.ndtri_exp(-random.standard_exponential(len(numbers)) / numbers))
