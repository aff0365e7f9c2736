"""What a command needs of the process: standard streams, Ctrl-C, and words for system errors."""

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
    """Makes sure that there is a standard output and error, whatever their encoding.

    Characters that the encoding lacks are printed as escapes.

    Raises:
      InputError: Standard output is closed.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # else the next file would be taken for the stream
    output: TextIO | None = sys.stdout
    errors: TextIO | None = sys.stderr
    if errors is None:
        sys.stderr = os.fdopen(os.dup(2), "w")
    if output is None:
        raise InputError("standard output is closed; let it go somewhere, such as to /dev/null")
    for stream in (output, errors):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def draw_without_windows() -> None:
    """Lets Matplotlib draw into files, whatever MPLBACKEND says: it may name a display or nothing.

    Matplotlib reads the variable as it is imported, which a command does later or never.
    """
    os.environ["MPLBACKEND"] = "agg"


def drop_output() -> None:
    """Lets standard output go nowhere, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def flush_output() -> None:
    """Writes out what was printed.

    Raises:
      BrokenPipeError: Nobody reads it any more.
      InputError: It cannot be written, such as to a full disk; it goes nowhere then.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        raise InputError(f"standard output: {system_error(error)}") from error


def limit_words(error: OSError | ArithmeticError | MemoryError) -> str:
    """Words for an error of a machine at its limits: of the system, of numbers or of memory."""
    if isinstance(error, ArithmeticError):
        return f"these values leave the range of floating-point numbers: {error}"
    if isinstance(error, MemoryError):
        return f"needs more memory than there is: {error}".removesuffix(": ")
    return system_error(error)


def system_error(error: OSError) -> str:
    """Words for an error of the system, such as a full disk or a folder without rights."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename or 'standard output or a file'}: {reason}"


@contextlib.contextmanager
def interrupts() -> Iterator[list[int]]:
    """A list that Ctrl-C puts its signal's number into before it raises KeyboardInterrupt.

    Outside the main thread, and where somebody else handles the signal, nothing changes.
    """
    seen: list[int] = []

    def remember(signal_number: int, frame: FrameType | None) -> None:
        seen.append(signal_number)
        signal.default_int_handler(signal_number, frame)

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield seen
        return
    signal.signal(signal.SIGINT, remember)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
