"""The progress of scoring a log, on standard error if that is a terminal."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def scoring_progress(paths: list[Path]) -> Iterator[Path]:
    """The files of a log's aggregates, with a progress bar and a last line with their number."""
    from tqdm import tqdm

    bar: Iterable[Path] = tqdm(paths, desc="scoring", unit="round", disable=None, leave=False)
    yield from bar
    if paths and sys.stderr.isatty():
        print(f"scored {len(paths)} rounds", file=sys.stderr)
