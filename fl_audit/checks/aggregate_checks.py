"""Checks of a run's mechanism by its aggregates, without canaries.

Each check is a test of "the mechanism is as configured" that holds whatever the clients' data is:
the only fact that it uses of the sum of updates is that clipping bounds its norm. A check that
fails is therefore not caused by training. One that passes proves nothing, as a sum as long as the
noise hides much. docs/checks.md describes the checks.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.checks.autocorrelation import Autocorrelation
from fl_audit.checks.check import FALSE_ALARM, Check
from fl_audit.checks.coordinates import CoordinateLengths, scarcest
from fl_audit.checks.noise_bounds import (
    detectable_noise,
    log_p_autocorrelation,
    log_p_longer,
    log_p_shorter,
    square,
)

_ROUNDING = 1 + 1e-5
"""The factor by which clipping in float32 may exceed a norm."""

_OFF = 5e-3
"""The relative error allowed in the stated noise: a value of three digits has it, and so have
numbers of bfloat16 or float16. An epsilon changes by as little."""

_RESOLUTION = 1e-6
"""The resolution of an aggregate in float32: shorter noise is lost in it, whatever is added."""


@dataclass(frozen=True, eq=False)
class RunAggregates:
    """The input of the checks, of rounds in order.

    Attributes:
      sizes: The sizes of the model's variables.
      stddev: The standard deviation that the noise on a coordinate of the aggregate should have, of
        shape (rounds,); 0 without noise, NaN if not known.
      norm_bound: The largest norm of the aggregate without noise, of shape (rounds,): participants
        times clip norm, over the denominator. NaN if not known.
      measured: The rows of `measure`, of shape (rounds, variables, 2), whose products are with the
        round in the row before; NaN is not tested.
      autocorrelation: The strongest autocorrelation of the first round; None if not computed.
      coordinates: The sums over rounds of each coordinate; None if not kept.
      frozen: The variables, from 0, that are declared not to be trained and to have no noise.
      numbers: The numbers of the rounds, from 1; None if they are 1, 2, 3 and so on.
    """

    sizes: Sequence[int]
    stddev: FloatArray
    norm_bound: FloatArray
    measured: FloatArray
    autocorrelation: Autocorrelation | None = None
    coordinates: CoordinateLengths | None = None
    frozen: frozenset[int] = frozenset()
    numbers: Sequence[int] | None = None


def check_aggregates(run: RunAggregates) -> list[Check]:
    """Returns the possible checks; those of noise only if there should be any."""
    return list(_checks(run))


def _checks(run: RunAggregates) -> Iterator[Check]:
    rounds = _Rounds.from_run(run)
    if (run.stddev > 0).any():
        yield _enough_noise(rounds)
        if run.coordinates is not None:
            yield _noise_everywhere(run, run.coordinates)
        yield _fresh_noise(rounds)
    yield _bounded_length(rounds)
    if run.autocorrelation is not None:
        yield _no_echo(run.autocorrelation, rounds)
    if run.frozen:
        yield _frozen(run, rounds)


@dataclass(frozen=True, eq=False)
class _Rounds:
    """The measurements, with the whole model without frozen variables as a last variable.

    Attributes:
      sizes: The sizes, of shape (variables + 1,).
      squared: The squared norms, of shape (rounds, variables + 1); NaN in frozen variables.
      products: The inner products with the round before, of that shape.
      stddev: The noise that should be on a coordinate, of shape (rounds, 1).
      norm_bound: The largest norm without noise, of shape (rounds, 1).
    """

    sizes: FloatArray
    squared: FloatArray
    products: FloatArray
    stddev: FloatArray
    norm_bound: FloatArray
    numbers: Sequence[int]

    @classmethod
    def from_run(cls, run: RunAggregates) -> "_Rounds":
        moving = [index for index in range(len(run.sizes)) if index not in run.frozen]
        sizes = np.array([*run.sizes, sum(run.sizes[index] for index in moving)], np.float64)
        whole = run.measured[:, moving].sum(axis=1, keepdims=True)
        measured = np.concatenate([run.measured, whole], axis=1)
        measured[:, sorted(run.frozen)] = np.nan
        return cls(
            sizes=sizes,
            squared=measured[:, :, 0],
            products=measured[:, :, 1],
            stddev=run.stddev[:, None],
            norm_bound=run.norm_bound[:, None],
            numbers=run.numbers or range(1, len(run.measured) + 1),
        )

    @property
    def noise(self) -> FloatArray:
        """The standard deviation if there is noise, else NaN."""
        return np.where(self.stddev > 0, self.stddev, np.nan)


def _enough_noise(rounds: _Rounds) -> Check:
    """No variable is shorter than its noise."""
    lengths = _over_noise(rounds.squared, rounds.noise)
    return _long_enough("enough_noise", rounds, lengths, rounds.sizes)


def _over_noise(squared: FloatArray, noise: FloatArray) -> FloatArray:
    """Squared norms over the noise's variance; infinite beyond the range of floats."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray((np.sqrt(squared) / noise) ** 2)


