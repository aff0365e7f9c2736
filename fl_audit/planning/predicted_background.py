"""The predicted background of canaries in a planned run: noise, real updates, other canaries.

In units of the round's clip norm S, the noised sum of round t is

    sum of its m canaries + real sum of norm r + z N(0, I)

in d dimensions, and the square of its norm is m + r^2 + d z^2 on average. From this norm,
`verdict.exposure` gives the scores of canaries, as it does from measured norms (Andrew et al. 2023,
section 3).

Real updates are unknown before training. The sum of n real updates at the clip norm has a norm from
sqrt(n) clip norms (orthogonal updates) to n (parallel updates), and a smaller norm if updates are
shorter than the clip norm. An adaptive clip norm follows the norms of updates. What is not known
(`Unknowns`) is simulated at the extremes of its range, so that a plan's interval covers the range.
"""

import dataclasses
import itertools
import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fl_audit.accounting.noise_distributions import CLIENT_GAUSSIAN, noise_on_sum
from fl_audit.accounting.sampling import UnknownRounds
from fl_audit.array_types import FloatArray
from fl_audit.attacks.statistics import Statistic
from fl_audit.errors import InputError
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.verdict import Background
from fl_audit.verdict.power import Lengths
from fl_audit.verdict.scope import Scope, sees_uploads, why_unfit
from fl_audit.verdict.simulation import Seen

_SEED = 20_230_206

SPREAD = 0.5
"""Standard deviation of the logarithm of real updates' norms in one round; an assumption."""

FACTOR = 10.0
"""The largest factor between the median norm of a real update and the clip norm."""


@dataclass(frozen=True)
class Unknowns:
    """Assumptions on the behaviour of real clients.

    Attributes:
      alignment: Cosine between any two real updates of a round, in [0, 1].
      drift: Cosine between the real sums of any two rounds, in [0, 1]; also the squared cosine
        between a round's real sum and the part common to the sums of all rounds.
      first_norm: Median norm of a real update in the first round, divided by the first clip norm.
      last_norm: The same in the last round, also divided by the first clip norm; in between, the
        logarithm of the norm is linear in the round.
    """

    alignment: float
    drift: float
    first_norm: float
    last_norm: float


MIDDLE = Unknowns(alignment=0.1, drift=0.1, first_norm=1.0, last_norm=1.0)
"""The assumptions of a plan's medians: nearly orthogonal updates, as in small models."""

_DIRECTIONS = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
"""Extreme pairs (alignment, drift); without (0, 1), as orthogonal updates hardly drift."""

_NORMS = tuple(itertools.product((1 / FACTOR, FACTOR), repeat=2))

ENDS = tuple(
    Unknowns(alignment, drift, first, last)
    for (alignment, drift), (first, last) in itertools.product(_DIRECTIONS, _NORMS)
)
"""Combinations of extreme assumptions; a plan's intervals cover all of these."""


# The path of the clip norm, and of the norm of the sum of real updates.


_MOST_CLIENTS = 1_000
"""The largest number of simulated clients in a round; these represent all clients."""


_FARTHEST = 1e60
"""Largest simulated clip norm; above any float32, but with a finite square."""


@dataclass(frozen=True, eq=False)
class ClipPath:
    """Clip norms and norms of real sums in the rounds of several trials.

    Attributes:
      clip_norm: Clip norm S of the round, float64 of shape (trials, rounds).
      real_norm: Norm of the sum of clipped real updates over S, float64 of shape (trials, rounds).
    """

    clip_norm: FloatArray
    real_norm: FloatArray


def simulate_clip_path(
    run: PlannedRun, unknowns: Unknowns, trials: int, random: np.random.Generator
) -> ClipPath:
    """Simulates the mechanism's update rule of the clip norm.

    Norms of a round's real updates are log-normal around a median from `unknowns`. A canary's norm
    exceeds every clip norm, so the canary counts as clipped: if canaries are a larger share of
    cohorts than 1 minus the target quantile, the clip norm grows without end.
    """
    shape = (trials, run.num_rounds)
    clip_norms, real_norms = np.empty(shape), np.empty(shape)
    clip_norm: FloatArray = np.full(trials, run.first_norm)
    longest = 1.0 if run.fixed_norm is None else math.inf
    medians = clip_norm[0] * np.geomspace(unknowns.first_norm, unknowns.last_norm, run.num_rounds)
    for t, (median, clients) in enumerate(zip(medians, run.clients, strict=True)):
        num_simulated = min(int(clients), _MOST_CLIENTS)
        norms = median * np.exp(SPREAD * random.standard_normal((trials, num_simulated)))
        clipped = np.minimum(norms / clip_norm[:, None], longest)
        scale = clients / num_simulated if num_simulated else 0.0
        clip_norms[:, t] = clip_norm
        real_norms[:, t] = _norm_of_sum(clipped, scale, unknowns.alignment)
        unclipped = scale * np.sum(norms <= clip_norm[:, None], axis=1)
        clip_norm = _moved(run, clip_norm, unclipped, int(clients) + int(run.canaries[t]), random)
    return ClipPath(clip_norms, real_norms)


