"""Checks of a run's mechanism by its aggregates, without canaries.

Each check is a test of "the mechanism is as configured" that holds whatever the clients' data is:
the only fact that it uses of the sum of updates is that clipping bounds its length. A check that
fails is therefore not caused by training. One that passes proves nothing, as a sum as long as the
noise hides much. docs/checks.md describes the checks, `check_aggregates` makes them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.formats.text_files import read_json
from fl_audit.json_records import WRITTEN_IF_SET, fields_from_json, fields_to_json, from_json
from fl_audit.kinds.registry import RecordedTable
from fl_audit.mechanisms import MECHANISMS, Mechanism

# Upper bounds on tail probabilities of correct noise, in closed form and as logarithms.
#
# A round's aggregate is x = s + g: a sum s of clipped updates, of which only the largest possible
# length is known, and noise g ~ N(0, stddev^2 I). The bounds hold for every s that is chosen
# before g is drawn: they are p-values for "the noise is as configured".


def log_p_shorter(squared_length: FloatArray, dof: FloatArray) -> FloatArray:
    """A bound on the log probability that a vector with noise is as short as this, or shorter.

    |s + g|^2 / stddev^2 is noncentral chi-square, which is stochastically larger than chi-square.
    Chernoff's bound for that: P(X <= q d) <= (q e^(1 - q))^(d / 2) for q < 1.

    Args:
      squared_length: The squared length, over the variance of a coordinate's noise.
      dof: The number of dimensions that the noise has there, at least 1.

    Returns:
      Logarithms, at most 0; -inf for length 0.
    """
    excess = squared_length / dof - 1
    with np.errstate(divide="ignore"):
        chernoff = dof / 2 * (np.log1p(np.minimum(excess, 0)) - np.minimum(excess, 0))
    return np.asarray(np.minimum(chernoff, 0))


def log_p_longer(squared_length: FloatArray, dof: FloatArray, norm_bound: FloatArray) -> FloatArray:
    """A bound on the log probability that a vector with noise is as long as this, or longer.

    The source is Birgé 2001 ("An alternative point of view on Lepski's method", lemma 8.1) for the
    noncentral chi-square X of d degrees and noncentrality B, which is stochastically increasing in
    B: P(X >= d + B + 2 sqrt((d + 2 B) y) + 2 y) <= e^-y.

    Args:
      squared_length: The squared length, over the variance of a coordinate's noise.
      dof: The number of dimensions, at least 1.
      norm_bound: The largest norm that s can have, over the noise's standard deviation.

    Returns:
      Logarithms, at most 0.
    """
    noncentrality = _square(norm_bound)
    above = _excess(squared_length, dof + noncentrality)
    linear = np.asarray(2 * np.sqrt(dof + 2 * noncentrality))
    return -(_root(2.0, linear, above) ** 2)


def log_p_autocorrelation(
    product: FloatArray, num_pairs: FloatArray, norm_bound: float
) -> FloatArray:
    """A bound on the log probability of so large a sum of products at a lag, of either sign.

    The sum of x_i x_(i + lag) is at most |s|^2, plus N(0, 4 |s|^2 stddev^2) or less, plus a
    quadratic form of the noise with Frobenius norm sqrt(pairs / 2) and eigenvalues up to 1, for
    which Laurent and Massart 2000 (lemma 1) give 2 sqrt(pairs / 2 y) + 2 y but for e^-y.

    Args:
      product: The sum of products of coordinates a lag apart, over the variance of a coordinate's
        noise.
      num_pairs: The number of pairs of coordinates that lie so far apart, at least 1.
      norm_bound: The largest norm that s can have, over the noise's standard deviation.

    Returns:
      Logarithms, at most 0.
    """
    above = _excess(np.abs(product), _square(np.asarray(norm_bound)))
    linear = np.asarray(np.sqrt(8.0) * norm_bound + np.sqrt(2 * num_pairs))
    root = _root(2.0, linear, above)
    # The factor 4 stands for two parts times two signs.
    return np.asarray(np.minimum(np.log(4) - root**2, 0))


def _square(norm: FloatArray) -> FloatArray:
    """The square; infinite beyond the range of floats, as under noise of next to nothing."""
    with np.errstate(over="ignore"):
        return np.asarray(norm * norm)


def _excess(value: FloatArray, bound: FloatArray) -> FloatArray:
    """What a value has above a bound, at least 0; nothing is above an infinite bound."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(bound), 0.0, np.maximum(value - bound, 0.0))


