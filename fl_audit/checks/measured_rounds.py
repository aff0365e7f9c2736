"""What is measured of aggregates for the checks: in a run, in a loop of one's own, and in a log.

A run writes an `AggregateLog`. A user's own loop shows its rounds to a `MechanismWatch`, which
makes the checks too. `RoundScorer` measures what it scores (`MeasuredRounds`), and the files of a
log are measured as they are read (`StatedRounds`); the folder says how the noise should be.

>>> watch = MechanismWatch(sizes=[3, 1])
>>> watch.see_round(np.float32([0.1, -1.2, 0.7, 0.4]), noise_stddev=1.0, norm_bound=2.0)
>>> [check.name for check in watch.checks() if check.passed]
['enough_noise', 'noise_everywhere', 'fresh_noise', 'bounded_length', 'no_echo']
"""

import functools
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from fl_audit.accounting.release import Correlation
from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.checks.aggregate_checks import RunAggregates, check_aggregates
from fl_audit.checks.autocorrelation import (
    Autocorrelation,
    autocorrelation_to_json,
    read_autocorrelation,
    strongest_autocorrelation,
)
from fl_audit.checks.check import Check
from fl_audit.checks.coordinates import CoordinateLengths, add_squares
from fl_audit.checks.whitening import ExpectedRounds, WhitenedRounds
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.noise_correlation import read_correlation
from fl_audit.formats.round_logs import LoggedTotal, MappedArray, create_log, open_log
from fl_audit.formats.text_files import read_json, write_text
from fl_audit.inner_products import inner_product
from fl_audit.mechanisms.noise_stream import NoiseStream

# The log of every round's noised aggregate: its lengths, and its products with the last one.


def measure(aggregate: Float32Array, last: Float32Array | None, sizes: Sequence[int]) -> FloatArray:
    """The numbers that are logged of an aggregate.

    Args:
      aggregate: The aggregate, of shape (dim,).
      last: The aggregate of the round before; None where there is none.
      sizes: The sizes of the model's variables, which lie one behind the other in the aggregate.

    Returns:
      Each variable's squared length and its inner product with the last round's (NaN without one),
      float64 of shape (variables, 2).
    """
    ends = np.cumsum(sizes)
    bounds = zip(ends - np.asarray(sizes), ends, strict=True)
    return np.array(
        [
            _products(aggregate[start:end], None if last is None else last[start:end])
            for start, end in bounds
        ]
    )


def _products(vector: Float32Array, other: Float32Array | None) -> tuple[float, float]:
    """The inner products of a vector with itself and with the other one."""
    return inner_product(vector, vector), np.nan if other is None else inner_product(vector, other)


class RowsInMemory:
    """Rows of `measure` of any number of rounds, which are not needed after a crash."""

    def __init__(self) -> None:
        """Starts without any row."""
        self._rows: list[FloatArray] = []

    def write_round(self, round_index: int, measured: FloatArray) -> None:
        """Takes the row of the next round."""
        if round_index != len(self._rows):
            raise ValueError(f"round {len(self._rows)} is next, got {round_index}")
        self._rows.append(measured)

    def rows(self) -> FloatArray:
        """The rows, float64 of shape (rounds, variables, 2)."""
        return np.array(self._rows)


@dataclass(frozen=True)
class AggregateLog:
    """The rows of `measure` in a file, float64 of shape (rounds, variables, 2).

    The format of the file is described in `formats.round_logs`.
    """

    _rows: MappedArray

    @classmethod
    def at_round(
        cls, completed: int, path: Path, num_rounds: int, num_variables: int
    ) -> "AggregateLog":
        """The log of a run with so many completed rounds; a new log where there are none.

        Raises:
          InputError: Rounds are completed, but the file is missing, damaged, or of another shape.
        """
        shape = (num_rounds, num_variables, 2)
        if completed:
            return cls(open_log(path, "r+", np.float64, shape, "aggregates"))
        return cls(create_log(path, np.float64, shape))

    def write_round(self, round_index: int, measured: FloatArray) -> None:
        """Writes one round's row."""
        self._rows[round_index] = measured

    def flush(self) -> None:
        """Writes what is in memory to the disk."""
        self._rows.flush()

    def rows(self) -> FloatArray:
        """The rows, float64 of shape (rounds, variables, 2); NaN in rounds that are not written."""
        return np.array(self._rows)


