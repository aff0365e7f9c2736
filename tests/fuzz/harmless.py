"""What a hostile call must not do: raise, hang, take memory, leave half a file, be silent.

`python harmless.py calls|plans FOLDER FIRST LAST SEED` makes many and prints what they did wrong.
"""

import contextlib
import io
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from hostile_calls import Call, make_call
from hostile_plans import make_plan_call

from fl_audit.cli import main

MEMORY = 3 * 2**30
_STATUSES = (0, 1, 2, 3, 4, 5)


class _TooLongError(BaseException):
    """The call took too much processor time."""


Make = Callable[[int, int, Path], Call]
"""A function that makes a call from a seed, a number and an empty folder."""


def fault_of(make: Make, seed: int, number: int, folder: Path) -> str | None:
    """Makes a call and returns what it did wrong; None where it did nothing wrong.

    Args:
      make: The function that makes the call.
      seed: The seed of all calls.
      number: The number of the call.
      folder: A folder for the call's files, which is empty before and after.
    """
    place = folder / f"call{number}"
    place.mkdir(parents=True)
    try:
        call = make(seed, number, place)
        fault = _fault(call)
    finally:
        shutil.rmtree(place)
    if fault is None:
        return None
    return f"{seed}/{number}: {fault}: {[word[:80] for word in call.arguments]}"


def _fault(call: Call) -> str | None:
    before = set(call.folder.rglob("*"))
    output, errors = io.StringIO(), io.StringIO()
    try:
        with (
            _limits(call.cpu_seconds),
            contextlib.chdir(call.folder),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", DeprecationWarning)  # as Python does by default
            status = main(list(call.arguments))
    except SystemExit as end:
        status = 0 if end.code in (0, None) else -1
    except _TooLongError:
        return "took too long"
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return f"{type(error).__name__} at {place}: {error}"[:300]
    made = set(call.folder.rglob("*")) - before
    # An answer is printed before a page of it is written, and stays where the page cannot be.
    has_page = any(word.startswith("--out") for word in call.arguments)
    answered = "" if has_page else output.getvalue()
    return _wrong(status, output.getvalue(), answered, errors.getvalue(), made)


def _wrong(status: int, output: str, answered: str, errors: str, made: set[Path]) -> str | None:
    lines = errors.splitlines()
    if status not in _STATUSES:
        return f"status {status}"
    if any(path.name.endswith(".part") for path in made) or (status == 2 and made):
        return f"left {sorted(path.name for path in made)}"
    if status == 2 and (len(lines) != 1 or len(lines[0]) > 2_500 or answered):
        return f"refused in {len(lines)} lines of {len(errors)} characters: {errors[:200]}"
    if "more memory than there is" in errors or "Warning" in errors:
        return f"said {errors[-300:]!r}"
    if status != 2 and not output:
        return "said nothing"
    return None


@contextlib.contextmanager
def _limits(cpu_seconds: int) -> Iterator[None]:
    """Limits on processor time, and on memory beyond what is in use."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    earlier = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGVTALRM, _stop)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, earlier[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, earlier)
        signal.signal(signal.SIGVTALRM, handler)


def _stop(*_: object) -> None:
    raise _TooLongError


if __name__ == "__main__":
    makers = {"calls": make_call, "plans": make_plan_call}
    first, last, kind = (int(word) for word in sys.argv[3:6])
    for number in range(first, last):
        found = fault_of(makers[sys.argv[1]], kind, number, Path(sys.argv[2]))
        if found is not None:
            sys.stdout.write(f"{found}\n")
            sys.stdout.flush()
