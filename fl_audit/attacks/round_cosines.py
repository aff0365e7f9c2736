"""The cosines of every canary with the noised aggregates of rounds, which attackers share.

The same classes hold what is known of the aggregates, for the null distribution of statistics.
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.compared_vectors import (
    ComparedVectors,
    any_one_of,
    concentration_row,
    depends_on_vectors,
    largest_cosine,
    one_vector,
    unknown_rows,
)
from fl_audit.attacks.directions import OwnSums, RoundDirections, add_direction, sum_of_cosines
from fl_audit.attacks.live_test import ScoredRound
from fl_audit.attacks.own_rounds import NumberedRow, RoundWeights
from fl_audit.canaries.pool import CanaryPool
from fl_audit.checks import RunAggregates, StatedRounds
from fl_audit.formats.round_logs import ConcentrationLog, CosineLog, unnamed_log
from fl_audit.inner_products import euclidean_norm

Cosines = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float64]]
"""A function from a vector, float32 of shape (dim,), to its cosine with every canary."""

Rows = Iterator[npt.NDArray[np.float32]]


class RoundCosines(abc.ABC):
    """The cosines of every canary, one row per round."""

    @abc.abstractmethod
    def see_aggregate(self, index: int, aggregate: Float32Array) -> None:
        """Scores a round once, however many attackers show it.

        Args:
          index: The round, counted from 0.
          aggregate: The round's noised aggregate, float32 of shape (dim,).
        """

    @abc.abstractmethod
    def flush(self) -> None:
        """Writes what is in memory to the disk."""

    @abc.abstractmethod
    def rows(self, rounds: range | None = None) -> Rows:
        """The rounds that are scored, float32 of shape (num_canaries,) each, in order.

        Args:
          rounds: The rounds to look at, from 0; None for all.
        """

    @abc.abstractmethod
    def numbered_rows(self) -> Iterator[NumberedRow]:
        """The rounds that are scored, in order, each with its index from 0."""

    @abc.abstractmethod
    def scored_round(self, index: int) -> ScoredRound | None:
        """One round, counted from 0, and what is known of its aggregate; None if not scored."""

    @abc.abstractmethod
    def any_one(self) -> ComparedVectors | None:
        """What is known of each aggregate that is scored; None where one has no direction."""

    @abc.abstractmethod
    def largest(self, rounds: range | None = None) -> ComparedVectors | None:
        """What is known of the aggregates behind a canary's largest cosine, after the last round.

        Args:
          rounds: The rounds to look at, from 0; None for all.

        Returns:
          None where no aggregate has a direction.
        """

    @abc.abstractmethod
    def total(self) -> ComparedVectors | None:
        """What is known of the vectors behind the sum over all rounds; None where nothing is."""

    @abc.abstractmethod
    def weighted_sums(self, weights: RoundWeights) -> OwnSums | None:
        """What is known of each canary's weighted sum of directions; None where nothing is.

        Args:
          weights: The weights of all rounds that are scored, in order.
        """

    def measured_lengths(self) -> FloatArray:
        """The length of each aggregate that was read, by round from 0, float64 of shape (rounds,).

        NaN where it was not; empty where aggregates themselves are not there.
        """
        return np.zeros(0)

    def measured_aggregates(self) -> RunAggregates | None:
        """What checks of the mechanism look at; None where the noise is not known, or no round is.

        Complete after `rows` has gone through all rounds.
        """
        return None


class _LoggedRounds(RoundCosines):
    """Rounds whose cosines and concentrations are in logs."""

    def __init__(self, log: CosineLog, concentrations: ConcentrationLog | None) -> None:
        self._log = log
        self._concentrations = concentrations

    def rows(self, rounds: range | None = None) -> Rows:
        """See `RoundCosines.rows`."""
        return self._log.rows(rounds)

    def numbered_rows(self) -> Iterator[NumberedRow]:
        """See `RoundCosines.numbered_rows`."""
        return numbered_rows(self._log)

    def scored_round(self, index: int) -> ScoredRound | None:
        """See `RoundCosines.scored_round`."""
        return scored_round(self._log, self._concentrations, index)

    def any_one(self) -> ComparedVectors | None:
        """See `RoundCosines.any_one`."""
        return any_of_rounds(self._log, self._concentrations)

    def largest(self, rounds: range | None = None) -> ComparedVectors | None:
        """See `RoundCosines.largest`."""
        return largest_of_rounds(self._log, self._concentrations, rounds)


class RoundLog(_LoggedRounds):
    """The cosines of a run that trains, in a file."""

    def __init__(
        self, cosines: Cosines, log: CosineLog, concentrations: ConcentrationLog | None
    ) -> None:
        """Keeps the files that rounds are written to.

        Args:
          cosines: The function from a vector to its cosine with every canary.
          log: The log of the run's cosines, a row per round.
          concentrations: The log of the aggregates' concentrations; None where no null distribution
            depends on them.
        """
        super().__init__(log, concentrations)
        self._cosines = cosines
        self._seen: int | None = None

    def see_aggregate(self, index: int, aggregate: Float32Array) -> None:
        """Logs each canary's cosine with the aggregate."""
        if index != self._seen:
            self._log.write_round(index, self._cosines(aggregate))
            if self._concentrations is not None:
                self._concentrations.write_round(index, concentration_row(aggregate))
            self._seen = index

    def flush(self) -> None:
        """Writes the log to the disk."""
        self._log.flush()
        if self._concentrations is not None:
            self._concentrations.flush()

    def total(self) -> None:
        """None; attackers keep the sum themselves, each over the rounds that it sees."""

    def weighted_sums(self, weights: RoundWeights) -> None:
        """None; the attacker who knows canaries' rounds keeps directions itself."""
        del weights