def _fresh_noise(rounds: _Rounds) -> Check:
    """The part not explained by the last aggregate is not shorter than its noise."""
    squared, noise = rounds.squared, rounds.noise
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = rounds.products[1:] ** 2 / squared[:-1]
    unexplained = np.maximum(squared[1:] - np.where(squared[:-1] > 0, explained, 0), 0)
    dof = np.maximum(rounds.sizes - 1, 1)
    is_resolved = np.sqrt(dof) * noise[1:] > _RESOLUTION * np.sqrt(squared[1:])
    lengths = np.full_like(squared, np.nan)
    is_tested = (rounds.sizes > 1) & is_resolved
    lengths[1:] = np.where(is_tested, _over_noise(unexplained, noise[1:]), np.nan)
    return _long_enough("fresh_noise", rounds, lengths, dof)


def _long_enough(name: str, rounds: _Rounds, lengths: FloatArray, dof: FloatArray) -> Check:
    """Nothing is shorter than noise, in each round and in all rounds together.

    Given what came before, each round's squared norm is stochastically larger than chi-square;
    so is the sum over rounds, however clients react to what they have seen.

    Args:
      lengths: Squared norms over the noise's variance, of shape (rounds, variables + 1); NaN is not
        tested.
      dof: The number of dimensions of the noise, of shape (variables + 1,).
    """
    counts = (~np.isnan(lengths)).sum(axis=0)
    together = np.where(counts > 1, np.nansum(lengths, axis=0), np.nan)
    lengths = np.vstack([lengths, together])
    dofs = np.vstack([np.broadcast_to(dof, (len(lengths) - 1, len(dof))), counts * dof])
    dofs = np.maximum(dofs, 1)
    log_p = log_p_shorter(lengths / (1 - _OFF) ** 2, dofs)
    ratio = np.sqrt(lengths / dofs)
    return _worst(
        name,
        log_p,
        ratio,
        badness=-ratio,
        numbers=rounds.numbers,
        detectable_ratio=detectable_noise(lengths, dofs, (1 - _OFF) ** 2, math.log(FALSE_ALARM)),
    )


def _noise_everywhere(run: RunAggregates, coordinates: CoordinateLengths) -> Check:
    """No more coordinates are short in all rounds than noise leaves short."""
    moving = np.repeat([index not in run.frozen for index in range(len(run.sizes))], run.sizes)
    log_p, ratio, num_tests = scarcest(coordinates, moving)
    return Check("noise_everywhere", log_p, num_tests, None, None, ratio)


def _bounded_length(rounds: _Rounds) -> Check:
    """No variable is longer than clipped updates and their noise can be.

    In each round and, as too much noise adds up, in all rounds with noise together: given what came
    before, each squared norm is stochastically smaller than noncentral chi-square, and so is
    their sum. Chance plays no part without noise, nor with so little that floats cannot hold the
    square of its ratio to the bound.
    """
    squared, bound = rounds.squared, _ROUNDING * rounds.norm_bound
    noise = (1 + _OFF) * rounds.noise
    with np.errstate(divide="ignore", over="ignore"):
        norm_bound = np.broadcast_to(bound / noise, squared.shape)
    lengths = _over_noise(squared, noise)
    is_certain = (rounds.stddev == 0) | np.isinf(square(norm_bound))
    certain = np.where(np.sqrt(squared) <= bound, 0.0, -np.inf)
    certain = np.where(np.isnan(squared + bound), np.nan, certain)
    by_chance = np.where(is_certain | np.isnan(norm_bound), np.nan, lengths)
    counts = (~np.isnan(by_chance)).sum(axis=0)
    together = np.where(counts > 1, np.nansum(by_chance, axis=0), np.nan)
    with np.errstate(over="ignore"):
        all_bounds = np.sqrt(np.nansum(np.where(np.isnan(by_chance), 0, norm_bound) ** 2, axis=0))
    dofs = np.vstack(
        [np.broadcast_to(rounds.sizes, squared.shape), np.maximum(counts, 1) * rounds.sizes]
    )
    likely = log_p_longer(np.vstack([lengths, together]), dofs, np.vstack([norm_bound, all_bounds]))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = rounds.norm_bound**2 + rounds.stddev**2 * rounds.sizes
        ratio = np.where(squared > 0, np.sqrt(squared / expected), 0.0)
        of_all = np.sqrt(together / (dofs[-1] + all_bounds**2))
    return _worst(
        "bounded_length",
        np.vstack([np.where(is_certain, certain, likely[:-1]), likely[-1:]]),
        np.vstack([ratio, of_all]),
        badness=np.vstack([ratio, of_all]),
        numbers=rounds.numbers,
    )


def _no_echo(strongest: Autocorrelation, rounds: _Rounds) -> Check:
    """The first round's coordinates are not alike at any distance."""
    stddev, bound = rounds.stddev[0, 0], rounds.norm_bound[0, 0]
    # Without noise the norm that clients may have is infinite relative to it: nothing is unlikely.
    with np.errstate(divide="ignore", invalid="ignore"):
        product, num_pairs = np.array([strongest.product / stddev**2, strongest.num_pairs])
        norm_bound = float(bound / stddev)
    log_p = float(log_p_autocorrelation(product, num_pairs, norm_bound))
    return Check(
        name="no_echo",
        log_p=min(0.0, log_p + math.log(strongest.num_lags)),
        num_tests=strongest.num_lags,
        round=rounds.numbers[0],
        variable=None,
        ratio=float(product / num_pairs),
    )


def _frozen(run: RunAggregates, rounds: _Rounds) -> Check:
    """A variable that is declared to be frozen is zero."""
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
    """The least likely of a check's tests; rows of the arrays are rounds, columns are variables.

    Of equally likely ones, which mostly have the bound 1, it is the one with the largest badness. A
    row after those of the rounds is for all of them together.
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
