"""How many seeds a test tries: some in `make test`, all in `make test-all`."""

from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

tries_all = False
"""Whether this session runs slow tests too; set by tests/conftest.py."""


def some(cases: Sequence[Case], kept: int) -> Sequence[Case]:
    """So many of the cases at even distances, as of the marker `sampled`; all with slow tests."""
    if tries_all or len(cases) <= kept:
        return cases
    return [cases[round((i + 0.5) * len(cases) / kept - 0.5)] for i in range(kept)]
