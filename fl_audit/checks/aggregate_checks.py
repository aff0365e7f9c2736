"""Checks of a run's mechanism by its aggregates, without canaries.

Each check tests the hypothesis that the mechanism is as configured. Its level holds for any client
data, because it uses only that clipping bounds the norm of the sum of updates: training cannot
cause a failure. A check that passes proves little, because updates can hide missing noise.
docs/checks.md describes the checks.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.checks.check import FALSE_ALARM, Check
from fl_audit.checks.noise_bounds import detectable_noise, log_p_longer, log_p_shorter, square
from fl_audit.checks.noise_rows import (
    EXPECTED,
    OFF,
    RESOLUTION,
    NearestRounds,
    NoiseRows,
    lengths_beyond_past,
    log_p_so_few,
    nearest_rounds,
)

_ROUNDING = 1 + 1e-5
"""The factor by which clipping in float32 may exceed a norm."""

_EXPLAINED = 0.4
"""An earlier round is named if it explains at least this part of a round's squared norm."""


@dataclass(frozen=True, eq=False)
class RunAggregates:
    """The input of the checks, for rounds in order.

    Under correlated noise, all of this is about whitened aggregates (`checks.whitening`).

    Attributes:
      sizes: The number of parameters in each variable of the model.
      stddev: The configured standard deviation of the noise on a coordinate of the aggregate, of
        shape (rounds,); 0 without noise, NaN if not known.
      norm_bound: The largest norm of the aggregate without noise, of shape (rounds,): without
        whitening, participants times clip norm over the denominator. NaN if not known.
      measured: Each variable's squared norm and its inner product with the previous row's round,
        of shape (rounds, variables, 2) (`measured_rounds.measure`). NaN is not tested.
      noise: The rows of `NoiseWatch` (noise_rows.py), of shape (rounds, columns); None if no rows
        were kept.
      frozen: The variables, from 0, that are declared to be untrained and without noise.
      numbers: The number of each round, from 1; None for rounds 1, 2, 3 and so on.
    """

    sizes: Sequence[int]
    stddev: FloatArray
    norm_bound: FloatArray
    measured: FloatArray
    noise: FloatArray | None = None
    frozen: frozenset[int] = frozenset()
    numbers: Sequence[int] | None = None

    @property
    def moving(self) -> list[int]:
        """The variables, from 0, that are not frozen."""
        return [index for index in range(len(self.sizes)) if index not in self.frozen]

    @property
    def dim_with_noise(self) -> int:
        return sum(self.sizes[index] for index in self.moving)

    @property
    def round_numbers(self) -> Sequence[int]:
        return self.numbers or range(1, len(self.measured) + 1)


def check_aggregates(run: RunAggregates) -> list[Check]:
    """Makes every check that the input allows; checks of noise only if some round has noise."""
    return list(_checks(run))


def _checks(run: RunAggregates) -> Iterator[Check]:
    rounds = _Rounds.from_run(run)
    noise = _Noise.from_run(run)
    if (run.stddev > 0).any():
        yield _enough_noise(rounds)
        if noise is not None:
            yield _noise_everywhere(noise)
        yield _fresh_noise(rounds, noise)
        if noise is not None:
            yield _noise_distribution(noise)
    yield _bounded_length(rounds)
    if noise is not None:
        yield _no_echo(noise)
    if run.frozen:
        yield _frozen(run, rounds)


@dataclass(frozen=True, eq=False)
class _Rounds:
    """The measurements, with one more variable at the end: the model without frozen variables."""

    sizes: FloatArray  # the sizes, of shape (variables + 1,)
    # squared norms, of shape (rounds, variables + 1); NaN in frozen variables
    squared: FloatArray
    products: FloatArray  # inner products with the previous round, of the same shape
    stddev: FloatArray  # configured noise on a coordinate, of shape (rounds, 1)
    norm_bound: FloatArray  # the largest norm without noise, of shape (rounds, 1)
    numbers: Sequence[int]

    @classmethod
    def from_run(cls, run: RunAggregates) -> "_Rounds":
        whole = run.measured[:, run.moving].sum(axis=1, keepdims=True)
        measured = np.concatenate([run.measured, whole], axis=1)
        measured[:, sorted(run.frozen)] = np.nan
        return cls(
            sizes=np.array([*run.sizes, run.dim_with_noise], np.float64),
            squared=measured[:, :, 0],
            products=measured[:, :, 1],
            stddev=run.stddev[:, None],
            norm_bound=run.norm_bound[:, None],
            numbers=run.round_numbers,
        )

    @property
    def noise(self) -> FloatArray:
        """The standard deviation if there is noise, else NaN."""
        return np.where(self.stddev > 0, self.stddev, np.nan)


