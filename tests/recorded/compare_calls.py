"""Compares what calls give with what was recorded; a line for each difference.

    PYTHONPATH=TREE python tests/recorded/compare_calls.py [--fast] [NAME …]

TREE is the code that is judged, the root of a checkout. `--fast` leaves out calls that train.
Exits with status 1 where anything differs.
"""

import sys
import tempfile
import time
from pathlib import Path

from recorded_calls import CALLS, Scratch, differences

import fl_audit


def _compare(names: list[str], scratch: Scratch) -> list[str]:
    found = []
    for name in names:
        start = time.monotonic()
        changed = differences(CALLS[name], scratch.record(CALLS[name]))
        seconds = time.monotonic() - start
        sys.stdout.write(f"{name:<42}{seconds:6.1f} s  {len(changed)} differences\n")
        found += changed
    return found


if __name__ == "__main__":
    asked = [word for word in sys.argv[1:] if word != "--fast"] or list(CALLS)
    if "--fast" in sys.argv:
        asked = [name for name in asked if not CALLS[name].trains]
    with tempfile.TemporaryDirectory() as parent:
        lines = _compare(asked, Scratch.create(Path(parent)))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    package = Path(fl_audit.__file__).parent
    sys.stdout.write(f"{len(asked)} calls of {package}, {len(lines)} differences\n")
    sys.exit(bool(lines))
