"""Sends what a noisy library prints to a file; processes that it starts print there too."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def output_to(path: str) -> Iterator[None]:
    """Standard output and error go to a file inside the `with`, and come back after it.

    Args:
      path: The file, which is made anew.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    print(f"running; its log is {path}", flush=True)
    with Path(path).open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for place, stream in enumerate(kept, start=1):
                os.dup2(stream, place)
                os.close(stream)