@dataclass(frozen=True, eq=False)
class _Noise:
    """Measurements of the noise, for rounds with noise."""

    measured: NoiseRows
    numbers: Sequence[int]  # the numbers, from 1, of the rounds with noise

    @classmethod
    def from_run(cls, run: RunAggregates) -> "_Noise | None":
        """None if no round has noise, or rows of `NoiseWatch` were not kept."""
        if run.noise is None or not (run.stddev > 0).any():
            return None
        has_noise = np.isfinite(run.noise[:, -1])
        return cls(
            NoiseRows(run.noise[has_noise], run.dim_with_noise),
            [run.round_numbers[index] for index in np.flatnonzero(has_noise)],
        )


def _enough_noise(rounds: _Rounds) -> Check:
    """Tests whether every variable has at least the norm of noise alone, up to chance."""
    lengths = _over_noise(rounds.squared, rounds.noise)
    return _long_enough("enough_noise", rounds, lengths, rounds.sizes)


def _over_noise(squared: FloatArray, noise: FloatArray) -> FloatArray:
    """Squared norms over the noise's variance; infinite beyond the range of floats."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray((np.sqrt(squared) / noise) ** 2)


def _fresh_noise(rounds: _Rounds, noise: _Noise | None) -> Check:
    """Tests whether an aggregate's part that earlier aggregates do not explain is as long as noise.

    Variables are compared with the previous round; sketches (noise_rows.py) of the whole model are
    compared with all earlier rounds.
    """
    squared, stddev = rounds.squared, rounds.noise
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = rounds.products[1:] ** 2 / squared[:-1]
    unexplained = np.maximum(squared[1:] - np.where(squared[:-1] > 0, explained, 0), 0)
    dof = np.maximum(rounds.sizes - 1, 1)
    is_resolved = np.sqrt(dof) * stddev[1:] > RESOLUTION * np.sqrt(squared[1:])
    lengths = np.full_like(squared, np.nan)
    is_tested = (rounds.sizes > 1) & is_resolved
    lengths[1:] = np.where(is_tested, _over_noise(unexplained, stddev[1:]), np.nan)
    by_last = _long_enough("fresh_noise", rounds, lengths, dof)
    if noise is None or len(noise.numbers) < 2:
        return by_last
    nearest = nearest_rounds(noise.measured.sketches)
    worst = _worse(by_last, _beyond_past(noise), _beyond_any(noise, nearest))
    return _with_earlier_round(worst, noise, nearest) if worst.failed else worst


def _with_earlier_round(worst: Check, noise: _Noise, nearest: NearestRounds) -> Check:
    """A failed check with the earlier round whose noise was repeated, if there is a single one."""
    if worst.round is not None and worst.round not in noise.numbers:
        return worst  # a round too long for its noise to be looked at
    lengths = (noise.measured.sketches**2).sum(axis=1)
    rest = nearest.lengths / np.where(lengths > 0, lengths, 1)
    at = int(rest[1:].argmin()) + 1 if worst.round is None else noise.numbers.index(worst.round)
    if rest[at] > 1 - _EXPLAINED:
        return worst
    ratio = math.sqrt(nearest.lengths[at] / max(noise.measured.sketches.shape[1] - 1, 1))
    return dataclasses.replace(
        worst,
        round=noise.numbers[at],
        variable=None,
        ratio=ratio,
        earlier_round=noise.numbers[nearest.rounds[at]],
    )


def _worse(*checks: Check) -> Check:
    """The worst of several checks, with the p-value corrected for the number of checks."""
    made = [check for check in checks if check.num_tests]
    if not made:
        return checks[0]
    worst = min(made, key=lambda check: check.log_p)
    return dataclasses.replace(
        worst,
        log_p=min(0.0, worst.log_p + math.log(len(made))),
        num_tests=sum(check.num_tests for check in made),
        detectable_ratio=checks[0].detectable_ratio,
    )


def _beyond_past(noise: _Noise) -> Check:
    """Tests each sketch, and all together, against recent sketches and the sum of older ones."""
    lengths, dof = lengths_beyond_past(noise.measured.sketches)
    is_tested = (dof > 0) & (np.arange(len(dof)) > 0)
    lengths, dof = lengths[is_tested], dof[is_tested]
    numbers = np.array(noise.numbers)[is_tested].tolist()
    if len(lengths) > 1:
        lengths, dof = np.append(lengths, lengths.sum()), np.append(dof, dof.sum())
    log_p = log_p_shorter(lengths / (1 - OFF) ** 2, np.maximum(dof, 1))[:, None]
    ratio = np.sqrt(lengths / np.maximum(dof, 1))[:, None]
    return _worst("fresh_noise", log_p, ratio, badness=-ratio, numbers=numbers)


def _beyond_any(noise: _Noise, nearest: NearestRounds) -> Check:
    """Tests each sketch against the sketches of all earlier aggregates and of their reversals."""
    sketches = noise.measured.sketches
    dof = max(sketches.shape[1] - 1, 1)
    log_p = log_p_shorter(nearest.lengths / (1 - OFF) ** 2, np.full(len(sketches), dof))
    before = np.arange(len(sketches))
    is_tested = (before > 0) & (sketches.shape[1] > 1)
    log_p = np.where(is_tested, log_p + np.log(np.maximum(2 * before, 1)), np.nan)[:, None]
    ratio = np.sqrt(nearest.lengths / dof)[:, None]
    return _worst("fresh_noise", log_p, ratio, badness=-ratio, numbers=noise.numbers)


def _noise_distribution(noise: _Noise) -> Check:
    """Tests whether coordinates exceed thresholds at least as often as noise alone.

    Each round is tested, and all rounds together.
    """
    counts = noise.measured.exceeding
    trials = np.full(len(counts), noise.measured.dim)
    if len(counts) > 1:
        counts, trials = np.vstack([counts, counts.sum(axis=0)]), np.append(trials, trials.sum())
    log_p = log_p_so_few(counts, trials[:, None])
    ratio = counts / (trials[:, None] * EXPECTED)
    found = _worst("noise_distribution", log_p, ratio, badness=-ratio, numbers=noise.numbers)
    return dataclasses.replace(found, variable=None)


def _long_enough(name: str, rounds: _Rounds, lengths: FloatArray, dof: FloatArray) -> Check:
    """Tests whether norms are below the norm of noise, in each round and in all rounds together.

    Given earlier rounds, each round's squared norm is stochastically larger than chi-square; so is
    the sum over rounds, even if clients adapt to earlier rounds.

    Args:
      lengths: Squared norms over the noise's variance, of shape (rounds, variables + 1); NaN is not
        tested.
      dof: The number of dimensions of the noise, of shape (variables + 1,).
    """
    lengths, dofs = _with_sums(lengths, dof)
    log_p = log_p_shorter(lengths / (1 - OFF) ** 2, dofs)
    ratio = np.sqrt(lengths / dofs)
    return _worst(
        name,
        log_p,
        ratio,
        badness=-ratio,
        numbers=rounds.numbers,
        detectable_ratio=detectable_noise(lengths, dofs, (1 - OFF) ** 2, math.log(FALSE_ALARM)),
    )


def _with_sums(lengths: FloatArray, dof: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Squared norms with one more row of their sums over rounds, and the degrees of freedom.

    A sum is NaN unless two rounds at least are tested; degrees of freedom are at least 1.
    """
    counts = (~np.isnan(lengths)).sum(axis=0)
    sums = np.where(counts > 1, np.nansum(lengths, axis=0), np.nan)
    dofs = np.vstack([np.broadcast_to(dof, lengths.shape), np.maximum(counts, 1) * dof])
    return np.vstack([lengths, sums]), np.maximum(dofs, 1)


