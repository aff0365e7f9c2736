"""Output on standard error during work: progress, warnings and hints.

A terminal shows a progress bar, other outputs a line per tenth of the work; both show warnings and,
after `LONGEST_SILENCE` without other output, the current step and its duration; hints are for a
terminal alone. `set_verbosity` (`fl-audit COMMAND --verbosity LEVEL`) selects among these, and sets
the logging of libraries: TensorFlow Federated, TensorFlow Privacy and dp_accounting log with absl,
TensorFlow with its own logger and in C++.
"""

import contextlib
import importlib
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO, TypeVar

from fl_audit.errors import visible

if TYPE_CHECKING:
    from tqdm import tqdm

T = TypeVar("T")

VERBOSITIES = ("error", "warning", "info", "debug")
"""From the fewest lines to the most. `info`, the default, adds progress and hints to warnings;
`debug` adds libraries' messages on devices, graphs and compilers."""

_LOG = logging.getLogger("fl_audit.progress")
_LOG.setLevel(logging.INFO)


def set_verbosity(level: str) -> None:
    """Sets the process's output on standard error, of fl_audit and its libraries.

    Call it before TensorFlow is imported, because the import reads `TF_CPP_MIN_LOG_LEVEL` for the
    C++ log; a value set by the user is kept. Results are printed at every level.
    """
    from absl import flags
    from absl import logging as absl_logging

    if level not in VERBOSITIES:
        raise ValueError(f"level must be one of {', '.join(VERBOSITIES)}, got {level!r}")
    _LOG.setLevel(level.upper())
    library_level = {"error": "ERROR", "debug": "INFO"}.get(level, "WARNING")
    if level == "debug":
        flags.FLAGS.mark_as_parsed()  # or absl warns that it logs before flags are parsed
        absl_logging.use_absl_handler()  # time, file and line of each message
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")
    absl_logging.set_verbosity(library_level.lower())
    logging.getLogger("tensorflow").setLevel(library_level)


_BEAT = 0.5  # seconds between two looks at how long nothing was printed

LONGEST_SILENCE = math.inf if os.environ.get("FL_AUDIT_HEARTBEAT") == "off" else 8.0
"""Seconds without output after which the current step is printed; in a long step it takes more.

`FL_AUDIT_HEARTBEAT=off` disables such lines, for tests of standard error on slow machines.
"""

_SILENT_SHARE = 0.1
"""The least silence, as a share of the time since any step began or ended; shortens long logs."""


@dataclass(eq=False)
class _Work:
    """A step of the work.

    Attributes:
      words: Describes the step and its progress.
      counter: The step's progress bar on a terminal, if any.
      begun: The start of the step, in seconds of the monotonic clock.
    """

    words: Callable[[], str]
    counter: "tqdm | None" = None
    begun: float = field(default_factory=time.monotonic)


class _Pulse:
    """A thread that prints the current step while nothing else is printed; ends with the work."""

    def __init__(self) -> None:
        self._works: list[_Work] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._changed = self.last_said = time.monotonic()
        self.stream: TextIO | None = None  # replaces standard error

    def begin(self, work: _Work) -> None:
        """Starts a step inside the current one, which is not printed meanwhile."""
        with self._lock:
            self._works.append(work)
            self._changed = work.begun
            if len(self._works) == 1:
                self.last_said = work.begun
                self._ended = threading.Event()
                threading.Thread(target=self._beat, args=(self._ended,), daemon=True).start()

    def end(self, work: _Work) -> None:
        with self._lock:
            self._works.remove(work)
            self._changed = time.monotonic()
            if not self._works:
                self._ended.set()

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(_BEAT):
            with self._lock:
                if self._works:
                    self._say(self._works[-1])

    def _say(self, work: _Work) -> None:
        now = time.monotonic()
        elapsed = now - work.begun
        if work.counter is not None:
            with work.counter.get_lock():
                if not work.counter.disable and elapsed > work.counter.delay:
                    work.counter.refresh(nolock=True)
            self.last_said = now
        elif now - self.last_said >= max(LONGEST_SILENCE, _SILENT_SHARE * (now - self._changed)):
            so_far = f", {elapsed:.0f} s so far" if elapsed >= 1 else ""
            _write(logging.INFO, f"{work.words()}{so_far}")


_PULSE = _Pulse()


