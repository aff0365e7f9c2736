"""The findings of a verification: inconsistencies, and files that could not be recomputed."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from fl_audit.errors import InputError
from fl_audit.report.report import Report


@dataclass(frozen=True)
class Finding:
    """An inconsistency: the name of the file, and what does not fit."""

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


@dataclass(eq=False)
class Verified:
    """The outcome of a verification, possibly in progress.

    Attributes:
      findings: The inconsistencies; empty if everything fits.
      notes: Remarks other than findings.
      not_made_again: The files that the headline depends on and that could not be recomputed; at
        most the chain covers these files.
      report: The rebuilt report of a run; None for a log, and if something does not fit.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    not_made_again: list[str] = field(default_factory=list)
    report: Report | None = None

    @property
    def outcome(self) -> Literal["held", "partly", "broken"]:
        """Broken if something does not fit; partly if a file was not recomputed; else held."""
        if self.findings:
            return "broken"
        return "partly" if self.not_made_again else "held"

    @property
    def held(self) -> bool:
        """Whether everything on which the headline rests was recomputed and is equal."""
        return self.outcome == "held"

    def to_json(self) -> dict[str, Any]:
        """The object of `fl-audit verify --json`."""
        return {
            "outcome": self.outcome,
            "held": self.held,
            "findings": [{"file": one.file, "what": one.what} for one in self.findings],
            "not_made_again": self.not_made_again,
        }

    def add(self, file: Path | str, what: str) -> None:
        """Adds a finding unless it was added before, and drops the report."""
        finding = Finding(Path(file).name, what)
        if finding not in self.findings:
            self.findings.append(finding)
        self.report = None

    def note(self, words: str) -> None:
        self.notes.append(words)

    def reading(self, file: Path) -> "_Reading":
        """A block in which an `InputError` becomes a finding.

        The finding is on `file`, unless the error names another file of the same folder first.
        """
        return _Reading(self, file)


@dataclass(frozen=True, eq=False)
class _Reading:
    """A context in which an `InputError` becomes a finding."""

    verified: Verified
    file: Path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        if not isinstance(error, InputError):
            return False
        path, colon, words = str(error).partition(": ")
        if colon and Path(path).parent == self.file.parent:
            self.verified.add(path, words)
        else:
            self.verified.add(self.file, str(error))
        return True


@dataclass(frozen=True)
class Difference:
    """A difference between two values of JSON.

    Attributes:
      place: The keys of the value, such as `verdict.epsilon_lower`.
      recorded: The recorded value; `_MISSING` if the key is missing.
      derived: The recomputed value; `_MISSING` if there should be none.
      kind: What differs: the last digits of a number alone, a text of several words, a key that the
        file lacks, or any other value.
    """

    place: str
    recorded: Any
    derived: Any
    kind: Literal["last digits", "words", "lacking", "value"]

    def __str__(self) -> str:
        return f"`{self.place}` is {_short(self.recorded)}; recomputed: {_short(self.derived)}"


_SAME = 1e-9
"""The relative difference up to which only last digits differ, as between processors."""


def differences(stated: Any, derived: Any, place: str = "") -> Iterator[Difference]:
    """The differences between two values of JSON, in order.

    >>> [str(difference) for difference in differences({"a": [1, 2.5]}, {"a": [1, 2.0], "b": None})]
    ['`a[1]` is 2.5; recomputed: 2.0', '`b` is missing; recomputed: null']
    """
    if isinstance(stated, Mapping) and isinstance(derived, Mapping):
        for key in dict.fromkeys([*derived, *stated]):
            at = f"{place}.{key}" if place else str(key)
            yield from differences(stated.get(key, _MISSING), derived.get(key, _MISSING), at)
    elif _are_lists(stated, derived) and len(stated) == len(derived):
        for index, (stated_item, derived_item) in enumerate(zip(stated, derived, strict=True)):
            yield from differences(stated_item, derived_item, f"{place}[{index}]")
    elif stated != derived or isinstance(stated, bool) != isinstance(derived, bool):
        yield Difference(place, stated, derived, _kind(stated, derived))


class _Missing:
    def __repr__(self) -> str:
        return "missing"


_MISSING = _Missing()


def first_difference(
    lines: Sequence[str], follows: Sequence[str]
) -> tuple[int, str | _Missing, str | _Missing] | None:
    """The number, from 0, of the first differing line, and both lines; None if no line differs."""
    pairs = enumerate(itertools.zip_longest(lines, follows, fillvalue=_MISSING))
    return next(((at, line, follow) for at, (line, follow) in pairs if line != follow), None)


def _are_lists(first: Any, second: Any) -> bool:
    kinds = (first, second)
    return all(isinstance(kind, Sequence) and not isinstance(kind, str) for kind in kinds)


def _kind(stated: Any, derived: Any) -> Literal["last digits", "words", "lacking", "value"]:
    if stated is _MISSING:
        return "lacking"
    if isinstance(stated, str) and isinstance(derived, str) and " " in derived:
        return "words"
    if isinstance(stated, float) and isinstance(derived, float):
        is_same = math.isclose(stated, derived, rel_tol=_SAME)
        return "last digits" if is_same else "value"
    return "value"


_LONGEST = 60


def _short(value: Any) -> str:
    if isinstance(value, bool | None):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
