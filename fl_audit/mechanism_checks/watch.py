"""The checks for a user's own training loop, which shows every round to a watch."""

from collections.abc import Sequence

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.mechanism_checks.aggregate_log import AggregateLog, RowsInMemory, measure
from fl_audit.mechanism_checks.autocorrelation import Autocorrelation, strongest_autocorrelation
from fl_audit.mechanism_checks.checks import Check, RunAggregates, check_aggregates


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
    ) -> None:
        """Starts before the first round, or continues the log of completed rounds.

        After an interruption the last aggregate is lost: one round is then not compared with it.

        Args:
          sizes: The number of parameters in each variable of the model, in the order of the
            aggregate.
          log: The log that the measures of each round are written to; by default in memory.
          completed: The number of completed rounds, whose measures the log holds.
        """
        self._sizes = tuple(sizes)
        self._log = RowsInMemory() if log is None else log
        self._first = completed
        self._last: Float32Array | None = None
        self._stddev: list[float] = []
        self._norm_bound: list[float] = []
        self.autocorrelation: Autocorrelation | None = None

    def see_round(self, aggregate: Float32Array, *, noise_stddev: float, norm_bound: float) -> None:
        """Measures a round's aggregate.

        Args:
          aggregate: The aggregate that the round released, float32 of shape (dim,).
          noise_stddev: The standard deviation of the noise that should be on each of its
            coordinates; 0 in every round where none is added.
          norm_bound: The largest norm that it can have without noise: for a mean of clipped updates
            the participants times the clip norm, over the number that the sum is divided by.

        Raises:
          InputError: The aggregate is not as long as the variables together, a number is negative
            or not finite, or some rounds have noise and some have not.
        """
        dim = sum(self._sizes)
        if aggregate.shape != (dim,):
            raise InputError(f"aggregate: must be of shape ({dim},), got {aggregate.shape}")
        for name, value in (("noise_stddev", noise_stddev), ("norm_bound", norm_bound)):
            if not 0 <= value < float("inf"):
                raise InputError(f"{name}: must be a number, at least 0, got {value}")
        if self._stddev and (noise_stddev > 0) != (self._stddev[0] > 0):
            raise InputError(
                f"noise_stddev: must be 0 in all rounds or in none, got {noise_stddev} after "
                f"{self._stddev[0]}"
            )
        self.measure_round(aggregate.copy(), noise_stddev=noise_stddev, norm_bound=norm_bound)

    def measure_round(
        self, aggregate: Float32Array, *, noise_stddev: float, norm_bound: float
    ) -> None:
        """Measures a round's aggregate as `see_round` does, without checking the arguments.

        Args:
          aggregate: The aggregate as in `see_round`; it must not be written on any more.
          noise_stddev: The standard deviation as in `see_round`, whatever its value.
          norm_bound: The largest norm as in `see_round`, whatever its value.
        """
        index = self._first + len(self._stddev)
        if index == 0 and noise_stddev > 0:
            self.autocorrelation = strongest_autocorrelation(aggregate, noise_stddev, norm_bound)
        self._log.write_round(index, measure(aggregate, self._last, self._sizes))
        self._stddev.append(noise_stddev)
        self._norm_bound.append(norm_bound)
        self._last = aggregate

    def checks(self) -> list[Check]:
        """The checks of the rounds that were shown.

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
        return check_aggregates(
            RunAggregates(
                sizes=self._sizes,
                stddev=np.array(self._stddev),
                norm_bound=np.array(self._norm_bound),
                measured=self._log.rows()[: len(self._stddev)],
                autocorrelation=self.autocorrelation,
            )
        )
