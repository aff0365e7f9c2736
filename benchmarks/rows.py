"""Rows of a table that is printed unattended: after one that fails the others still follow."""

import time
from collections.abc import Callable


class Rows:
    """Prints rows while there is time.

    Attributes:
      all_came_out: Whether every row so far has its numbers.
    """

    def __init__(self, time_limit: float) -> None:
        """Starts the clock.

        Args:
          time_limit: Seconds after which no row begins.
        """
        self._end = time.monotonic() + time_limit
        self.all_came_out = True

    def row(self, name: str, make: Callable[[], str]) -> None:
        """Prints a name and what `make` returns, or why it returned nothing."""
        print(f"{name:34}{self._text(make)}", flush=True)

    def _text(self, make: Callable[[], str]) -> str:
        if time.monotonic() > self._end:
            return self._failed("not begun: the time is up")
        try:
            return make()
        except MemoryError:
            return self._failed("out of memory")
        except (RuntimeError, SystemExit) as error:  # JAX's errors are RuntimeErrors
            if "RESOURCE_EXHAUSTED" in str(error):
                return self._failed("out of memory")
            return self._failed(f"no number: {(str(error).splitlines() or [repr(error)])[0]}")

    def _failed(self, why: str) -> str:
        self.all_came_out = False
        return why