def _noise_everywhere(noise: _Noise) -> Check:
    """Tests, after each round, whether more coordinates have lacked noise than chance explains."""
    log_p, ratio = noise.measured.silent.T[:, :, None]
    return _worst("noise_everywhere", log_p, ratio, badness=ratio, numbers=noise.numbers)


def _bounded_length(rounds: _Rounds) -> Check:
    """Tests whether a variable is longer than clipped updates with noise may be, up to chance.

    Each round is tested, and all rounds with noise together, which shows an excess that is small in
    each round. Given earlier rounds, each squared norm is stochastically smaller than noncentral
    chi-square, and so is the sum over rounds. The test is deterministic without noise, or with so
    little noise that the squared ratio of bound to noise overflows.
    """
    squared, bound = rounds.squared, _ROUNDING * rounds.norm_bound
    noise = (1 + OFF) * rounds.noise
    with np.errstate(divide="ignore", over="ignore"):
        norm_bound = np.broadcast_to(bound / noise, squared.shape)
    lengths = _over_noise(squared, noise)
    is_certain = (rounds.stddev == 0) | np.isinf(square(norm_bound))
    certain = np.where(np.sqrt(squared) <= bound, 0.0, -np.inf)
    certain = np.where(np.isnan(squared + bound), np.nan, certain)
    by_chance = np.where(is_certain | np.isnan(norm_bound), np.nan, lengths)
    with_sums, dofs = _with_sums(by_chance, rounds.sizes)
    with np.errstate(over="ignore"):
        all_bounds = np.sqrt(np.nansum(np.where(np.isnan(by_chance), 0, norm_bound) ** 2, axis=0))
    likely = log_p_longer(with_sums, dofs, np.vstack([norm_bound, all_bounds]))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = rounds.norm_bound**2 + rounds.stddev**2 * rounds.sizes
        ratio = np.where(squared > 0, np.sqrt(squared / expected), 0.0)
        of_all = np.sqrt(with_sums[-1] / (dofs[-1] + all_bounds**2))
    return _worst(
        "bounded_length",
        np.vstack([np.where(is_certain, certain, likely[:-1]), likely[-1:]]),
        np.vstack([ratio, of_all]),
        badness=np.vstack([ratio, of_all]),
        numbers=rounds.numbers,
    )