class _RoundsOver(RoundCosines):
    """Rounds that are over: none is shown any more, and there is nothing to write."""

    def see_aggregate(self, index: int, aggregate: Float32Array) -> None:
        """Raises an error, as no round is shown to a log.

        Raises:
          ValueError: The rounds of a log are over.
        """
        del aggregate
        raise ValueError(f"round {index} is shown, and the rounds of a log are over")

    def flush(self) -> None:
        """Does nothing, as there is nothing to write."""


class FinishedRounds(_RoundsOver, _LoggedRounds):
    """The cosines of rounds that are over, in a log's file."""

    def __init__(
        self,
        log: CosineLog,
        concentrations: ConcentrationLog | None,
        total: ComparedVectors | None,
        directions: RoundDirections | None = None,
        measured: RunAggregates | None = None,
    ) -> None:
        """Keeps what was read from a log.

        Args:
          log: The log of cosines, a row per round.
          concentrations: The log of the aggregates' concentrations; None where they are not known.
          total: What is known of the sum of directions of all rounds that are scored.
          directions: The directions of all rounds; None where they are not known.
          measured: What was measured of the aggregates; None where it was not.
        """
        super().__init__(log, concentrations)
        self._total = total
        self._directions = directions
        self._measured = measured

    def total(self) -> ComparedVectors | None:
        """See `RoundCosines.total`."""
        return self._total

    def measured_aggregates(self) -> RunAggregates | None:
        """See `RoundCosines.measured_aggregates`."""
        return self._measured

    def weighted_sums(self, weights: RoundWeights) -> OwnSums | None:
        """See `RoundCosines.weighted_sums`."""
        if self._directions is None:
            return None
        return self._directions.weighted_sums(weights, np.flatnonzero(self._log.written()))


def numbered_rows(log: CosineLog) -> Iterator[NumberedRow]:
    """The rounds of a log that are scored, in order, each with its index from 0."""
    return zip(np.flatnonzero(log.written()).tolist(), log.rows(), strict=True)


def scored_round(
    log: CosineLog, concentrations: ConcentrationLog | None, index: int
) -> ScoredRound | None:
    """One round of a log, and what is known of its vector; None if it is not scored.

    Args:
      log: The log of cosines.
      concentrations: The concentrations of all rounds' vectors; None where they are not known.
      index: The round, counted from 0.
    """
    cosines = log.row(index)
    if cosines is None:
        return None
    known = unknown_rows(1)[0] if concentrations is None else concentrations.row(index)
    return ScoredRound(cosines, any_one_of(known[None, :]))


def any_of_rounds(
    log: CosineLog, concentrations: ConcentrationLog | None
) -> ComparedVectors | None:
    """What is known of each single vector of the rounds that are scored.

    Args:
      log: The log of cosines, which says which rounds are scored.
      concentrations: The concentrations of all rounds' vectors; None where they are not known.
    """
    rows = unknown_rows(log.num_rounds) if concentrations is None else concentrations.rows()
    return any_one_of(rows[log.written()])


