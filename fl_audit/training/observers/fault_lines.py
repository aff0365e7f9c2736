"""A line on standard error when a training goes wrong, while it runs."""

import numpy as np

from fl_audit.accounting.noise_laws import SKELLAM
from fl_audit.checks.training_faults import TrainingCurves, training_faults
from fl_audit.mechanisms import MECHANISMS
from fl_audit.progress import say
from fl_audit.training.observers.metrics_csv import read_metrics
from fl_audit.training.observers.observer import (
    FinishedRound,
    RoundMetrics,
    RoundObserver,
    StartedRun,
)
from fl_audit.training.run.prepare import PreparedRun

_FIRST_LOOK = 10
"""The number of rounds after which curves are looked at for the first time."""


class FaultLines(RoundObserver):
    """Looks at the rounds' metrics and says once of each fault that it is there.

    After an interruption it goes on with the rounds before, and says again what it sees.
    """

    def __init__(self, run: PreparedRun) -> None:
        """Takes the run, which knows the model's outputs and the mechanism."""
        self._rows: list[RoundMetrics] = []
        self._next_look = _FIRST_LOOK
        self._said: set[str] = set()
        outputs = int(run.task.classifier.variable_sizes[-1])
        has_classes = outputs > 1 and not run.task.classifier.label_spec.dtype.is_floating
        self._num_classes = outputs if has_classes else None
        self._divides_by_actual = MECHANISMS.of(run.config.mechanism).noise_law is SKELLAM

    def run_started(self, run: StartedRun) -> None:
        """Reads the rounds of earlier sessions, which metrics.csv has."""
        self._rows = read_metrics(run.folder.metrics)

    def round_finished(self, finished: FinishedRound) -> None:
        """Looks at the rounds so far, whenever there are a hundredth more."""
        self._rows.append(finished.metrics)
        if len(self._rows) < self._next_look:
            return
        self._next_look = len(self._rows) + max(1, len(self._rows) // 100)
        of_rows = (
            [row.clip_norm for row in self._rows],
            [row.train_loss for row in self._rows],
            [np.nan if row.accuracy is None else row.accuracy for row in self._rows],
            [row.num_clients for row in self._rows],
            [row.num_canaries for row in self._rows],
        )
        curves = TrainingCurves(*(np.array(values, np.float64) for values in of_rows))
        faults = training_faults(
            curves, self._num_classes, divides_by_actual=self._divides_by_actual
        )
        for fault in faults:
            if fault.name not in self._said:
                self._said.add(fault.name)
                say(f"round {finished.metrics.round}: {fault.name}: {fault.words}")
