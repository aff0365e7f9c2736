"""The checks for rounds that are shown one by one: a user's own loop, or the files of a log."""

from collections.abc import Collection, Sequence

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.mechanism_checks.aggregate_log import AggregateLog, RowsInMemory, measure
from fl_audit.mechanism_checks.autocorrelation import Autocorrelation, strongest_autocorrelation
from fl_audit.mechanism_checks.checks import Check, RunAggregates, check_aggregates
from fl_audit.mechanism_checks.coordinates import CoordinateLengths, add_squares


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
    ) -> None:
        """Starts before the first round, or continues the log of completed rounds.

        After an interruption the last aggregate is lost: one round is then not compared with it.

        Args:
          sizes: The number of parameters in each variable of the model, in the order of the
            aggregate.
          log: The log that the measures of each round are written to; by default in memory, with
            the length of every coordinate, which takes 8 bytes each.
          completed: The number of completed rounds, whose measures the log holds.
          frozen: The variables, from 1, that are not trained and have no noise.
        """
        self._sizes = tuple(sizes)
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
            coordinates; 0 where none is added. Of noise that is correlated over rounds it is that
            of the part which is new in this round.
          norm_bound: The largest norm that it can have without noise: for a mean of clipped updates
            the participants times the clip norm, over the number that the sum is divided by. None
            where it is not known, or noise is correlated over rounds: lengths are then not bounded.
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
        if index == 0 and noise_stddev > 0 and not np.isnan(norm_bound):
            self.autocorrelation = strongest_autocorrelation(aggregate, noise_stddev, norm_bound)
        self._log.write_round(index, measure(aggregate, self._last, self._sizes))
        if self._coordinates is not None and noise_stddev > 0:
            add_squares(self._coordinates, aggregate, self._last, noise_stddev)
        self._numbers.append(index + 1 if round_number is None else round_number)
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