def largest_of_rounds(
    log: CosineLog, concentrations: ConcentrationLog | None, rounds: range | None = None
) -> ComparedVectors | None:
    """What is known of the vectors behind a largest cosine of the rounds that are scored.

    Args:
      log: The log of cosines, which says which rounds are scored.
      concentrations: The concentrations of all rounds' vectors; None where they are not known.
      rounds: The rounds to look at, from 0; None for all.
    """
    rows = unknown_rows(log.num_rounds) if concentrations is None else concentrations.rows()
    window = slice(None) if rounds is None else slice(rounds.start, rounds.stop)
    return largest_cosine(rows[window][log.written()[window]])


# The cosines with a log's aggregates, whose files are read one by one.


_MOST_ROUNDS = 10_000_000
"""The number of a round up to which its aggregate's length is kept, in an array of all rounds."""


class AggregateFiles(_RoundsOver):
    """Scores canaries against the files of aggregates while it reads them, once.

    The first `rows` goes through the files, and what is known of the aggregates is complete after
    it; the cosines are kept in a file without a name for all who ask again. Memory is one model and
    the sum of directions, and as much again for the checks of the mechanism, whatever the number of
    files.
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
        """Keeps the arguments; files are read by `rows`.

        Args:
          pool: The canaries.
          paths: The files by the number of the round, from 1, in order of the rounds.
          read: The function from a file to its vector, float32 of shape (dim,).
          progress: The function that goes through files, and may show how far it has come.
          keep_directions: Whether `weighted_sums` will be asked for; directions are then kept in
            a file without a name (`RoundDirections`).
          check: A function that is shown each round, from 1, and its cosines as they are computed.
          measure: The function that starts to measure aggregates for the checks of the mechanism;
            None where nothing is known of their noise.
        """
        self._pool = pool
        self._paths = paths
        self._read = read
        self._progress = progress
        self._check = check
        self._concentrations = unknown_rows(len(paths))
        self._total = np.zeros(pool.dim)
        self._directions: RoundDirections | None = None
        if keep_directions and paths:
            self._directions = RoundDirections.unnamed(len(paths), pool.seed, pool.dim)
        self._lengths = np.full(min(max(paths, default=0), _MOST_ROUNDS), np.nan)
        self._measure = measure
        self._measured: StatedRounds | None = None
        self._cosines: Float32Array | None = None

    def rows(self, rounds: range | None = None) -> Rows:
        """See `RoundCosines.rows`.

        Raises:
          ValueError: Only some rounds are asked for, which no log's threat model does.
        """
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
            if self._directions is not None:
                self._directions.add(index, vector)
            cosines[index] = row = self._pool.cosines(vector)
            if self._check is not None:
                self._check(numbers[index], row)
            yield cosines[index]
        self._cosines = cosines[: len(self._paths)]

    def numbered_rows(self) -> Iterator[NumberedRow]:
        """See `RoundCosines.numbered_rows`."""
        return zip((number - 1 for number in self._paths), self.rows(), strict=True)

    def scored_round(self, index: int) -> ScoredRound | None:
        """See `RoundCosines.scored_round`; reads the round's file."""
        path = self._paths.get(index + 1)
        if path is None:
            return None
        vector = self._read(path)
        cosines = self._pool.cosines(vector).astype(np.float32)
        return ScoredRound(cosines, one_vector(self._pool.family, vector))

    def measured_lengths(self) -> FloatArray:
        """See `RoundCosines.measured_lengths`; complete after `rows` has gone through all files."""
        return self._lengths

    def measured_aggregates(self) -> RunAggregates | None:
        """See `RoundCosines.measured_aggregates`."""
        return None if self._measured is None else self._measured.aggregates()

    def any_one(self) -> ComparedVectors | None:
        """See `RoundCosines.any_one`."""
        return any_one_of(self._concentrations)

    def largest(self, rounds: range | None = None) -> ComparedVectors | None:
        """See `RoundCosines.largest`."""
        del rounds
        return largest_cosine(self._concentrations)

    def total(self) -> ComparedVectors | None:
        """See `RoundCosines.total`."""
        return sum_of_cosines(self._pool.family, self._total)

    def weighted_sums(self, weights: RoundWeights) -> OwnSums | None:
        """See `RoundCosines.weighted_sums`."""
        if self._directions is None:
            return None
        return self._directions.weighted_sums(weights, np.arange(len(self._paths)))