def _root(quadratic: float, linear: FloatArray, value: FloatArray) -> FloatArray:
    """The solution r >= 0 of quadratic r^2 + linear r = value."""
    # This form avoids the difference of two nearly equal numbers.
    root = (
        2 * value / (linear + np.hypot(linear, np.sqrt(4 * quadratic * np.minimum(value, 1e300))))
    )
    return np.asarray(np.where(np.isinf(value), np.inf, root))


# Whether every single coordinate has noise: what all rounds leave on each of them.
#
# Noise that a tenth of the coordinates lack, scattered over the model, shortens no variable by
# much. On one coordinate it shows in several rounds together: given what came before, (s + g -
# m)^2 / stddev^2 is stochastically larger than chi-square with one degree of freedom, for any m
# that is known before g is drawn. So the sums over rounds of all coordinates are together at least
# as large as independent chi-square numbers are, whatever the clients send, and the number of
# coordinates below a quantile is at most binomial. The round before is taken for m: what clients
# send alike in all rounds is gone, and so is noise that is used again.


_QUANTILES = 10.0 ** -np.arange(1, 13)
"""The probabilities of the lower quantiles of chi-square below which coordinates are counted."""

_GRID = 0.125
"""The error that rounding may make on a coordinate, over the noise: a grid of a quarter of it."""

_PIECE = 1 << 20
"""The number of coordinates that are worked on at a time."""


@dataclass(frozen=True, eq=False)
class CoordinateLengths:
    """What rounds leave on each coordinate.

    Attributes:
      total: The sums over rounds of squared changes since the round before, each over the round's
        variance of the noise on a coordinate, float64 of shape (dim,).
      num_rounds: The number of rounds.
    """

    total: FloatArray
    num_rounds: int


def add_squares(
    total: FloatArray, aggregate: Float32Array, last: Float32Array | None, stddev: float
) -> None:
    """Adds an aggregate's squared changes, over the noise's variance, to a sum in place.

    Args:
      total: The sum, float64 of shape (dim,).
      aggregate: The aggregate, of shape (dim,).
      last: The aggregate of a round before; None where there is none, which counts as zeros.
      stddev: The standard deviation of the noise on a coordinate, positive.
    """
    for start in range(0, len(aggregate), _PIECE):
        piece = aggregate[start : start + _PIECE].astype(np.float64)
        if last is not None:
            piece -= last[start : start + _PIECE]
        piece /= stddev
        total[start : start + _PIECE] += piece * piece


def scarcest(
    coordinates: CoordinateLengths, moving: npt.NDArray[np.bool_]
) -> tuple[float, float, int]:
    """How likely so many coordinates of a correct mechanism are so short.

    Args:
      coordinates: The sums over rounds.
      moving: The coordinates that should have noise, bool of shape (dim,).

    Returns:
      The logarithm of a bound on the probability, over all quantiles that were looked at; the
      number of short coordinates over the one to be expected, at the quantile that looks worst; and
      the number of quantiles.
    """
    rounds = coordinates.num_rounds
    limits = 2 * special.gammaincinv(rounds / 2, _QUANTILES) if rounds else np.zeros(0)
    # Rounding to a grid moves the length of a coordinate's numbers by the root of rounds at most.
    shortened = np.sqrt(limits) - _GRID * math.sqrt(rounds)
    is_looked_at = shortened > 0
    if not is_looked_at.any() or not moving.any():
        return 0.0, 1.0, 0
    lengths, count = np.sqrt(coordinates.total[moving]), int(moving.sum())
    below = np.array([np.count_nonzero(lengths <= limit) for limit in shortened[is_looked_at]])
    chance = _QUANTILES[is_looked_at]
    log_p = -count * _divergence(np.maximum(below / count, chance), chance)
    worst = int(np.argmin(log_p))
    return (
        min(0.0, float(log_p[worst]) + math.log(len(chance))),
        float(below[worst] / (count * chance[worst])),
        len(chance),
    )


