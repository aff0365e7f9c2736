"""Measurements of aggregates for the checks: in a run, in a custom loop, and in a log.

A run writes an `AggregateLog`. A custom loop passes its rounds to a `MechanismWatch`, which also
returns the checks. `RoundScorer` measures while it scores (`MeasuredRounds`). The aggregates of a
log whose folder states the noise are measured when their files are read (`StatedRounds`).
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from fl_audit.accounting.release import Correlation
from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.checks.aggregate_checks import RunAggregates, check_aggregates
from fl_audit.checks.check import Check
from fl_audit.checks.noise_rows import NoiseWatch, row_size
from fl_audit.checks.whitening import Expected, ExpectedRounds, Whitening
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.formats.noise_correlation import read_correlation
from fl_audit.formats.round_logs import Mode, RoundArray
from fl_audit.formats.text_files import read_json, write_text
from fl_audit.inner_products import inner_product
from fl_audit.mechanisms.kind import NoiseStream

# The log of every round's noised aggregate: its norms, and its products with the previous one.


def measure(aggregate: Float32Array, last: Float32Array | None, sizes: Sequence[int]) -> FloatArray:
    """Measures each variable's squared norm, and its inner product with this variable in `last`.

    Returns:
      Float64 of shape (variables, 2); products are NaN if `last`, the previous aggregate, is None.
    """
    ends = np.cumsum(sizes)[:-1]
    parts = np.split(aggregate, ends)
    squares = [inner_product(part, part) for part in parts]
    products = [np.nan] * len(parts)
    if last is not None:
        products = list(map(inner_product, parts, np.split(last, ends)))
    return np.array([squares, products]).T


class _Measurer:
    """Measures the aggregates of one model, round after round."""

    def __init__(
        self,
        sizes: Sequence[int],
        frozen: Collection[int],
        correlation: Correlation | None,
        stream: NoiseStream | None = None,
    ) -> None:
        """`frozen` are the variables, from 0, that have no noise."""
        self._sizes = sizes
        self._expected = ExpectedRounds(correlation, stream, sum(sizes))
        self._whitening: Whitening | None = None
        if correlation is not None:
            self._whitening = Whitening.from_correlation(correlation, stream, sum(sizes))
        self._noise = NoiseWatch(sizes, frozen)

    def measure(
        self,
        index: int,
        aggregate: Float32Array,
        last: Float32Array | None,
        noise: tuple[float, float],
    ) -> tuple[Float32Array, Expected, FloatArray, Float32Array]:
        """The whitened aggregate, its noise and norm, and rows of `measure` and of `NoiseWatch`.

        `last` is the previous whitened aggregate; `noise` is the stated noise and norm bound.
        """
        expected = self._expected.see_round(index, *noise)
        if self._whitening is not None and noise[0] > 0:
            aggregate = self._whitening.whiten(index, aggregate, noise[0])
        row = self._noise.row(index, aggregate, expected.stddev, expected.norm_bound)
        return aggregate, expected, measure(aggregate, last, self._sizes), row


class _Measures(RoundArray):
    """Rows of `measure`, float64 of shape (rounds, variables, 2)."""

    dtype, what, row_shape = np.float64, "aggregates", (2,)


class _Noise(RoundArray):
    """Rows of `NoiseWatch`, float32 of shape (rounds, `row_size`)."""

    what = "noise"


class _Stated(RoundArray):
    """The noise and the norm bound of each round, float64 of shape (rounds, 2)."""

    dtype, what, row_shape = np.float64, "noise and norm bounds", (2,)


@dataclass(frozen=True)
class AggregateLog:
    """The rows of `measure` and of `NoiseWatch` in two files of a run or a log."""

    measures: _Measures
    _noise: _Noise

    @classmethod
    def opened(
        cls,
        mode: Mode,
        folder: RunFolder | LogFolder,
        num_rounds: int,
        sizes: Sequence[int],
        frozen: Collection[int] = (),
    ) -> "AggregateLog":
        """Opens or creates the log; `frozen` are the variables, from 0, that have no noise."""
        path = folder.aggregates if isinstance(folder, RunFolder) else folder.round_measures
        width = row_size(sum(size for at, size in enumerate(sizes) if at not in frozen))
        return cls(
            _Measures.opened(mode, path, num_rounds, len(sizes)),
            _Noise.opened(mode, folder.round_noise, num_rounds, width),
        )

    def write_round(self, round_index: int, measured: npt.ArrayLike, noise: npt.ArrayLike) -> None:
        self.measures.write_round(round_index, measured)
        self._noise.write_round(round_index, noise)

    def flush(self) -> None:
        self.measures.flush()
        self._noise.flush()

    def measured(self) -> FloatArray:
        """The rows of `measure`; NaN in rounds that are not written."""
        return self.measures.values()

    def noise(self) -> FloatArray:
        """The rows of `NoiseWatch`; NaN in rounds that are not written."""
        return np.array(self._noise.array, np.float64)

    def aggregates(
        self,
        stated: FloatArray,
        rounds: IntArray,
        sizes: Sequence[int],
        correlation: Correlation | None,
        frozen: frozenset[int] = frozenset(),
        *,
        stream: NoiseStream | None = None,
    ) -> RunAggregates:
        """The input of the checks for some rounds, from 0.

        `correlation` and `stream` are those of the measurements (`MechanismWatch`). `stated` has
        the noise and the norm bound of every round, of shape (rounds, 2). A round that was not
        compared with the previous one, as after a restart, starts a new whitening.
        """
        measured = self.measured()[rounds]
        whitening, whitened = ExpectedRounds(correlation, stream, sum(sizes)), []
        for index, row in zip(rounds.tolist(), measured, strict=True):
            if np.isnan(row[:, 1]).any():
                whitening.forget()
            whitened.append(whitening.see_round(index, *map(float, stated[index])))
        return RunAggregates(
            sizes=tuple(sizes),
            stddev=np.array([each.stddev for each in whitened]),
            norm_bound=np.array([each.norm_bound for each in whitened]),
            measured=measured,
            noise=self.noise()[rounds],
            frozen=frozen,
            numbers=tuple((rounds + 1).tolist()),
        )


# Rounds one by one, from a user's loop or from the files of a log.


class MechanismWatch:
    """Measures every round's aggregate, in order."""

    def __init__(
        self,
        sizes: Sequence[int],
        log: AggregateLog | None = None,
        completed: int = 0,
        *,
        frozen: Collection[int] = (),
        correlation: Correlation | None = None,
        stream: NoiseStream | None = None,
    ) -> None:
        """Starts before the first round, or continues the log of completed rounds.

        After an interruption the previous aggregate is lost, so the next round is not compared with
        it. Correlated noise is tested in whitened aggregates (`checks.whitening`).

        Args:
          sizes: The number of parameters in each variable of the model, in the order of the
            aggregate.
          log: A log to which each round's measurements are also written.
          completed: The number of completed rounds, whose measurements the log holds.
          frozen: The variables, from 1, that are not trained and have no noise.
          correlation: The matrix or the trees that correlate noise over rounds; None if noise is
            independent over rounds.
          stream: The memory-efficient recursion for the matrix's noise, if known.
        """
        self._sizes = tuple(sizes)
        self._frozen = frozenset(number - 1 for number in frozen)
        self._measurer = _Measurer(self._sizes, self._frozen, correlation, stream)
        self._log = log
        self._first = completed
        self._last: Float32Array | None = None
        self._rows: list[tuple[int, float, float, FloatArray, Float32Array]] = []

    def see_round(
        self,
        aggregate: Float32Array,
        *,
        noise_stddev: float,
        norm_bound: float | None = None,
        round_number: int | None = None,
    ) -> None:
        """Measures a round's aggregate.

        Args:
          aggregate: The aggregate that the round released, float32 of shape (dim,).
          noise_stddev: The configured standard deviation of the noise on each coordinate of the
            aggregate; 0 without noise. Under correlated noise, the standard deviation of the
            independent noise: before a matrix is applied, or on a tree's nodes.
          norm_bound: The aggregate's largest norm without noise: for a mean of clipped updates the
            participants times the clip norm, over the divisor of the sum. None if unknown; the norm
            is then not checked.
          round_number: The number of the round, from 1; by default the next.

        Raises:
          InputError: The aggregate does not have as many entries as all variables together, or the
            noise or the norm bound is negative or not finite.
        """
        dim = sum(self._sizes)
        if aggregate.shape != (dim,):
            raise InputError(f"aggregate: must be of shape ({dim},), got {aggregate.shape}")
        check_noise(noise_stddev, norm_bound)
        self.measure_round(
            aggregate.copy(),
            noise_stddev=noise_stddev,
            norm_bound=np.nan if norm_bound is None else norm_bound,
            round_number=round_number,
        )

    def measure_round(
        self,
        aggregate: Float32Array,
        *,
        noise_stddev: float,
        norm_bound: float,
        round_number: int | None = None,
    ) -> None:
        """Like `see_round`, without checking the arguments.

        An unknown noise or norm bound is NaN; the aggregate must not be changed afterwards.
        """
        index = self._first + len(self._rows)
        number = index + 1 if round_number is None else round_number
        stated = (noise_stddev, norm_bound)
        vector, expected, products, noise = self._measurer.measure(
            number - 1, aggregate, self._last, stated
        )
        if self._log is not None:
            self._log.write_round(index, products, noise)
        self._rows.append((number, expected.stddev, expected.norm_bound, products, noise))
        self._last = vector

    def aggregates(self) -> RunAggregates:
        """The input of the checks, for the rounds so far."""
        if not self._rows:
            raise InputError("see_round: must be called for at least one round before the checks")
        if self._first:
            raise InputError(
                "see_round: must be called for every round before the checks, including the first "
                f"{self._first}"
            )
        numbers, stddev, norm_bound, products, noise = zip(*self._rows, strict=True)
        return RunAggregates(
            sizes=self._sizes,
            stddev=np.array(stddev),
            norm_bound=np.array(norm_bound),
            measured=np.array(products),
            noise=np.array(noise, np.float64),
            frozen=self._frozen,
            numbers=numbers,
        )

    def checks(self) -> list[Check]:
        """The checks of the rounds so far."""
        return check_aggregates(self.aggregates())


