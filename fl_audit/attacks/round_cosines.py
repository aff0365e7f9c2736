"""The cosines of every canary with the noised aggregates of rounds, shared by attackers.

The same classes hold the measurements of aggregates that null distributions need.
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.attacks.compared_vectors import (
    ComparedVectors,
    any_one_of,
    concentration_row,
    depends_on_vectors,
    largest_cosine,
    one_vector,
    unknown_rows,
)
from fl_audit.attacks.directions import RoundDirections, add_direction, sum_of_cosines
from fl_audit.attacks.live_test import ScoredRound
from fl_audit.attacks.own_rounds import NumberedRow, RoundWeights
from fl_audit.attacks.own_sums import KeptSums, OwnSums
from fl_audit.canaries.pool import CanaryPool
from fl_audit.checks import RunAggregates, StatedRounds
from fl_audit.formats.round_logs import ConcentrationLog, CosineLog, Mode, unnamed_log
from fl_audit.inner_products import euclidean_norm

Cosines = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float64]]
"""A function from a vector, float32 of shape (dim,), to its cosine with every canary."""

Rows = Iterator[npt.NDArray[np.float32]]


class RoundCosines(abc.ABC):
    """The cosines of every canary, one row per round, counted from 0."""

    _directions: RoundDirections | KeptSums | None = None

    def see_aggregate(self, index: int, aggregate: Float32Array) -> None:
        """Scores a round's noised aggregate once, even if several attackers pass it."""
        raise ValueError(f"round {index}: a log that is only read takes no further rounds")

    def flush(self) -> None: ...  # noqa: B027 - read-only logs have nothing to write

    @abc.abstractmethod
    def rows(self, rounds: range | None = None) -> Rows:
        """The scored rounds' rows in order, in float32; with `rounds`, only the rows of these."""

    @abc.abstractmethod
    def numbered_rows(self) -> Iterator[NumberedRow]: ...

    def scored_rounds(self) -> IntArray:
        """The scored rounds, from 0, in order; reads their rows."""
        return np.array([index for index, _ in self.numbered_rows()], np.int64)

    @abc.abstractmethod
    def scored_round(self, index: int) -> ScoredRound | None:
        """A round's cosines and compared vector; None if the round is not scored."""

    @abc.abstractmethod
    def total(self) -> ComparedVectors | None:
        """The compared vector of the sum of cosines over all rounds; None if not known."""

    @abc.abstractmethod
    def _concentrations_of(self, rounds: range | None) -> FloatArray:
        """The rows of `ConcentrationLog` for the scored rounds in `rounds` (None for all)."""

    @abc.abstractmethod
    def _scored(self) -> IntArray:
        """The indices of the scored rounds in the log of directions."""

    def any_one(self) -> ComparedVectors | None:
        """A compared vector that covers a cosine with any single scored aggregate.

        None without scored rounds, or if an aggregate is zero.
        """
        if not all(row.any() for row in self.rows()):
            return None  # families whose nulls need no concentrations show a zero vector only here
        return any_one_of(self._concentrations_of(None))

    def largest(self, rounds: range | None = None) -> ComparedVectors | None:
        """The compared vectors of the largest cosine in `rounds`; None if every aggregate is 0."""
        return largest_cosine(self._concentrations_of(rounds))

    def weighted_sums(self, weights: RoundWeights) -> OwnSums | None:
        """Each canary's weighted sum of scored directions; None if one is unknown, or cancels."""
        known = self._directions
        return None if known is None else known.weighted_sums(weights, self._scored())

    def kept_sums(self, weights: RoundWeights) -> KeptSums | None:
        """What is kept of the scored rounds' directions; None if a direction is not known."""
        known = self._directions
        if isinstance(known, RoundDirections):
            return known.kept_sums(weights, self._scored())
        return known

    def measured_lengths(self) -> FloatArray:
        """The norms of aggregates that were read, by round from 0; NaN in rounds without one."""
        return np.zeros(0)

    def measured_aggregates(self) -> RunAggregates | None:
        """The input of mechanism checks, complete after `rows`; None if the noise is not known."""
        return None


class LoggedRounds(RoundCosines):
    """Rounds whose cosines are in a log's file, and measurements of their aggregates."""

    def __init__(
        self,
        log: CosineLog,
        concentrations: ConcentrationLog | None,
        total: ComparedVectors | None = None,
        directions: RoundDirections | KeptSums | None = None,
        measured: RunAggregates | None = None,
    ) -> None:
        self._log = log
        self._concentrations = concentrations
        self._total = total
        self._directions = directions
        self._measured = measured

    def rows(self, rounds: range | None = None) -> Rows:
        return self._log.rows(rounds)

    def numbered_rows(self) -> Iterator[NumberedRow]:
        return numbered_rows(self._log)

    def scored_round(self, index: int) -> ScoredRound | None:
        cosines = self._log.row(index)
        if cosines is None:
            return None
        known = self._concentrations
        row = unknown_rows(1) if known is None else known.array[index][None, :]
        return ScoredRound(cosines, any_one_of(row))

    def total(self) -> ComparedVectors | None:
        return self._total

    def _concentrations_of(self, rounds: range | None) -> FloatArray:
        known = self._concentrations
        rows = unknown_rows(self._log.num_rounds) if known is None else known.values()
        window = slice(None) if rounds is None else slice(rounds.start, rounds.stop)
        return np.asarray(rows[window][self._log.written()[window]])

    def _scored(self) -> IntArray:
        return np.flatnonzero(self._log.written())

    def measured_aggregates(self) -> RunAggregates | None:
        return self._measured