def _norm_of_sum(lengths: FloatArray, scale: float, alignment: float) -> FloatArray:
    """Norm of a sum of vectors, `scale` of each length; any two have cosine `alignment`."""
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
    as +1/2 and a clipped update as -1/2, divides the sum by the expected cohort (by the actual
    cohort without noise) and clips the share to [0, 1].
    """
    rule = run.clip_rule
    if rule is None:
        return clip_norm
    if run.noise.noise_multiplier == 0:
        share = unclipped / cohort if cohort else np.full(len(clip_norm), rule.target_quantile)
    else:
        noise = rule.count_stddev * random.standard_normal(len(clip_norm))
        share = 0.5 + (unclipped - cohort / 2 + noise) / rule.denominator
    error = np.clip(share, 0.0, 1.0) - rule.target_quantile
    with np.errstate(over="ignore"):  # an overflow is above the largest norm too
        moved = clip_norm * np.exp(-rule.learning_rate * error)
    return np.asarray(np.clip(moved, 1 / _FARTHEST, _FARTHEST))


# The background of canaries.


def predicted_background(run: PlannedRun, unknowns: Unknowns) -> Background:
    """The background of canaries in the rounds of a run, with lengths in the round's clip norm."""
    path = simulate_clip_path(run, unknowns, 1, np.random.default_rng(_SEED))
    clip_norm, real_norm = path.clip_norm[0], path.real_norm[0]
    release, cohorts = run.release, run.canaries + run.clients
    noise, ones = noise_on_sum(run.noise, cohorts), np.ones(run.num_rounds)
    empty = Background(run.own_rounds, run.included, run.task.dim, release.correlation)
    noised = empty.with_rounds(np.arange(run.num_rounds), ones, ones).with_noise(noise)
    lengths = np.sqrt(run.canaries + real_norm**2 + noised.noise_squared)
    released = np.flatnonzero(lengths > 0)
    if not len(released):
        raise InputError("participation: no round has a client, a canary or noise")
    weights = initial = None
    if run.server is not None:
        is_actual = release.denominator.divisor == "actual_cohort"
        divisors = np.maximum(cohorts, 1) if is_actual else release.denominator.expected
        applied = run.server.weights_in_model(run.num_rounds) * clip_norm / divisors
        weights, initial = applied[released], run.task.initial_norm
    if isinstance(release.client.sampling, UnknownRounds):
        release = dataclasses.replace(release, client=release.canary)
    common = (unknowns.drift * real_norm**2 + _overlap(run) * run.canaries)[released]
    is_of_uploads = run.noise.distribution == CLIENT_GAUSSIAN.name
    return dataclasses.replace(
        empty.with_rounds(released, lengths[released], ones[released]),
        noise=noise[released],
        in_common=common,
        surely_common=common,
        weights=weights,
        initial_length=initial,
        uploads=release if is_of_uploads else None,
        release=release,
    )


def predicted_products(run: PlannedRun, unknowns: Unknowns, background: Background) -> FloatArray:
    """The inner products of the directions of released aggregates, of shape (rounds, rounds).

    Two aggregates share their common canaries and the common part of real updates.
    """
    real_norm = simulate_clip_path(run, unknowns, 1, np.random.default_rng(_SEED)).real_norm[0]
    shape = (run.num_canaries, run.num_rounds)
    present = sparse.csr_array((np.ones(len(run.canary)), (run.canary, run.round)), shape)
    common = unknowns.drift * np.outer(real_norm, real_norm) + (present.T @ present).toarray()
    common = common[np.ix_(background.rounds, background.rounds)]
    products = common / np.outer(background.aggregate_lengths, background.aggregate_lengths)
    np.fill_diagonal(products, 1.0)
    return np.asarray(products)


def _overlap(run: PlannedRun) -> float:
    """The mean share of canaries that two rounds have in common."""
    each = np.bincount(run.canary)
    pairs = float(np.sum(np.sqrt(run.canaries))) ** 2 - len(run.canary)
    return float(each @ (each - 1)) / pairs if pairs > 0 else 0.0


def seen_of_plan(run: PlannedRun, unknowns: Unknowns, tested: Collection[Statistic]) -> Seen:
    """The input of the verdict's simulation, for a planned run.

    The claim covers uploads, as after the run, if all tested statistics see single uploads.
    """
    scope = Scope(
        counts_on_sampling=run.release.client.participations is None,
        unfit=why_unfit(run.release),
        covers_uploads=all(map(sees_uploads, tested)),
    )
    return Seen(predicted_background(run, unknowns), Lengths(), scope)
