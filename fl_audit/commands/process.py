"""The process of a command: standard streams, Ctrl-C, and words for system errors."""

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TextIO

from fl_audit.errors import InputError

INTERRUPTED = "stopped by Ctrl-C"


def ask_for_streams() -> None:
    """Ensures that standard streams exist; InputError if standard output is closed.

    Characters that the encoding of output or error lacks are printed as escapes.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # else the next opened file would become the stream
    output: TextIO | None = sys.stdout
    errors: TextIO | None = sys.stderr
    if errors is None:
        sys.stderr = os.fdopen(os.dup(2), "w")
    if output is None:
        raise InputError("standard output is closed; redirect it, such as to /dev/null")
    for stream in (output, errors):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def draw_without_windows() -> None:
    """Selects Matplotlib's file backend, as MPLBACKEND may name one that needs a display.

    Matplotlib reads the variable on import, which happens later, if at all.
    """
    os.environ["MPLBACKEND"] = "agg"


def drop_output() -> None:
    """Discards standard output, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def flush_output() -> None:
    """Flushes standard output."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        raise InputError(f"standard output: {system_error(error)}") from error


def limit_words(error: OSError | ArithmeticError | MemoryError) -> str:
    """Words for an error of the system, of floating point or of memory."""
    if isinstance(error, ArithmeticError):
        return f"these values leave the range of floating-point numbers: {error}"
    if isinstance(error, MemoryError):
        return f"needs more memory than there is: {error}".removesuffix(": ")
    return system_error(error)


def system_error(error: OSError) -> str:
    """Words for an error of the system, such as a full disk or missing permissions."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename or 'standard output or a file'}: {reason}"


@contextlib.contextmanager
def interrupts() -> Iterator[list[int]]:
    """A list to which Ctrl-C appends its signal number before it raises KeyboardInterrupt.

    Nothing changes outside the main thread, or if the signal already has a custom handler.
    """
    signal_numbers: list[int] = []

    def remember(signal_number: int, frame: FrameType | None) -> None:
        signal_numbers.append(signal_number)
        signal.default_int_handler(signal_number, frame)

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield signal_numbers
        return
    signal.signal(signal.SIGINT, remember)
    try:
        yield signal_numbers
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
