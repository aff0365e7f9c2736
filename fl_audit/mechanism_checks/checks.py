"""Checks of a run's mechanism by its aggregates, without canaries.

Each check is a test of "the mechanism is as configured" that holds whatever the clients' data is:
the only fact that it uses of the sum of updates is that clipping bounds its length. A check that
fails is therefore not caused by training. One that passes proves nothing, as a sum as long as the
noise hides much.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.mechanism_checks.autocorrelation import Autocorrelation
from fl_audit.mechanism_checks.tails import log_p_autocorrelation, log_p_longer, log_p_shorter

FALSE_ALARM = 1e-6
"""The largest probability that a check of a correct mechanism fails, over all rounds and variables.
"""

_ROUNDING = 1 + 1e-5
"""The factor by which clipping in float32 may exceed a length."""

_RESOLUTION = 1e-6
"""The resolution of an aggregate in float32: shorter noise is lost in it, whatever is added."""


@dataclass(frozen=True, eq=False)
class RunAggregates:
    """The measurements that the checks look at.

    Attributes:
      sizes: The sizes of the model's variables.
      stddev: The configured standard deviation of the noise on a coordinate of the aggregate, of
        shape (rounds,).
      norm_bound: The largest norm that the aggregate can have without noise, of shape (rounds,):
        participants times clip norm, over the denominator.
      measured: The rows of `measure`, of shape (rounds, variables, 2); rows of NaN are not looked
        at.
      autocorrelation: The strongest autocorrelation of the first round; None where it was not
        looked for.
    """

    sizes: Sequence[int]
    stddev: FloatArray
    norm_bound: FloatArray
    measured: FloatArray
    autocorrelation: Autocorrelation | None


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes:
      name: The name of the check in report.json.
      log_p: The logarithm of a bound on the probability that a correct mechanism looks as bad, over
        all tests.
      num_tests: The number of tests: rounds and variables, or lags, that were looked at.
      round: The round, from 1, that looks worst; None where no round stands out.
      variable: The variable of the model, from 1, that looks worst; None for the whole model.
      ratio: The measured over the expected value there; see `docs/checks.md`.
    """

    name: str
    log_p: float
    num_tests: int
    round: int | None
    variable: int | None
    ratio: float

    @property
    def passed(self) -> bool:
        """Whether a correct mechanism may look like this."""
        return self.log_p >= math.log(FALSE_ALARM)

    @property
    def p_value(self) -> float:
        """The p-value of all tests of the check together; 0 where it is too small for a float."""
        return math.exp(self.log_p)


def check_aggregates(run: RunAggregates) -> list[Check]:
    """The checks that can be made; those of the noise only where there should be any."""
    return list(_checks(run))


def check_rounds(canary_rounds: Sequence[npt.NDArray[np.int64]]) -> Check:
    """The check that no canary takes part twice in a round.

    Args:
      canary_rounds: The rounds, from 0, that each included canary took part in.
    """
    repeated = [rounds[1:][np.diff(rounds) == 0] for rounds in map(np.sort, canary_rounds)]
    twice = np.concatenate([*repeated, np.zeros(0, np.int64)])
    return Check(
        name="once_a_round",
        log_p=-math.inf if len(twice) else 0.0,
        num_tests=len(canary_rounds),
        round=int(twice.min()) + 1 if len(twice) else None,
        variable=None,
        ratio=float(len(twice)),
    )


def _checks(run: RunAggregates) -> Iterator[Check]:
    sizes, squared, products = _with_whole(run)
    stddev, norm_bound = run.stddev[:, None], run.norm_bound[:, None]
    if (run.stddev > 0).all():
        yield _enough_noise(squared, sizes, stddev)
        yield _fresh_noise(squared, products, sizes, stddev)
        yield _bounded_length(squared, sizes, stddev, norm_bound)
        if run.autocorrelation is not None:
            yield _no_autocorrelation(
                run.autocorrelation, float(run.stddev[0]), float(run.norm_bound[0])
            )
    else:
        yield _bounded_without_noise(squared, norm_bound)