class RoundLog(LoggedRounds):
    """Logs cosines while rounds are scored, and the directions of aggregates if needed."""

    def __init__(
        self, cosines: Cosines, log: CosineLog, concentrations: ConcentrationLog | None
    ) -> None:
        super().__init__(log, concentrations)
        self._cosines = cosines
        self._seen: int | None = None

    def keep_directions(self, directions: RoundDirections) -> None:
        """Keeps the directions of rounds scored from now on."""
        self._directions = directions

    def see_aggregate(self, index: int, aggregate: Float32Array) -> None:
        if index != self._seen:
            self.write_round(index, aggregate, self._cosines(aggregate))

    def forget_vector(self, index: int) -> None:
        """Makes unknown what is logged of a round besides cosines, before the round is replaced."""
        if self._concentrations is not None:
            self._concentrations.write_round(index, unknown_rows(1)[0])
        if isinstance(self._directions, RoundDirections):
            self._directions.forget(index)

    def write_round(self, index: int, aggregate: Float32Array, cosines: FloatArray) -> None:
        """Logs a round with the cosines of its aggregate."""
        self._log.write_round(index, cosines)
        if self._concentrations is not None:
            self._concentrations.write_round(index, concentration_row(aggregate))
        if isinstance(self._directions, RoundDirections):
            self._directions.add(index, aggregate)
        self._seen = index

    def flush(self) -> None:
        for log in (self._log, self._concentrations, self._directions):
            if log is not None and not isinstance(log, KeptSums):
                log.flush()


def logged_concentrations(path: Path, log: CosineLog, mode: Mode = "r") -> ConcentrationLog | None:
    """The concentrations of a log's vectors; None without the file."""
    return ConcentrationLog.opened(mode, path, log.num_rounds) if path.exists() else None


def numbered_rows(log: CosineLog) -> Iterator[NumberedRow]:
    return zip(np.flatnonzero(log.written()).tolist(), log.rows(), strict=True)


# The cosines with a log's aggregates, whose files are read one by one.


_MOST_ROUNDS = 10_000_000
"""The highest round, from 1, whose aggregate's norm is kept; norms are in an array over rounds."""


class AggregateFiles(RoundCosines):
    """Scores canaries against the files of aggregates while it reads them, once.

    The first iteration over `rows` reads all files and completes the measurements; the cosines are
    cached in an anonymous file. For any number of files, memory is one model and the sum of
    directions, and as much again for the checks of the mechanism.
    """

    def __init__(
        self,
        pool: CanaryPool,
        paths: Mapping[int, Path],
        read: Callable[[Path], Float32Array],
        progress: Callable[[list[Path]], Iterable[Path]],
        *,
        keep_directions: bool = False,
        check: Callable[[int, FloatArray], None] | None = None,
        measure: Callable[[], StatedRounds] | None = None,
    ) -> None:
        """Stores the arguments; `paths` are by round, from 1, and are read later.

        `check` is called with each round, from 1, and the round's cosines; `measure` starts the
        checks of the mechanism, and is None if the noise is not known.
        """
        self._pool = pool
        self._paths = paths
        self._read = read
        self._progress = progress
        self._check = check
        self._concentrations = unknown_rows(len(paths))
        self._total = np.zeros(pool.dim)
        self._directions = None
        if keep_directions and paths:
            self._directions = RoundDirections.unnamed(len(paths), pool.seed, pool.dim)
        self._lengths = np.full(min(max(paths, default=0), _MOST_ROUNDS), np.nan)
        self._measure = measure
        self._measured: StatedRounds | None = None
        self._cosines: Float32Array | None = None

    def rows(self, rounds: range | None = None) -> Rows:
        if rounds is not None:
            raise ValueError("an attacker of a log's aggregates sees every round")
        return self._read_files() if self._cosines is None else iter(self._cosines)

    def _read_files(self) -> Rows:
        cosines = unnamed_log((max(len(self._paths), 1), self._pool.count))
        self._total[:] = 0
        self._measured = None if self._measure is None else self._measure()
        numbers = list(self._paths)
        for index, path in enumerate(self._progress(list(self._paths.values()))):
            vector = self._read(path)
            if numbers[index] <= _MOST_ROUNDS:
                self._lengths[numbers[index] - 1] = euclidean_norm(vector)
            if self._measured is not None:
                self._measured.see_round(numbers[index], vector)
            if depends_on_vectors(self._pool.family):
                self._concentrations[index] = concentration_row(vector)
            add_direction(self._total, vector)
            if isinstance(self._directions, RoundDirections):
                self._directions.add(index, vector)
            cosines[index] = row = self._pool.cosines(vector)
            if self._check is not None:
                self._check(numbers[index], row)
            yield cosines[index]
        self._cosines = cosines[: len(self._paths)]

    def numbered_rows(self) -> Iterator[NumberedRow]:
        return zip((number - 1 for number in self._paths), self.rows(), strict=True)

    def scored_round(self, index: int) -> ScoredRound | None:
        path = self._paths.get(index + 1)
        if path is None:
            return None
        vector = self._read(path)
        cosines = self._pool.cosines(vector).astype(np.float32)
        return ScoredRound(cosines, one_vector(self._pool.family, vector))

    def measured_lengths(self) -> FloatArray:
        return self._lengths

    def measured_aggregates(self) -> RunAggregates | None:
        return None if self._measured is None else self._measured.aggregates()

    def total(self) -> ComparedVectors | None:
        return sum_of_cosines(self._pool.family, self._total)

    def _concentrations_of(self, rounds: range | None) -> FloatArray:
        return self._concentrations

    def _scored(self) -> IntArray:
        return np.arange(len(self._paths))
