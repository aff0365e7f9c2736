"""Observers of a run: metrics.csv, TensorBoard, progress, lines of warning, and those of users.

None of the names below imports TensorFlow; docs/observers.md says how to write an observer.
"""

from fl_audit.training.observers.observer import (
    CanaryCosines,
    FinishedRound,
    RoundMetrics,
    RoundObserver,
    StartedRun,
)

__all__ = ["CanaryCosines", "FinishedRound", "RoundMetrics", "RoundObserver", "StartedRun"]