def _with_whole(run: RunAggregates) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The sizes, squared lengths and products, with the whole model as a last variable."""
    sizes = np.array([*run.sizes, sum(run.sizes)], dtype=np.float64)
    whole = run.measured.sum(axis=1, keepdims=True)
    squared, products = np.moveaxis(np.concatenate([run.measured, whole], axis=1), 2, 0)
    return sizes, squared, products


def _enough_noise(squared: FloatArray, sizes: FloatArray, stddev: FloatArray) -> Check:
    """The check that no variable is shorter than its noise."""
    lengths = squared / stddev**2
    log_p = log_p_shorter(lengths, np.broadcast_to(sizes, lengths.shape))
    ratio = np.sqrt(lengths / sizes)
    return _worst("enough_noise", log_p, ratio, badness=-ratio)


def _fresh_noise(
    squared: FloatArray, products: FloatArray, sizes: FloatArray, stddev: FloatArray
) -> Check:
    """The check that the part not explained by the last aggregate is not shorter than its noise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = products[1:] ** 2 / squared[:-1]
    unexplained = np.maximum(squared[1:] - np.where(squared[:-1] > 0, explained, 0), 0)
    dof = np.maximum(sizes - 1, 1)
    can_be_seen = np.sqrt(dof) * stddev[1:] > _RESOLUTION * np.sqrt(squared[1:])
    lengths = np.where((sizes > 1) & can_be_seen, unexplained / stddev[1:] ** 2, np.nan)
    log_p = log_p_shorter(lengths, np.broadcast_to(dof, lengths.shape))
    ratio = np.sqrt(lengths / dof)
    return _worst("fresh_noise", log_p, ratio, badness=-ratio, first_round=2)


def _bounded_length(
    squared: FloatArray, sizes: FloatArray, stddev: FloatArray, norm_bound: FloatArray
) -> Check:
    """The check that no variable is longer than clipped updates and their noise can be."""
    log_p = log_p_longer(
        squared / stddev**2,
        np.broadcast_to(sizes, squared.shape),
        np.broadcast_to(_ROUNDING * norm_bound / stddev, squared.shape),
    )
    ratio = np.sqrt(squared / (norm_bound**2 + stddev**2 * sizes))
    return _worst("bounded_length", log_p, ratio, badness=ratio)


def _bounded_without_noise(squared: FloatArray, norm_bound: FloatArray) -> Check:
    """The same check without noise, where chance plays no part."""
    lengths = np.sqrt(squared)
    log_p = np.where(lengths <= _ROUNDING * norm_bound, 0.0, -np.inf)
    log_p = np.where(np.isnan(squared), np.nan, log_p)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(lengths > 0, lengths / norm_bound, 0.0)
    return _worst("bounded_length", log_p, ratio, badness=ratio)


def _no_autocorrelation(strongest: Autocorrelation, stddev: float, norm_bound: float) -> Check:
    """The check that the first round's coordinates are not alike at any distance."""
    product = np.array(strongest.product / stddev**2)
    num_pairs = np.array(float(strongest.num_pairs))
    log_p = float(log_p_autocorrelation(product, num_pairs, norm_bound / stddev))
    return Check(
        name="no_echo",
        log_p=min(0.0, log_p + math.log(strongest.num_lags)),
        num_tests=strongest.num_lags,
        round=1,
        variable=None,
        ratio=float(product / num_pairs),
    )


def _worst(
    name: str, log_p: FloatArray, ratio: FloatArray, *, badness: FloatArray, first_round: int = 1
) -> Check:
    """The least likely of a check's tests; rows of the arrays are rounds, columns are variables.

    Among equally likely ones, which mostly have the bound 1, it is the one with the largest
    badness.
    """
    tested = ~np.isnan(log_p)
    num_tests = int(tested.sum())
    if num_tests == 0:
        return Check(name, 0.0, 0, None, None, 1.0)
    least = np.min(log_p[tested])
    worst = np.argmax(np.where(tested & (log_p == least), badness, -np.inf))
    at, variable = np.unravel_index(worst, log_p.shape)
    return Check(
        name=name,
        log_p=min(0.0, float(least) + math.log(num_tests)),
        num_tests=num_tests,
        round=int(at) + first_round,
        variable=int(variable) + 1 if variable < log_p.shape[1] - 1 else None,
        ratio=float(ratio[at, variable]),
    )
