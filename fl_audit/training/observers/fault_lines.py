"""A line on standard error when a training goes wrong, while it runs."""

import numpy as np

from fl_audit.accounting.noise_laws import SKELLAM
from fl_audit.mechanism_checks.training_faults import TrainingCurves, training_faults
from fl_audit.mechanisms import MECHANISMS
from fl_audit.progress import say
from fl_audit.training.observers.observer import FinishedRound, RoundMetrics, RoundObserver
from fl_audit.training.run.prepare import PreparedRun

_FIRST_LOOK = 10
"""The number of rounds after which curves are looked at for the first time."""


class FaultLines(RoundObserver):
    """Looks at every round's metrics and says once of each fault that it is there.

    After an interruption it begins with the rounds of its own session.
    """

    def __init__(self, run: PreparedRun) -> None:
        """Takes the run, which knows the model's outputs and the mechanism."""
        self._rows: list[RoundMetrics] = []
        self._said: set[str] = set()
        self._num_outputs = int(run.task.classifier.variable_sizes[-1])
        self._divides_by_actual = MECHANISMS.of(run.config.mechanism).noise_law is SKELLAM

    def round_finished(self, finished: FinishedRound) -> None:
        """Looks at the rounds so far."""
        self._rows.append(finished.metrics)
        if len(self._rows) < _FIRST_LOOK:
            return
        of_rows = (
            [row.clip_norm for row in self._rows],
            [row.train_loss for row in self._rows],
            [np.nan if row.accuracy is None else row.accuracy for row in self._rows],
            [row.num_clients for row in self._rows],
            [row.num_canaries for row in self._rows],
        )
        curves = TrainingCurves(*(np.array(values, np.float64) for values in of_rows))
        faults = training_faults(
            curves, self._num_outputs, divides_by_actual=self._divides_by_actual
        )
        for fault in faults:
            if fault.name not in self._said:
                self._said.add(fault.name)
                say(f"round {finished.metrics.round}: {fault.name}: {fault.words}")
