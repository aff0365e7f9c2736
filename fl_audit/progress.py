"""Progress on standard error: a bar on a terminal, and a line per tenth of the work elsewhere."""

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self


class Progress:
    """The progress of work whose amount is known.

    >>> import contextlib
    >>> with contextlib.redirect_stderr(sys.stdout), Progress("sweep", 20, "run", done=3) as shown:
    ...     shown.advance()
    ...     shown.advance(14, {"failed": "none"})
    sweep: 4 of 20 runs
    sweep: 18 of 20 runs, failed none
    """

    def __init__(self, name: str, total: int, unit: str, done: int = 0) -> None:
        """Shows a bar, or nothing where standard error is no terminal.

        Args:
          name: The name of the work.
          total: The number of units of the whole work.
          unit: A unit in words, such as "round".
          done: The number of units that were done before.
        """
        from tqdm import tqdm

        self._name, self._total, self._unit, self._done = name, total, unit, done
        self._bar = tqdm(desc=name, total=total, initial=done, unit=unit, disable=None, leave=False)

    def advance(self, units: int = 1, facts: Mapping[str, str] | None = None) -> None:
        """Shows that some units more are done; without a terminal only as a tenth is over.

        Args:
          units: The number of units.
          facts: What is to be shown beside the progress, by name.
        """
        self._bar.update(units)
        before, self._done = self._done, self._done + units
        if not self._bar.disable:
            self._bar.set_postfix(facts or {})
        elif 10 * self._done // self._total > 10 * before // self._total:
            parts = [f"{self._name}: {self._done} of {self._total} {self._unit}s"]
            parts += [f"{name} {value}" for name, value in (facts or {}).items()]
            sys.stderr.write(", ".join(parts) + "\n")

    def note(self, text: str) -> None:
        """Shows a text beside the bar; nothing without a terminal."""
        if not self._bar.disable:
            self._bar.set_postfix_str(text)

    def close(self) -> None:
        """Takes the bar away."""
        self._bar.close()

    def __enter__(self) -> Self:
        """The display itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Takes the bar away."""
        self.close()


def say(line: str) -> None:
    """Prints a line on standard error, above the bar where there is one."""
    from tqdm import tqdm

    tqdm.write(line, file=sys.stderr)
