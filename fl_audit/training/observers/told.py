"""The observers that every run has, and the telling of all of a run's start and end."""

import contextlib
from collections.abc import Iterator, Sequence

from fl_audit.training.observers.display import ProgressDisplay, VerdictLine
from fl_audit.training.observers.fault_lines import FaultLines
from fl_audit.training.observers.metrics_csv import MetricsCsv
from fl_audit.training.observers.observer import RoundObserver, StartedRun
from fl_audit.training.observers.tensorboard import TensorBoard
from fl_audit.training.run.prepare import PreparedRun


def observers_of_every(run: PreparedRun) -> tuple[RoundObserver, ...]:
    """The observers that every run has; metrics.csv is first, so that the others find its row."""
    return MetricsCsv(), TensorBoard(), ProgressDisplay(), FaultLines(run), VerdictLine()


@contextlib.contextmanager
def told(observers: Sequence[RoundObserver], run: StartedRun) -> Iterator[None]:
    """Tells observers that a run starts and, whatever happens in the block, that it has ended."""
    is_finished = False

    def end(observer: RoundObserver) -> None:
        observer.run_ended(finished=is_finished)

    with contextlib.ExitStack() as started:
        for observer in observers:
            observer.run_started(run)
            started.callback(end, observer)
        yield
        is_finished = True