def check_noise(noise_stddev: float, norm_bound: float | None) -> None:
    """Refuses noise, or a norm bound, that is negative or not finite."""
    for name, value in (("noise_stddev", noise_stddev), ("norm_bound", norm_bound)):
        if value is not None and not 0 <= value < float("inf"):
            raise InputError(f"{name}: must be a number, at least 0, got {value}")


# The mechanism that a log folder states, and the measurements of its aggregates.


class Variables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The variables of a model, in the order of an aggregate.

    Attributes:
      sizes: The number of parameters in each variable.
      frozen: The variables, from 1, that are not trained and have no noise.
    """

    sizes: tuple[int, ...]
    frozen: tuple[int, ...] = ()

    @property
    def without_noise(self) -> frozenset[int]:
        """The frozen variables, from 0."""
        return frozenset(number - 1 for number in self.frozen)


def checked_variables(
    sizes: Sequence[int], frozen: Collection[int], dim: int, name: str
) -> Variables:
    """The variables of a model of `dim` parameters; an error message begins with `name`."""
    if not sizes or min(sizes) < 1 or sum(sizes) != dim:
        raise InputError(
            f"{name}: sizes must be positive and add up to dim = {dim:,}, got {len(sizes)} of sum "
            f"{sum(sizes):,}"
        )
    if not all(1 <= number <= len(sizes) for number in frozen) or len(set(frozen)) == len(sizes):
        raise InputError(
            f"{name}: frozen must list some variables, not all, by numbers from 1 to {len(sizes)}"
        )
    return Variables(tuple(map(int, sizes)), tuple(sorted(set(map(int, frozen)))))


def write_variables(folder: LogFolder, variables: Variables) -> None:
    """Writes `variables.json`."""
    write_text(folder.variables, json.dumps(msgspec.to_builtins(variables)) + "\n")


def read_variables(folder: LogFolder, dim: int, sizes: Sequence[int] = ()) -> Variables:
    """Reads `variables.json`; without it, the variables have these sizes, by default one of all."""
    if not folder.variables.exists():
        return Variables(tuple(sizes) or (dim,))
    read = read_json(folder.variables, Variables, "the sizes of variables")
    return checked_variables(read.sizes, read.frozen, dim, str(folder.variables))


def read_mechanism(folder: LogFolder) -> FloatArray | None:
    """The noise and the norm bound of each round, of shape (rounds, 2); None without the file."""
    path = folder.round_mechanism
    if not path.exists():
        return None
    rows: FloatArray = _Stated.opened("r", path, "rounds").values()
    wrong = np.argwhere(~(np.isnan(rows) | ((rows >= 0) & np.isfinite(rows))))
    if len(wrong):
        at, column = wrong[0]
        raise InputError(
            f"{path}: round {at + 1}: must be numbers of at least 0, or NaN where one is not "
            f"known; got {rows[at, column]}"
        )
    return rows


class StatedRounds:
    """Measures the aggregates of a log; `stated` is what `read_mechanism` returns."""

    def __init__(
        self, stated: FloatArray, variables: Variables, correlation: Correlation | None
    ) -> None:
        self._stated = stated
        self._watch = MechanismWatch(
            variables.sizes, frozen=variables.frozen, correlation=correlation
        )
        self._has_rounds = False

    def see_round(self, number: int, aggregate: Float32Array) -> None:
        """Measures a round, from 1, if its noise is known; rounds come in order."""
        is_stated = number <= len(self._stated)
        stddev, norm_bound = self._stated[number - 1] if is_stated else (np.nan, 0)
        if not np.isnan(stddev):
            self._has_rounds = True
            self._watch.measure_round(
                aggregate, noise_stddev=stddev, norm_bound=norm_bound, round_number=number
            )

    def aggregates(self) -> RunAggregates | None:
        """The input of the checks; None if no round's noise is known."""
        return self._watch.aggregates() if self._has_rounds else None