def _divergence(share: FloatArray, chance: FloatArray) -> FloatArray:
    """The divergence of coins, by which Chernoff bounds binomial tails: P(X >= n q) <= e^(-n D)."""
    return np.asarray(special.rel_entr(share, chance) + special.rel_entr(1 - share, 1 - chance))


# Noise that repeats within one aggregate, found as the strongest autocorrelation.


MOST_COORDINATES = 1 << 25
"""The largest model that is looked at, in coordinates: the transform takes 24 bytes for each."""


@dataclass(frozen=True)
class Autocorrelation:
    """The lag at which an aggregate is most like itself.

    Attributes:
      lag: The distance in coordinates, at least 1.
      product: The sum of the products of all pairs of coordinates that lie this far apart.
      num_pairs: The number of these pairs.
      num_lags: The number of lags of which this one is the strongest.
    """

    lag: int
    product: float
    num_pairs: int
    num_lags: int


def strongest_autocorrelation(
    aggregate: npt.NDArray[np.float32], stddev: float, norm_bound: float
) -> Autocorrelation | None:
    """The strongest of all lags, which the Fourier transform gives at once.

    Args:
      aggregate: The aggregate, of shape (dim,).
      stddev: The standard deviation of the noise on a coordinate, positive.
      norm_bound: The largest norm that the aggregate can have without noise.

    Returns:
      The lag whose correlation is the least likely by chance; None for a model of one coordinate,
      or of more than `MOST_COORDINATES`.
    """
    dim = len(aggregate)
    if not 1 < dim <= MOST_COORDINATES:
        return None
    # In units of the noise, which keeps float32's range whatever the clip norm is. A length that
    # only a broken clip leaves may still overflow, which another check finds; so may any length
    # over noise of next to nothing.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        products = _products_by_lag(aggregate / np.float32(stddev))
    if not np.isfinite(products).all():
        return None
    num_pairs = dim - np.arange(1, dim, dtype=np.float64)
    log_p = log_p_autocorrelation(products, num_pairs, norm_bound / stddev)
    at = int(np.argmax(np.where(log_p == log_p.min(), np.abs(products), -1)))
    return Autocorrelation(
        lag=at + 1,
        product=float(products[at] * stddev**2),
        num_pairs=dim - 1 - at,
        num_lags=dim - 1,
    )


