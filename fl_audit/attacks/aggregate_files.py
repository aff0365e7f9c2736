"""Cosines of canaries with a log's aggregates, whose files are read one by one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

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
from fl_audit.attacks.direction_sum import add_direction, sum_of_cosines
from fl_audit.attacks.live_test import ScoredRound
from fl_audit.attacks.own_rounds import NumberedRow, OwnRounds
from fl_audit.attacks.round_cosines import RoundCosines, Rows
from fl_audit.attacks.round_directions import OwnSums, RoundDirections
from fl_audit.canaries.pool import CanaryPool
from fl_audit.checks import RunAggregates, ToldRounds
from fl_audit.formats.round_logs import unnamed_log
from fl_audit.inner_products import euclidean_norm

if TYPE_CHECKING:
    from fl_audit.attacks.attacker import SeenRound

_MOST_ROUNDS = 10_000_000
"""The number of a round up to which its aggregate's length is kept, in an array of all rounds."""


class AggregateFiles(RoundCosines):
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
        measure: Callable[[], ToldRounds] | None = None,
    ) -> None:
        """Keeps the arguments; files are read by `rows`.

        Args:
          pool: The canaries.
          paths: The files by the number of the round, from 1, in order of the rounds.
          read: The function from a file to its vector, float32 of shape (dim,).
          progress: The function that goes through files, and may show how far it has come.
          keep_directions: Whether `own_sums` will be asked for; directions are then kept in a file
            without a name (`RoundDirections`).
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
        self._measured: ToldRounds | None = None
        self._cosines: Float32Array | None = None

    def see_round(self, seen: "SeenRound") -> None:
        """Raises an error, as no round is shown to a log.

        Raises:
          ValueError: The rounds of a log are over.
        """
        raise ValueError(f"round {seen.index} is shown, and the rounds of a log are over")

    def flush(self) -> None:
        """Does nothing, as there is nothing to write."""

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
            cosines[index] = found = self._pool.cosines(vector)
            if self._check is not None:
                self._check(numbers[index], found)
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

    def own_sums(self, own: OwnRounds) -> OwnSums | None:
        """See `RoundCosines.own_sums`."""
        if self._directions is None:
            return None
        numbers = np.array(list(self._paths), np.int64)
        return self._directions.own_sums(own, numbers - 1, np.arange(len(numbers)))