class MeasuredRounds:
    """Writes measurements of aggregates to a log folder, for a server that states the noise.

    Measurements survive kill -9. After a restart one round is not compared with its predecessor,
    whose aggregate is lost.
    """

    def __init__(self, folder: LogFolder, num_rounds: int, dim: int) -> None:
        """Continues the measurements of the folder; raises InputError for damaged files."""
        self._folder = folder
        self._num_rounds = num_rounds
        self._dim = dim
        self._last: tuple[int, Float32Array] | None = None
        self._variables: Variables | None = None
        self._correlation = read_correlation(folder, num_rounds)
        if folder.round_measures.exists():
            self._variables = read_variables(folder, dim)
            self._open(self._variables)

    def _open(self, variables: Variables) -> None:
        folder, rounds, frozen = self._folder, self._num_rounds, variables.without_noise
        self._stated = _Stated.opened("a+", folder.round_mechanism, rounds)
        self._log = AggregateLog.opened("a+", folder, rounds, variables.sizes, frozen)
        self._measurer = _Measurer(variables.sizes, frozen, self._correlation)

    def forget(self, index: int) -> list[int]:
        """Removes the measurements of a round, counted from 0, before the round is scored.

        The next measured round loses the comparison with its predecessor, and is returned, if there
        is such a round.
        """
        if self._last is not None and self._last[0] >= index:
            self._last = None
        if self._variables is None:
            return []
        measures = self._log.measures.array
        later = index + 1 + np.flatnonzero(~np.isnan(measures[index + 1 :, 0, 0]))
        measures[later[:1], :, 1] = np.nan
        self._log.write_round(index, np.nan, np.nan)
        self._log.flush()
        self._stated.write_round(index, np.nan)
        self._stated.flush()
        return [int(number) for number in later[:1]]

    def write(
        self,
        index: int,
        aggregate: Float32Array,
        sizes: Sequence[int],
        noise_stddev: float,
        norm_bound: float | None,
    ) -> None:
        """Measures a round, counted from 0, after `forget`.

        `sizes` are taken as the sizes of variables if the folder does not state any; `norm_bound`
        is None if unknown.
        """
        if self._variables is None:
            self._variables = read_variables(self._folder, self._dim, sizes)
            write_variables(self._folder, self._variables)
            self._open(self._variables)
        stated = (noise_stddev, np.nan if norm_bound is None else norm_bound)
        self._stated.write_round(index, stated)
        self._stated.flush()
        last = self._before(index)
        vector, _, products, noise = self._measurer.measure(index, aggregate, last, stated)
        self._log.write_round(index, products, noise)
        self._log.flush()
        self._last = (index, vector.copy())

    def _before(self, index: int) -> Float32Array | None:
        """The (whitened) aggregate of the previous measured round; None if it is not in memory."""
        if self._last is None:
            return None
        number, aggregate = self._last
        between = self._log.measures.array[number + 1 : index, 0, 0]
        return aggregate if np.isnan(between).all() else None


def logged_aggregates(folder: LogFolder, dim: int) -> RunAggregates | None:
    """The measurements by `RoundScorer` in a folder; None without any, or without stated noise."""
    stated = read_mechanism(folder)
    if stated is None or not folder.round_measures.exists():
        return None
    variables = read_variables(folder, dim)
    frozen = variables.without_noise
    log = AggregateLog.opened("r", folder, len(stated), variables.sizes, frozen)
    rounds = np.flatnonzero(~np.isnan(log.measured()[:, :, 0]).any(axis=1))
    correlation = read_correlation(folder, len(stated))
    return log.aggregates(stated, rounds, variables.sizes, correlation, frozen)
