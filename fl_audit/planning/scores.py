"""Scores of every canary, drawn from their law given who was in which round.

Nothing here is d-dimensional. In units of the round's clip norm S, the noised sum of round t is

    sum of its m canaries + real sum of norm r + z N(0, I),

whose norm is A. A canary's inner product with any vector that does not depend on it is Gaussian
with the vector's squared norm over d as its variance (Andrew et al. 2023, section 3). So a
canary's inner product with a round's noised sum is 1 if it is in the round, plus a Gaussian.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.attacks.compared_vectors import ComparedVectors, Vectors
from fl_audit.estimators import CanaryScores
from fl_audit.planning.clip_path import ClipPath
from fl_audit.planning.drawn_scores import DrawnScores
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.unknowns import Unknowns

_GROUPS = 8
"""Of rounds alike in what they share with others, for the maximum over rounds."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """One trial's rounds, each array of shape (rounds,).

    Attributes:
      clip_norm: S.
      real_norm: r, norm of the real sum over S.
      noise: z, standard deviation of the noise on a coordinate over S.
      norm: A, norm of the noised sum over S.
    """

    clip_norm: FloatArray
    real_norm: FloatArray
    noise: float
    norm: FloatArray


def draw_rounds(run: PlannedRun, path: ClipPath, trial: int, random: np.random.Generator) -> Rounds:
    """One trial's rounds: the norms of their noised sums.

    Args:
      run: the planned run.
      path: of the clip norm.
      trial: which of its paths.
      random: of the trial.
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
    """One trial's scores.

    The maximum over rounds is drawn independently of the others, given the rounds: it rests on one
    round in T, they rest on all.

    Args:
      run: the planned run.
      unknowns: of real clients.
      rounds: of the same trial.
      random: of the trial.
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
        scores={
            name: CanaryScores(scores[run.included], scores[~run.included])
            for name, scores in drawn.items()
        },
        compared=compared,
    )


def _length_of_sum(run: PlannedRun, unknowns: Unknowns, rounds: Rounds) -> float:
    """Length of the sum of the rounds' directions: sqrt(d) deviations of an excluded canary's."""
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
    """A quotient; 0 where the denominator is, as where nothing is released."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _cosine(product: FloatArray, norm: FloatArray) -> FloatArray:
    """Inner product with a unit vector over a norm, as a run has it: in [-1, 1]."""
    return np.clip(_ratio(product, norm), -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class _Combination:
    """A sum over rounds of the noised sums with weights, as each canary meets it.

    Attributes:
      own: [k] weights of the rounds that the canary is in, summed.
      weights: [rounds] of the noised sums over their clip norms.
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
    """[k] covariance of a canary's inner products with two combinations, its own part left out."""
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
    """[k] scores each on `sum` and, where their law is simulated, on the models, drawn together."""
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
    """[k] scores each on the models.

    Args:
      run: the planned run.
      products: [k] inner product of each canary with the final minus the initial model.
      square: squared norm of that difference.
      random: of the trial.
    """
    dim, initial = run.task.dim, run.task.initial_norm
    start = initial / np.sqrt(dim) * random.standard_normal(run.num_canaries)
    # The change's projection on the initial model, of which noise and canaries know nothing.
    along = initial * np.sqrt(square / dim) * random.standard_normal()
    final_square = max(initial**2 + 2 * along + square, 0.0)
    return {
        "final_minus_initial": _cosine(products, np.array(np.sqrt(square))),
        "final": _cosine(products + start, np.array(np.sqrt(final_square))),
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
    """[k] largest cosine of each canary with any round's noised sum.

    A cosine with a round that a canary is not in is one factor that all rounds share, its weight
    the root of the share of the round's squared norm that other rounds have too, plus what is the
    round's own. Rounds are put into groups of like share; the largest of n own parts is drawn at
    once, as the U^(1 / n) quantile of the normal law.
    """
    shared = random.standard_normal(run.num_canaries)
    share = _shared_share(run, unknowns, rounds)
    deviation = _ratio(_deviation(run, rounds, run.canaries.astype(np.float64)), rounds.norm)
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
    """[presentations] cosine of a canary with a round that it is in."""
    common = share[run.round]
    noise = np.sqrt(common) * shared[run.canary]
    noise += np.sqrt(1 - common) * random.standard_normal(len(run.canary))
    deviation = _deviation(run, rounds, np.maximum(run.canaries - 1.0, 0.0))
    return _cosine(1 + deviation[run.round] * noise, rounds.norm[run.round])


def _deviation(run: PlannedRun, rounds: Rounds, others: FloatArray) -> FloatArray:
    """[rounds] deviation of a canary's inner product with noise, real sum and `others` canaries."""
    vectors = others * run.canary_correlation + rounds.real_norm**2
    return np.asarray(np.sqrt(vectors / run.task.dim + rounds.noise**2))


def _shared_share(run: PlannedRun, unknowns: Unknowns, rounds: Rounds) -> FloatArray:
    """[rounds] share of the squared norm of a noised sum that other rounds have in common."""
    m = run.canaries
    per_canary = np.bincount(run.canary, minlength=run.num_canaries)
    pairs = float(np.sum(np.sqrt(m))) ** 2 - len(run.canary)
    overlap = float(per_canary @ (per_canary - 1)) / pairs if pairs > 0 else 0.0
    common = unknowns.drift * rounds.real_norm**2 + overlap * run.canary_correlation * m
    return np.clip(_ratio(common, rounds.norm**2), 0.0, 1.0)


def _groups(share: FloatArray) -> npt.NDArray[np.int64]:
    """[rounds] number of the group of each round, from 0; one group where nothing is shared."""
    if not np.any(share > 0):
        return np.zeros(len(share), np.int64)
    count = min(_GROUPS, len(share))
    groups = np.empty(len(share), np.int64)
    groups[np.argsort(share)] = np.arange(len(share)) * count // len(share)
    return groups


def _largest_of(numbers: npt.NDArray[np.int64], random: np.random.Generator) -> FloatArray:
    """The largest of so many standard normal numbers, each at least one."""
    return np.asarray(special.ndtri_exp(-random.standard_exponential(len(numbers)) / numbers))
