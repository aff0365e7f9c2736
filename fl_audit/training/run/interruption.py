"""The handling of SIGTERM and Ctrl-C, which end a run after the current round, at a checkpoint."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class StopRequest:
    """The signal that asked for a stop; `signal_number` is None while there was none."""

    signal_number: int | None = None

    def _remember(self, signal_number: int, frame: FrameType | None) -> None:
        del frame
        self.signal_number = signal_number
        signal.signal(signal_number, signal.SIG_DFL)  # a second signal ends the program at once


@contextlib.contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Makes the block remember SIGTERM and SIGINT instead of ending the program."""
    request = StopRequest()
    signals = (signal.SIGTERM, signal.SIGINT)
    previous = [signal.signal(number, request._remember) for number in signals]
    try:
        yield request
    finally:
        for number, handler in zip(signals, previous, strict=True):
            signal.signal(number, handler)