def read_aggregate_log(path: Path, num_rounds: int, num_variables: int) -> FloatArray:
    """The rows of a finished run, float64 of shape (rounds, variables, 2).

    Raises:
      InputError: The file is missing, damaged, or of another shape.
    """
    shape = (num_rounds, num_variables, 2)
    return AggregateLog(open_log(path, "r", np.float64, shape, "aggregates")).rows()


# Rounds that are shown one by one: a user's own loop, or the files of a log.


class MechanismWatch:
    """A watch that sees every round's aggregate in order, and keeps the last one and some lengths.

    Attributes:
      autocorrelation: The strongest autocorrelation of the first round; None where it has no noise
        or was not shown.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        log: AggregateLog | RowsInMemory | None = None,
        completed: int = 0,
        *,
        frozen: Collection[int] = (),
        correlation: Correlation | None = None,
        stream: NoiseStream | None = None,
    ) -> None:
        """Starts before the first round, or continues the log of completed rounds.

        After an interruption the last aggregate is lost: one round is then not compared with it.
        Correlated noise is looked at in whitened aggregates (`checks.whitening`).

        Args:
          sizes: The number of parameters in each variable of the model, in the order of the
            aggregate.
          log: The log that the measures of each round are written to; by default in memory, with
            the length of every coordinate, which takes 8 bytes each.
          completed: The number of completed rounds, whose measures the log holds.
          frozen: The variables, from 1, that are not trained and have no noise.
          correlation: The matrix or the trees that correlate noise over rounds; None where each
            round draws its own.
          stream: How the noise of the matrix is made of few vectors, where it is.
        """
        self._sizes = tuple(sizes)
        self._rounds = WhitenedRounds(correlation, stream, sum(self._sizes))
        self._frozen = frozenset(number - 1 for number in frozen)
        self._log = RowsInMemory() if log is None else log
        self._coordinates = np.zeros(sum(sizes)) if log is None else None
        self._first = completed
        self._last: Float32Array | None = None
        self._numbers: list[int] = []
        self._stddev: list[float] = []
        self._norm_bound: list[float] = []
        self.autocorrelation: Autocorrelation | None = None

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
          noise_stddev: The standard deviation of the noise that should be on each of its
            coordinates; 0 where none is added. Of correlated noise it is that of the independent
            noise: the rows of z of a matrix, the nodes of a tree.
          norm_bound: The largest norm that it can have without noise: for a mean of clipped updates
            the participants times the clip norm, over the number that the sum is divided by. None
            where it is not known: lengths are then not bounded.
          round_number: The number of the round, from 1; by default the next.

        Raises:
          InputError: The aggregate is not as long as the variables together, or a number is
            negative or not finite.
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
        """Measures a round's aggregate as `see_round` does, without checking the arguments.

        Args:
          aggregate: The aggregate as in `see_round`; it must not be written on any more.
          noise_stddev: The standard deviation as in `see_round`; NaN where it is not known.
          norm_bound: The largest norm as in `see_round`; NaN where it is not known.
          round_number: The number of the round, from 1; by default the next.
        """
        index = self._first + len(self._stddev)
        number = index + 1 if round_number is None else round_number
        seen = self._rounds.see_round(number - 1, aggregate, noise_stddev, norm_bound)
        aggregate, noise_stddev = seen.vector, seen.expected.stddev
        norm_bound = seen.expected.norm_bound
        if index == 0 and noise_stddev > 0 and not np.isnan(norm_bound):
            self.autocorrelation = strongest_autocorrelation(aggregate, noise_stddev, norm_bound)
        self._log.write_round(index, measure(aggregate, self._last, self._sizes))
        if self._coordinates is not None and noise_stddev > 0:
            add_squares(self._coordinates, aggregate, self._last, noise_stddev)
        self._numbers.append(number)
        self._stddev.append(noise_stddev)
        self._norm_bound.append(norm_bound)
        self._last = aggregate

    def aggregates(self) -> RunAggregates:
        """What the checks look at, of the rounds that were shown.

        Raises:
          InputError: No round was shown, or the first rounds were shown to another watch.
        """
        if not self._stddev:
            raise InputError("see_round: must be called for a round before there are checks")
        if self._first:
            raise InputError(
                "see_round: must be called for every round before there are checks, and "
                f"{self._first} were done before"
            )
        stddev = np.array(self._stddev)
        coordinates = None
        if self._coordinates is not None:
            coordinates = CoordinateLengths(self._coordinates, int((stddev > 0).sum()))
        return RunAggregates(
            sizes=self._sizes,
            stddev=stddev,
            norm_bound=np.array(self._norm_bound),
            measured=self._log.rows()[: len(self._stddev)],
            autocorrelation=self.autocorrelation,
            coordinates=coordinates,
            frozen=self._frozen,
            numbers=tuple(self._numbers),
        )

    def checks(self) -> list[Check]:
        """The checks of the rounds that were shown.

        Raises:
          InputError: No round was shown, or the first rounds were shown to another watch.
        """
        return check_aggregates(self.aggregates())


def check_noise(noise_stddev: float, norm_bound: float | None) -> None:
    """Refuses what cannot be said of a round's noise.

    Raises:
      InputError: A number is negative or not finite.
    """
    for name, value in (("noise_stddev", noise_stddev), ("norm_bound", norm_bound)):
        if value is not None and not 0 <= value < float("inf"):
            raise InputError(f"{name}: must be a number, at least 0, got {value}")


# What a log folder says of its mechanism, and what was measured of its aggregates.


_COORDINATES = "the lengths of coordinates"


class Variables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The variables of a model, which lie one behind the other in an aggregate.

    Attributes:
      sizes: The number of parameters in each.
      frozen: The variables, from 1, that are not trained and have no noise.
    """

    sizes: tuple[int, ...]
    frozen: tuple[int, ...] = ()