def _products_by_lag(vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """The sums of products of coordinates that lie a lag apart, for every lag from 1."""
    from scipy import fft  # here, for it takes a fifth of a second that an estimate needs not

    size = fft.next_fast_len(2 * len(vector), real=True)  # so that no lag wraps around
    spectrum = fft.rfft(vector, size)
    products = fft.irfft(spectrum.real**2 + spectrum.imag**2, size)
    return np.asarray(products[1 : len(vector)], np.float64)


def autocorrelation_to_json(autocorrelation: Autocorrelation | None) -> str:
    """An autocorrelation as a line of JSON, `null` for none."""
    return msgspec.json.encode(autocorrelation).decode() + "\n"


def read_autocorrelation(path: Path) -> Autocorrelation | None:
    """Reads what `autocorrelation_to_json` has made.

    Raises:
      InputError: The file cannot be read, or holds something else.
    """
    kind: Any = Autocorrelation | None
    found = read_json(path, kind, "an autocorrelation")
    return found if isinstance(found, Autocorrelation) else None


# The checks.


FALSE_ALARM = 1e-6
"""The largest probability that a check of a correct mechanism fails, over all rounds and variables.
"""

_ROUNDING = 1 + 1e-5
"""The factor by which clipping in float32 may exceed a length."""

_OFF = 5e-3
"""The part by which noise may be off what was said of it: a value of three digits is, and so are
numbers of bfloat16 or float16. An epsilon moves by as little."""

_RESOLUTION = 1e-6
"""The resolution of an aggregate in float32: shorter noise is lost in it, whatever is added."""


@dataclass(frozen=True, eq=False)
class RunAggregates:
    """The measurements that the checks look at, of rounds in order.

    Attributes:
      sizes: The sizes of the model's variables.
      stddev: The standard deviation that the noise on a coordinate of the aggregate should have, of
        shape (rounds,); 0 where there is none, NaN where it is not known.
      norm_bound: The largest norm that the aggregate can have without noise, of shape (rounds,):
        participants times clip norm, over the denominator. NaN where it is not known.
      measured: The rows of `measure`, of shape (rounds, variables, 2), each round's with the round
        in the row before; what is NaN is not looked at.
      autocorrelation: The strongest autocorrelation of the first round; None where it was not
        looked for.
      coordinates: What all rounds leave on each coordinate; None where it was not kept.
      frozen: The variables, from 0, that are said not to be trained and to have no noise.
      numbers: The numbers of the rounds, from 1; None where they are 1, 2, 3 and so on.
    """

    sizes: Sequence[int]
    stddev: FloatArray
    norm_bound: FloatArray
    measured: FloatArray
    autocorrelation: Autocorrelation | None = None
    coordinates: CoordinateLengths | None = None
    frozen: frozenset[int] = frozenset()
    numbers: Sequence[int] | None = None


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes:
      name: The name of the check in report.json.
      log_p: The logarithm of a bound on the probability that a correct mechanism looks as bad, over
        all tests.
      num_tests: The number of tests: rounds and variables, or lags, that were looked at.
      round: The round, from 1, that looks worst; None where no round stands out, or where all
        rounds together look worst.
      variable: The variable of the model, from 1, that looks worst; None for the whole model.
      ratio: The measured over the expected value there; see `docs/checks.md`.
      meaning: What a correct mechanism does, in a sentence; empty before a report has it.
      measured: The finding in words, of a replay; None for other checks.
      told: Whether the question could be answered.
      detectable_ratio: The largest noise, over what it should be, that the check would have failed
        (see `detectable_noise`); None for a check of something else.
    """

    name: str
    log_p: float
    num_tests: int
    round: int | None
    variable: int | None
    ratio: float
    meaning: str = ""
    measured: str | None = field(default=None, metadata=WRITTEN_IF_SET)
    told: bool = field(default=True, metadata=WRITTEN_IF_SET)
    detectable_ratio: float | None = field(default=None, metadata=WRITTEN_IF_SET)

    @property
    def passed(self) -> bool:
        """Whether a correct mechanism may look like this."""
        return self.log_p >= math.log(FALSE_ALARM)

    @property
    def p_value(self) -> float:
        """The p-value of all tests of the check together; 0 where it is too small for a float."""
        return math.exp(self.log_p)

    def to_json(self) -> dict[str, object]:
        """The JSON object of report.json, which has the p-value and whether the check passed."""
        fields = fields_to_json(self)
        del fields["log_p"]
        outcome = {"passed": self.passed, "p_value": self.p_value}
        return {"name": fields["name"], "meaning": fields["meaning"], **outcome, **fields}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Check":
        """The check that `to_json` writes.

        Raises:
          ValueError: A key is missing, or a value is of another type.
        """
        p_value = from_json(float, fields["p_value"])
        log_p = math.log(p_value) if p_value > 0 else -math.inf
        return fields_from_json(cls, fields, log_p=log_p)


def check_aggregates(run: RunAggregates) -> list[Check]:
    """The checks that can be made; those of the noise only where there should be any."""
    return list(_checks(run))


def _checks(run: RunAggregates) -> Iterator[Check]:
    rounds = _Rounds.of(run)
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
    """The measurements with the whole model, without frozen variables, as a last variable.

    Attributes:
      sizes: The sizes, of shape (variables + 1,).
      squared: The squared lengths, of shape (rounds, variables + 1); NaN in frozen variables.
      products: The inner products with the round before, of that shape.
      stddev: The noise that should be on a coordinate, of shape (rounds, 1).
      norm_bound: The largest norm without noise, of shape (rounds, 1).
      numbers: The numbers of the rounds.
    """

    sizes: FloatArray
    squared: FloatArray
    products: FloatArray
    stddev: FloatArray
    norm_bound: FloatArray
    numbers: Sequence[int]

    @classmethod
    def of(cls, run: RunAggregates) -> "_Rounds":
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
        """The standard deviation where there is noise, else NaN."""
        return np.where(self.stddev > 0, self.stddev, np.nan)


def _enough_noise(rounds: _Rounds) -> Check:
    """The check that no variable is shorter than its noise."""
    lengths = _over_noise(rounds.squared, rounds.noise)
    return _long_enough("enough_noise", rounds, lengths, rounds.sizes)


def _over_noise(squared: FloatArray, noise: FloatArray) -> FloatArray:
    """Squared lengths over the noise's variance; infinite beyond the range of floats."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray((np.sqrt(squared) / noise) ** 2)


def _fresh_noise(rounds: _Rounds) -> Check:
    """The check that the part not explained by the last aggregate is not shorter than its noise."""
    squared, noise = rounds.squared, rounds.noise
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = rounds.products[1:] ** 2 / squared[:-1]
    unexplained = np.maximum(squared[1:] - np.where(squared[:-1] > 0, explained, 0), 0)
    dof = np.maximum(rounds.sizes - 1, 1)
    can_be_seen = np.sqrt(dof) * noise[1:] > _RESOLUTION * np.sqrt(squared[1:])
    lengths = np.full_like(squared, np.nan)
    is_tested = (rounds.sizes > 1) & can_be_seen
    lengths[1:] = np.where(is_tested, _over_noise(unexplained, noise[1:]), np.nan)
    return _long_enough("fresh_noise", rounds, lengths, dof)


def _long_enough(name: str, rounds: _Rounds, lengths: FloatArray, dof: FloatArray) -> Check:
    """The check that nothing is shorter than noise, in each round and in all rounds together.

    Given what came before, each round's squared length is stochastically larger than chi-square;
    so is the sum over rounds, whatever the clients make of what they have seen.

    Args:
      name: The name of the check.
      rounds: The rounds.
      lengths: Squared lengths over the noise's variance, of shape (rounds, variables + 1), NaN
        where they are not looked at.
      dof: The number of dimensions that the noise has there, of shape (variables + 1,).
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
    """The check that not more coordinates are short in all rounds than noise leaves short."""
    moving = np.repeat([index not in run.frozen for index in range(len(run.sizes))], run.sizes)
    log_p, ratio, num_tests = scarcest(coordinates, moving)
    return Check("noise_everywhere", log_p, num_tests, None, None, ratio)


def _bounded_length(rounds: _Rounds) -> Check:
    """The check that no variable is longer than clipped updates and their noise can be.

    In each round and, as too much noise adds up, in all rounds with noise together: given what came
    before, each squared length is stochastically smaller than noncentral chi-square, and so is
    their sum. Chance plays no part without noise, nor with so little that floats cannot hold the
    square of its ratio to the bound.
    """
    squared, bound = rounds.squared, _ROUNDING * rounds.norm_bound
    noise = (1 + _OFF) * rounds.noise
    with np.errstate(divide="ignore", over="ignore"):
        norm_bound = np.broadcast_to(bound / noise, squared.shape)
    lengths = _over_noise(squared, noise)
    is_certain = (rounds.stddev == 0) | np.isinf(_square(norm_bound))
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
    """The check that the first round's coordinates are not alike at any distance."""
    stddev, bound = rounds.stddev[0, 0], rounds.norm_bound[0, 0]
    product, num_pairs = np.array([strongest.product / stddev**2, strongest.num_pairs])
    log_p = float(log_p_autocorrelation(product, num_pairs, float(bound / stddev)))
    return Check(
        name="no_echo",
        log_p=min(0.0, log_p + math.log(strongest.num_lags)),
        num_tests=strongest.num_lags,
        round=rounds.numbers[0],
        variable=None,
        ratio=float(product / num_pairs),
    )


def _frozen(run: RunAggregates, rounds: _Rounds) -> Check:
    """The check that nothing comes out of a variable that is said to be frozen."""
    lengths = run.measured[:, sorted(run.frozen), 0]
    wrong = np.argwhere(lengths > 0)
    at, variable = wrong[0] if len(wrong) else (None, None)
    return Check(
        name="frozen_variables",
        log_p=-math.inf if len(wrong) else 0.0,
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

    Among equally likely ones, which mostly have the bound 1, it is the one with the largest
    badness. A row behind those of the rounds stands for all of them together.
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


_SEEN = 1.6449
"""The standard deviations below which a normal variable is with a probability of 0.05."""


def detectable_noise(
    lengths: FloatArray, dof: FloatArray, allowed: float, log_level: float
) -> float | None:
    """The largest noise, over what it should be, that one of several tests would have failed.

    With noise r times as large a squared length is around that of the updates, which is about the
    measured one without the noise's own, and r^2 dof. A normal law is taken for what it then is.

    Args:
      lengths: Squared lengths over the noise's variance, of any shape; NaN where none is tested.
      dof: The number of dimensions that the noise has there, of the same shape.
      allowed: The part of a squared length that is allowed for what is said of the noise.
      log_level: The logarithm of the probability of a false alarm, of all tests together.

    Returns:
      The noise that one test fails with a probability of about 0.95; 0 where none at all would pass
      too, None without tests.
    """
    tested = ~np.isnan(lengths)
    if not tested.any():
        return None
    lengths, dof = lengths[tested], dof[tested]
    of_updates = np.maximum(lengths - dof, 0)
    failing = dof * allowed * _shortest_share(dof, log_level - math.log(len(dof)))
    low, high = np.zeros(len(dof)), np.ones(len(dof))
    for _ in range(30):
        noise = (low + high) / 2
        spread = np.sqrt(2 * dof * noise**4 + 4 * of_updates * noise**2)
        is_seen = of_updates + dof * noise**2 + _SEEN * spread <= failing
        low, high = np.where(is_seen, noise, low), np.where(is_seen, high, noise)
    return float(low.max())


def _shortest_share(dof: FloatArray, log_p: float) -> FloatArray:
    """The squared length over dof at which `log_p_shorter` is this, between 0 and 1."""
    low, high = np.full(len(dof), -800.0), np.zeros(len(dof))  # of its logarithm
    for _ in range(60):
        middle = (low + high) / 2
        is_less_likely = log_p_shorter(dof * np.exp(middle), dof) < log_p
        low, high = np.where(is_less_likely, middle, low), np.where(is_less_likely, high, middle)
    return np.asarray(np.exp(low))


# What the config says of an aggregate, in the aggregate's own unit.


T = TypeVar("T", float, npt.NDArray[np.float64])


@dataclass(frozen=True, eq=False)
class Configured(Generic[T]):
    """Noise and norm bound of one round, or of several rounds as arrays.

    Attributes:
      stddev: The standard deviation of the noise on a coordinate.
      norm_bound: The largest norm that the aggregate can have without noise.
    """

    stddev: T
    norm_bound: T


def configured(
    clip_norm: T, participants: T, *, sum_noise_multiplier: float, denominator: float
) -> Configured[T]:
    """Noise and norm bound of a noised sum of clipped updates, divided by a fixed number.

    Args:
      clip_norm: The norm that the round's updates were clipped to.
      participants: The number of clients and canaries in the round.
      sum_noise_multiplier: The standard deviation of the noise on the sum, as a multiple of the
        clip norm.
      denominator: The number that the sum is divided by.
    """
    of_one = clip_norm / denominator
    return Configured(stddev=sum_noise_multiplier * of_one, norm_bound=participants * of_one)


def why_not_checked(mechanism: Mechanism) -> str | None:
    """The reason for which a run's aggregates are not checked, in words; None where they are.

    Args:
      mechanism: The mechanism table of the run's config, recorded or of a registered kind.
    """
    if isinstance(mechanism, RecordedTable):
        return "its mechanism is a plugin's, which is not imported to read a folder"
    return MECHANISMS.of(mechanism).why_not_checked
