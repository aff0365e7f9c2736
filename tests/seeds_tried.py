"""How many seeds a test tries: some in `make test`, all in `make test-all`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # other frameworks' environments lack it
    from hypothesis import settings

Case = TypeVar("Case")

tries_all = False
"""Whether this session runs slow tests too; set by tests/conftest.py."""


def some(cases: Sequence[Case], kept: int) -> Sequence[Case]:
    """So many of the cases at even distances, as of the marker `sampled`; all with slow tests."""
    if tries_all or len(cases) <= kept:
        return cases
    return [cases[round((i + 0.5) * len(cases) / kept - 0.5)] for i in range(kept)]


def examples(most: int) -> "settings":
    """The same examples of hypothesis in every session; a third of them without slow tests."""
    from hypothesis import settings

    number = most if tries_all else -(-most // 3)
    return settings(derandomize=True, deadline=None, max_examples=number)