def checked_variables(
    sizes: Sequence[int], frozen: Collection[int], dim: int, name: str
) -> Variables:
    """The variables, if they are those of a model of this size.

    Args:
      sizes: The number of parameters in each.
      frozen: The variables, from 1, that are not trained.
      dim: The number of parameters of the model.
      name: Who says so, for a message.

    Raises:
      InputError: Sizes are not positive or do not add up to the model's; or no variable has the
        number of a frozen one, or all are frozen.
    """
    if not sizes or min(sizes) < 1 or sum(sizes) != dim:
        raise InputError(
            f"{name}: sizes must be positive and add up to dim = {dim:,}, got {len(sizes)} of sum "
            f"{sum(sizes):,}"
        )
    if not all(1 <= number <= len(sizes) for number in frozen) or len(set(frozen)) == len(sizes):
        raise InputError(
            f"{name}: frozen must be numbers of some of the variables, 1 to {len(sizes)}"
        )
    return Variables(tuple(map(int, sizes)), tuple(sorted(set(map(int, frozen)))))


def write_variables(folder: LogFolder, variables: Variables) -> None:
    """Writes `variables.json`."""
    write_text(folder.variables, json.dumps(msgspec.to_builtins(variables)) + "\n")


def read_variables(folder: LogFolder, dim: int) -> Variables | None:
    """The variables that a folder names; None where it names none.

    Raises:
      InputError: The file is damaged, or is not about a model of this size.
    """
    if not folder.variables.exists():
        return None
    read = read_json(folder.variables, Variables, "the sizes of variables")
    return checked_variables(read.sizes, read.frozen, dim, str(folder.variables))


def read_mechanism(folder: LogFolder) -> FloatArray | None:
    """The noise and the norm bound of each round, of shape (rounds, 2); None without the file.

    Raises:
      InputError: The file is damaged, or a number is negative or infinite.
    """
    path = folder.round_mechanism
    if not path.exists():
        return None
    rows = np.array(open_log(path, "r", np.float64, ("rounds", 2), "noise and norm bounds"))
    wrong = np.argwhere(~(np.isnan(rows) | ((rows >= 0) & np.isfinite(rows))))
    if len(wrong):
        at, column = wrong[0]
        raise InputError(
            f"{path}: round {at + 1}: must be numbers of at least 0, or NaN where one is not "
            f"known; got {rows[at, column]}"
        )
    return rows


