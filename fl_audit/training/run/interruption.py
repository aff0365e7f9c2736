"""SIGTERM and Ctrl-C end a run after the current round, at a checkpoint."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class StopRequest:
    """Remembers the signal that asked for a stop."""

    signal_number: int | None = None

    def _remember(self, signal_number: int, frame: FrameType | None) -> None:
        del frame
        self.signal_number = signal_number
        signal.signal(signal_number, signal.SIG_DFL)  # who asks twice does not want to wait


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
