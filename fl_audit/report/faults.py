"""The faults of a finished run's training."""

from collections.abc import Sequence

import numpy as np

from fl_audit.accounting.noise_laws import SKELLAM
from fl_audit.checks.training_faults import TrainingCurves, training_faults
from fl_audit.mechanisms import MECHANISMS
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.model import FaultReport


def faults_of(run: FinishedRun) -> tuple[FaultReport, ...]:
    """What went wrong in the training, by the curves of its rounds."""
    present = np.concatenate([*run.canary_rounds, np.zeros(0, np.int64)])
    canaries = np.bincount(present, minlength=run.record.rounds).astype(np.float64)
    curves = TrainingCurves(
        clip_norm=run.rounds.clip_norm,
        train_loss=run.rounds.train_loss,
        accuracy=run.rounds.accuracy,
        clients=run.rounds.participants - canaries,
        canaries=canaries,
    )
    found = training_faults(
        curves,
        _num_classes(run.record.variable_sizes),
        divides_by_actual=MECHANISMS.of(run.config.mechanism).noise_law is SKELLAM,
    )
    return tuple(FaultReport(fault.name, fault.words) for fault in found)


def _num_classes(variable_sizes: Sequence[int]) -> int | None:
    """The classes, by the last bias of the model; None for one output, which names no class."""
    outputs = variable_sizes[-1] if variable_sizes else 1
    return outputs if outputs > 1 else None