class StatedRounds:
    """Measures the aggregates of a log whose system says how their noise should be."""

    def __init__(
        self, promised: FloatArray, variables: Variables, correlation: Correlation | None
    ) -> None:
        """Starts before the first aggregate.

        Args:
          promised: What `read_mechanism` has read.
          variables: The variables of the model.
          correlation: What correlates the noise over rounds; None where it is independent.
        """
        self._promised = promised
        self._watch = MechanismWatch(
            variables.sizes, frozen=variables.frozen, correlation=correlation
        )
        self._is_shown = False

    def see_round(self, number: int, aggregate: Float32Array) -> None:
        """Measures a round, from 1, if its noise is known; rounds come in order."""
        is_promised = number <= len(self._promised)
        stddev, norm_bound = self._promised[number - 1] if is_promised else (np.nan, 0)
        if not np.isnan(stddev):
            self._is_shown = True
            self._watch.measure_round(
                aggregate, noise_stddev=stddev, norm_bound=norm_bound, round_number=number
            )

    def aggregates(self) -> RunAggregates | None:
        """What the checks look at; None where no round's noise is known."""
        return self._watch.aggregates() if self._is_shown else None


class MeasuredRounds:
    """Measures each aggregate of a server that says how its noise should be, in a log folder.

    What is measured survives kill -9. After a restart one round is not compared with the round
    before, whose aggregate is gone.
    """

    def __init__(self, folder: LogFolder, num_rounds: int, dim: int) -> None:
        """Goes on with what the folder holds, if it holds any.

        Raises:
          InputError: A file is damaged.
        """
        self._folder = folder
        self._num_rounds = num_rounds
        self._dim = dim
        self._last: tuple[int, Float32Array] | None = None
        self._variables: Variables | None = None
        self._rounds = WhitenedRounds(read_correlation(folder, num_rounds), None, dim)
        if folder.round_measures.exists():
            self._variables = _variables(folder, dim)
            self._open(self._variables)

    def _open(self, variables: Variables) -> None:
        shape = (self._num_rounds, len(variables.sizes), 2)
        self._promised = _continued(self._folder.round_mechanism, (self._num_rounds, 2), "noise")
        self._measured = _continued(self._folder.round_measures, shape, "measures")
        self._coordinates = LoggedTotal(self._folder.coordinate_lengths, self._dim, _COORDINATES)

    def forget(self, index: int) -> list[int]:
        """Takes out a round, counted from 0, before it is scored, perhaps again.

        The round behind it was compared with the aggregate that is replaced; that is taken out too.

        Returns:
          The round behind it, if its row has changed.
        """
        if self._last is not None and self._last[0] >= index:
            self._last = None
        if self._variables is None:
            return []
        if index == 0:
            self._folder.autocorrelation.unlink(missing_ok=True)
        behind = index + 1 + np.flatnonzero(~np.isnan(self._measured[index + 1 :, 0, 0]))
        self._measured[behind[:1], :, 1] = np.nan
        self._measured[index] = np.nan
        self._promised[index] = np.nan
        self._measured.flush()
        self._promised.flush()
        self._coordinates.restart_without(index)
        return [int(number) for number in behind[:1]]

    def write(
        self,
        index: int,
        aggregate: Float32Array,
        sizes: Sequence[int],
        noise_stddev: float,
        norm_bound: float | None,
    ) -> None:
        """Measures a round, which was forgotten before.

        Args:
          index: The round, counted from 0.
          aggregate: The aggregate, of shape (dim,).
          sizes: The sizes of the variables, where the folder does not name them yet.
          noise_stddev: The standard deviation of the noise on a coordinate.
          norm_bound: The largest norm of the aggregate without noise; None where it is not known.
        """
        if self._variables is None:
            self._variables = read_variables(self._folder, self._dim) or Variables(tuple(sizes))
            write_variables(self._folder, self._variables)
            self._open(self._variables)
            self._coordinates.restart_without(index)
        last = self._before(index)
        bound = np.nan if norm_bound is None else norm_bound
        self._promised[index] = noise_stddev, bound
        self._promised.flush()
        seen = self._rounds.see_round(index, aggregate, noise_stddev, bound)
        aggregate, noise_stddev = seen.vector, seen.expected.stddev
        self._measured[index] = measure(aggregate, last, self._variables.sizes)
        self._measured.flush()
        if noise_stddev > 0:
            self._coordinates.add(
                index,
                functools.partial(add_squares, aggregate=aggregate, last=last, stddev=noise_stddev),
            )
        if index == 0 and norm_bound is not None and noise_stddev > 0:
            echo = strongest_autocorrelation(aggregate, noise_stddev, norm_bound)
            write_text(self._folder.autocorrelation, autocorrelation_to_json(echo))
        self._last = (index, aggregate.copy())

    def _before(self, index: int) -> Float32Array | None:
        """The aggregate of the round that was measured last before this one; None if it is gone."""
        if self._last is None:
            return None
        number, aggregate = self._last
        between = self._measured[number + 1 : index, 0, 0]
        return aggregate if np.isnan(between).all() else None


