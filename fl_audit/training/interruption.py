"""SIGTERM and Ctrl-C end a run after the current round, at a checkpoint."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class Interrupted(Exception):  # noqa: N818 - it is no error
    """A run was asked to stop and has saved its state.

    Attributes:
      completed_rounds: rounds that are done.
      signal_number: that asked.
    """

    def __init__(self, completed_rounds: int, signal_number: int) -> None:
        """Says where the run stopped and why."""
        name = signal.Signals(signal_number).name
        super().__init__(f"stopped by {name} after round {completed_rounds}, state saved")
        self.completed_rounds = completed_rounds
        self.signal_number = signal_number


class StopRequest:
    """Remembers the signal that asked for a stop."""

    signal_number: int | None = None

    def _remember(self, signal_number: int, frame: FrameType | None) -> None:
        del frame
        self.signal_number = signal_number


@contextlib.contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Inside the block, SIGTERM and SIGINT are remembered instead of ending the program."""
    request = StopRequest()
    signals = (signal.SIGTERM, signal.SIGINT)
    previous = [signal.signal(number, request._remember) for number in signals]
    try:
        yield request
    finally:
        for number, handler in zip(signals, previous, strict=True):
            signal.signal(number, handler)