@contextlib.contextmanager
def doing(words: str | Callable[[], str], counter: "tqdm | None" = None) -> Iterator[None]:
    """Prints the block's step if it takes long without other output."""
    importlib.import_module("tqdm")  # an import in the thread might deadlock with one here
    shown = None if counter is None or counter.disable else counter
    work = _Work(words if callable(words) else lambda: words, shown)
    _PULSE.begin(work)
    try:
        yield
    finally:
        _PULSE.end(work)


class Progress:
    """Shows the progress of work of known size.

    >>> import contextlib
    >>> with contextlib.redirect_stderr(sys.stdout), Progress("sweep", 20, "run", done=3) as shown:
    ...     shown.advance()
    ...     shown.advance(14, {"failed": "none"})
    sweep: 4 of 20 runs
    sweep: 18 of 20 runs, failed none
    """

    def __init__(
        self, name: str, total: int, unit: str, done: int = 0, first_unit: str = ""
    ) -> None:
        """Shows a bar on a terminal.

        Args:
          name: The name of the work.
          total: Number of units of the whole work.
          unit: A unit in words, such as "round".
          done: Number of units already done.
          first_unit: Why the first unit takes longer than the others, if so.
        """
        from tqdm import tqdm

        self._name, self._total, self._unit, self._done = name, total, unit, done
        self._first_unit = first_unit
        self._bar = tqdm(
            desc=visible(name), total=total, initial=done, unit=unit, disable=_no_bar(), leave=False
        )
        self._at_work = contextlib.ExitStack()
        self._at_work.enter_context(doing(self._words, self._bar))

    def _words(self) -> str:
        how_far = f"{self._name}: {self._done} of {self._total} {self._unit}s"
        return f"{how_far} ({self._first_unit})" if self._first_unit else how_far

    def advance(self, units: int = 1, facts: Mapping[str, str] | None = None) -> None:
        """Counts completed units, and shows `facts`; off a terminal only at each tenth."""
        self._bar.update(units)
        self._first_unit = ""
        before, self._done = self._done, self._done + units
        if not self._bar.disable:
            self._bar.set_postfix(facts or {})
        elif 10 * self._done // self._total > 10 * before // self._total:
            parts = [self._words()]
            parts += [f"{name} {value}" for name, value in (facts or {}).items()]
            _write(logging.INFO, ", ".join(parts))

    def note(self, text: str) -> None:
        """Shows a text after the bar; nothing off a terminal."""
        if not self._bar.disable:
            self._bar.set_postfix_str(text)

    def close(self) -> None:
        """Removes the bar."""
        self._at_work.close()
        self._bar.close()

    def __enter__(self) -> Self:
        """Returns the display."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Removes the bar."""
        self.close()


def bar(items: Iterable[T], name: str, unit: str = "it", delay: float = 0) -> Iterator[T]:
    """Iterates over the items with a progress bar on a terminal, removed at the end."""
    from tqdm import tqdm

    counted = tqdm(
        items, desc=visible(name), unit=unit, delay=delay, disable=_no_bar(), leave=False
    )
    with doing(f"{name}, {unit} by {unit}" if unit != "it" else name, counted):
        yield from counted


@contextlib.contextmanager
def lines_to(stream: TextIO) -> Iterator[None]:
    """Redirects lines to another stream while standard error is redirected."""
    _PULSE.stream = stream
    try:
        yield
    finally:
        _PULSE.stream = None


def warn(line: str) -> None:
    """Prints a warning, above the bar if there is one; in `warned_if_read` only at its end."""
    if (held := _held.get()) is not None:
        held.append(line)
    else:
        _write(logging.WARNING, line)


_held: ContextVar[list[str] | None] = ContextVar("warnings about what is being read", default=None)


@contextlib.contextmanager
def warned_if_read() -> Iterator[None]:
    """Prints the block's warnings at its end; none if the block raises an error."""
    lines: list[str] = []
    token = _held.set(lines)
    try:
        yield
    finally:
        _held.reset(token)
    for line in lines:
        warn(line)


def hint(line: str) -> None:
    """Prints a hint for users at a terminal; nothing elsewhere."""
    if sys.stderr.isatty():
        _write(logging.INFO, line)


def _write(level: int, line: str) -> None:
    from tqdm import tqdm

    if _LOG.isEnabledFor(level):
        _PULSE.last_said = time.monotonic()
        tqdm.write(visible(line), file=_PULSE.stream or sys.stderr)


def _no_bar() -> bool | None:
    """The value of tqdm's `disable`: None shows a bar on a terminal only."""
    return None if _LOG.isEnabledFor(logging.INFO) else True