def logged_aggregates(folder: LogFolder, dim: int) -> RunAggregates | None:
    """What `RoundScorer` has measured in a folder; None where it was not told of any noise.

    Raises:
      InputError: A file is damaged.
    """
    promised = read_mechanism(folder)
    if promised is None or not folder.round_measures.exists():
        return None
    variables = _variables(folder, dim)
    shape = (len(promised), len(variables.sizes), 2)
    measured = np.array(open_log(folder.round_measures, "r", np.float64, shape, "measures"))
    rows = np.flatnonzero(~np.isnan(measured[:, :, 0]).any(axis=1))
    total = LoggedTotal(folder.coordinate_lengths, dim, _COORDINATES)
    has_echo = 0 in rows and folder.autocorrelation.exists()
    correlation = read_correlation(folder, len(promised))
    stddev, norm_bound = expected_of_log(
        correlation, promised[rows, 0], promised[rows, 1], measured[rows], rows.tolist()
    )
    return RunAggregates(
        sizes=variables.sizes,
        stddev=stddev,
        norm_bound=norm_bound,
        measured=measured[rows],
        autocorrelation=read_autocorrelation(folder.autocorrelation) if has_echo else None,
        coordinates=CoordinateLengths(total.total, len(total.rounds)) if total.rounds else None,
        frozen=frozenset(number - 1 for number in variables.frozen),
        numbers=tuple((rows + 1).tolist()),
    )


def expected_of_log(
    correlation: Correlation | None,
    stddev: FloatArray,
    norm_bound: FloatArray,
    measured: FloatArray,
    rounds: Sequence[int],
) -> tuple[FloatArray, FloatArray]:
    """What whitened aggregates should be, whose measures were logged.

    Where a round was not compared with one before, whoever measured it had started anew.

    Args:
      correlation: What correlates the noise; None where it is independent.
      stddev: The standard deviation of the independent noise in each round, of shape (rounds,).
      norm_bound: The largest norm of each aggregate without noise, of shape (rounds,).
      measured: The rows of `measure`, of shape (rounds, variables, 2).
      rounds: The numbers of the rounds, from 0.

    Returns:
      The standard deviation and the norm bound of each whitened aggregate, of shape (rounds,).
    """
    expected, whitened = ExpectedRounds(correlation), []
    for at, index in enumerate(rounds):
        if np.isnan(measured[at, :, 1]).any():
            expected.forget()
        whitened.append(expected.see_round(int(index), float(stddev[at]), float(norm_bound[at])))
    stddevs = [each.stddev for each in whitened]
    return np.array(stddevs), np.array([each.norm_bound for each in whitened])


def _variables(folder: LogFolder, dim: int) -> Variables:
    return read_variables(folder, dim) or Variables((dim,))


def _continued(path: Path, shape: tuple[int, ...], what: str) -> MappedArray:
    """A log to be written on; where there is none, one is made, which appears whole."""
    if path.exists():
        return open_log(path, "r+", np.float64, shape, what)
    unfinished = path.with_name(f".{path.name}.part")
    log = create_log(unfinished, np.float64, shape)
    log.flush()
    unfinished.rename(path)
    return log
