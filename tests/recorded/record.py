"""Records what calls give, into `expected/`: all of them, or those that are named.

    PYTHONPATH=TREE python tests/recorded/record.py [NAME …]

TREE is the code that is recorded, the root of a checkout. Record from the code *before* a change
whose outputs must not differ; after a change that is meant, record the calls that it touches and
say so in the commit.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from recorded_calls import CALLS, EXPECTED, Scratch, write_expected

import fl_audit

if __name__ == "__main__":
    names = sys.argv[1:] or list(CALLS)
    if names == list(CALLS):
        shutil.rmtree(EXPECTED, ignore_errors=True)
    with tempfile.TemporaryDirectory() as parent:
        scratch = Scratch.create(Path(parent))
        for name in names:
            record = scratch.record(CALLS[name])
            if "crash" in record:
                sys.exit(f"{name}: {record['crash']}")
            write_expected(CALLS[name], record)
    sys.stdout.write(f"{len(names)} calls recorded of {Path(fl_audit.__file__).parent}\n")