def _no_echo(noise: _Noise) -> Check:
    """Tests whether a round's coordinates repeat each other, at any lag or in reversed order."""
    log_p, correlation = noise.measured.echoes.T[:, :, None]
    badness = np.nan_to_num(np.abs(correlation))
    return _worst("no_echo", log_p, correlation, badness=badness, numbers=noise.numbers)


def _frozen(run: RunAggregates, rounds: _Rounds) -> Check:
    """Tests whether variables that are declared frozen are zero."""
    lengths = run.measured[:, sorted(run.frozen), 0]
    nonzero = np.argwhere(lengths > 0)
    at, variable = nonzero[0] if len(nonzero) else (None, None)
    return Check(
        name="frozen_variables",
        log_p=-math.inf if len(nonzero) else 0.0,
        num_tests=int((~np.isnan(lengths)).sum()),
        round=None if at is None else rounds.numbers[at],
        variable=None if variable is None else sorted(run.frozen)[variable] + 1,
        ratio=float(np.sqrt(np.nanmax(lengths, initial=0.0))),
    )


def _worst(
    name: str,
    log_p: FloatArray,
    ratio: FloatArray,
    *,
    badness: FloatArray,
    numbers: Sequence[int],
    detectable_ratio: float | None = None,
) -> Check:
    """The check with the smallest p-value of all tests, corrected for their number.

    Rows of the arrays are rounds, and one more may be for all rounds together; columns are
    variables and then the whole model, or thresholds. Among equal p-values, mostly of 1, the test
    with the largest `badness` is chosen.
    """
    tested = ~np.isnan(log_p)
    num_tests = int(tested.sum())
    if num_tests == 0:
        return Check(name, 0.0, 0, None, None, 1.0)
    least = np.min(log_p[tested])
    worst = np.argmax(np.where(tested & (log_p == least), badness, -np.inf))
    at, variable = map(int, np.unravel_index(worst, log_p.shape))
    return Check(
        name=name,
        log_p=min(0.0, float(least) + math.log(num_tests)),
        num_tests=num_tests,
        round=numbers[at] if at < len(numbers) else None,
        variable=variable + 1 if variable < log_p.shape[1] - 1 else None,
        ratio=float(ratio[at, variable]),
        detectable_ratio=detectable_ratio,
    )
