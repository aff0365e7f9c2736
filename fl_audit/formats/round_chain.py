r"""The chain of a folder: everything an audit wrote, in order, linked by digests.

`chain.jsonl` begins with the digests of the files that define the audit (config or pool, canaries),
and gets a line with the digests of a round's rows as soon as they are written. Every line has a
link, the SHA-256 of the previous link and the line itself, so no line can be changed, dropped,
repeated or moved without rewriting all later lines. Lines are only added: a resumed run adds a line
that says so, and then the rounds after its last checkpoint again. An incomplete last line is
ignored.

The chain also shows which files belong together: a file whose digest is not in the chain belongs to
another pool or to other rounds.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as name:
...     folder = Path(name)
...     _ = (folder / "coins.csv").write_text("canary_id,included\n0,1\n")
...     chain = ChainWriter.begin(folder / "chain.jsonl", [folder / "coins.csv"])
...     _ = (folder / "metrics.csv").write_text("round,loss\n1,0.5\n")
...     chain.log_round(1, [folder / "metrics.csv"])
...     read = read_chain(folder / "chain.jsonl")
...     _ = (folder / "metrics.csv").write_text("round,loss\n1,0.6\n")
...     sorted(read.rounds), read.broken, read.changed_rows(folder)
([1], (), (ChangedRow(name='metrics.csv', round=1),))
"""

import functools
import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from fl_audit.errors import InputError
from fl_audit.formats.npy_file import opened, read_header
from fl_audit.formats.text_files import (
    append_whole,
    check_format_version,
    decode_json,
    open_foreign,
    read_foreign,
    reading,
    write_text,
)

# The lines.


FORMAT_VERSION = 1


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="what"):
    """One line; the key `what` holds its kind, the key `link` its link."""

    link: str = ""


class Begun(_Line, frozen=True, tag="begun", kw_only=True):
    """The first line.

    Attributes:
      files: The SHA-256 of each file that defines the audit, by name.
    """

    files: dict[str, str]
    format_version: int = FORMAT_VERSION


class Logged(_Line, frozen=True, tag="round", kw_only=True):
    """A round whose rows are written.

    Attributes:
      round: The round, from 1.
      rows: The SHA-256 of the round's row in each log with a row per round, by the log's name.
      step: The row, from 1, in logs with a row per released model; None if no model was released
        after this round.
      step_rows: The SHA-256 of the row `step` in each log with a row per released model, by name.
    """

    round: int
    rows: dict[str, str]
    step: int | None = None
    step_rows: dict[str, str] = msgspec.field(default_factory=dict)


class Scoring(_Line, frozen=True, tag="scoring", kw_only=True):
    """A round, from 1, that `RoundScorer` is about to write."""

    round: int


class Saved(_Line, frozen=True, tag="checkpoint", kw_only=True):
    """A checkpoint after `rounds` rounds.

    Attributes:
      files: The SHA-256 of each file of the state for resuming, by name.
    """

    rounds: int
    files: dict[str, str]


class Resumed(_Line, frozen=True, tag="resumed", kw_only=True):
    """A run is resumed after `rounds` rounds; later rounds, if logged, are logged again."""

    rounds: int


class Scored(_Line, frozen=True, tag="scored", kw_only=True):
    """Scores after `rounds` rounds.

    Attributes:
      files: The SHA-256 of the score files and of other files written after the rounds.
      model_sha256: The digest of the trained model (`formats.model_file`); empty for a log.
    """

    rounds: int
    files: dict[str, str]
    model_sha256: str = ""


class Reported(_Line, frozen=True, tag="reported", kw_only=True):
    """A report.

    Attributes:
      files: The SHA-256 of the report's files, by name.
      code: The SHA-256 of the code that wrote the report (`fl_audit.version`).
    """

    files: dict[str, str]
    code: str = ""


Line = Begun | Logged | Scoring | Saved | Resumed | Scored | Reported

AnyLine = TypeVar("AnyLine", bound=Line)


def link_of(line: Line, before: str) -> str:
    """The link of a line: the SHA-256 of the link `before` ("" for none) and the line's content."""
    unlinked = msgspec.json.encode(msgspec.structs.replace(line, link=""))
    return digest(before.encode() + b"\n" + unlinked)


def linked(line: AnyLine, before: str) -> AnyLine:
    """A line with its link, after a line whose link is `before`."""
    return msgspec.structs.replace(line, link=link_of(line, before))


def text_of(line: Line) -> bytes:
    """The text of a line in the file."""
    return msgspec.json.encode(line) + b"\n"


def digest(content: bytes) -> str:
    """The SHA-256 of some bytes, as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with reading(path), open_foreign(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests_of(files: Iterable[Path]) -> dict[str, str]:
    """The digests of existing files, by name."""
    return {path.name: digest_of(path) for path in sorted(files) if path.exists()}


# The rows of a log: of an array (NPY), or the lines of a CSV after its header.


_LONGEST_ROW = 1 << 16
"""The longest line, in bytes, of a CSV that grows with the rounds."""


def _last_line(path: Path) -> bytes:
    """The last line of a CSV, with its line break."""
    with open_foreign(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LONGEST_ROW))
        return file.read().splitlines(keepends=True)[-1]


def _rows(path: Path, indices: Sequence[int]) -> Iterator[bytes]:
    """The rows of a log at `indices`, in this order; a row that the log lacks is empty."""
    if path.suffix == ".csv":
        lines = read_foreign(path).splitlines(keepends=True)[1:]
        yield from (lines[index] if index < len(lines) else b"" for index in indices)
        return
    with opened(path, "a log") as file:
        header = read_header(file)
        size = header.num_bytes // max(1, *header.shape[:1])
        for index in indices:
            file.seek(header.start + index * size)
            yield file.read(size)


def _digests(logs: Iterable[Path], index: int) -> dict[str, str]:
    """The digest of the row just written to each existing log, by the log's name."""
    return {
        path.name: digest(_last_line(path) if path.suffix == ".csv" else next(_rows(path, [index])))
        for path in logs
        if path.exists()
    }


# Writing.


class ChainWriter:
    """Adds lines to a chain; a line is on the disk after the next `flush`.

    Attributes:
      head: The link of the last line.
    """

    def __init__(self, path: Path, head: str) -> None:
        """Continues after the line with the link `head`; use `begin` or `go_on` instead."""
        self._path = path
        self.head = head

    @classmethod
    def begin(cls, path: Path, files: Iterable[Path], mode: int = 0o666) -> "ChainWriter":
        """Replaces any earlier chain by one that begins with the digests of existing files."""
        first = linked(Begun(files=digests_of(files)), "")
        write_text(path, text_of(first).decode(), mode)
        return cls(path, first.link)

    @classmethod
    def go_on(cls, path: Path) -> "ChainWriter":
        """Continues after the last complete line; an incomplete line is cut off."""
        chain = read_chain(path)
        chain.check(path)
        if chain.torn:
            os.truncate(path, sum(len(text_of(line)) for line in chain.lines))
        return cls(path, chain.lines[-1].link)

    def add(self, line: Line) -> None:
        """Adds a line."""
        added = linked(line, self.head)
        append_whole(self._path, text_of(added))
        self.head = added.link

    def log_round(
        self,
        number: int,
        logs: Iterable[Path],
        step: int | None = None,
        step_logs: Iterable[Path] = (),
    ) -> None:
        """Adds a line with the digests of a round's rows, which the logs hold.

        Args:
          number: The round, from 1.
          logs: The logs with a row per round; missing logs are left out. In a CSV the line of this
            round must be the last.
          step: The row, from 1, in `step_logs`; None if no model was released after this round.
          step_logs: The logs with a row per released model; missing logs are left out.
        """
        rows = _digests(logs, number - 1)
        steps = {} if step is None else _digests(step_logs, step - 1)
        self.add(Logged(round=number, rows=rows, step=step if steps else None, step_rows=steps))

    def flush(self) -> None:
        """Waits until the lines have reached the disk."""
        with self._path.open("rb") as file:
            os.fsync(file.fileno())


# Reading.


@dataclass(frozen=True)
class ChangedRow:
    """A row of a log that differs from the chain."""

    name: str
    round: int  # the round of the row, from 1


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain that was read."""

    lines: tuple[Line, ...]
    # the numbers, from 1, of lines with a wrong link
    broken: tuple[int, ...]
    torn: bool  # whether an incomplete line follows

    def check(self, path: Path) -> None:
        """Raises an `InputError` with the number of the first line whose link is wrong, if any."""
        if self.broken:
            raise InputError(
                f"{path}: line {self.broken[0]} does not follow from the one before it: lines were "
                "changed, dropped, repeated or moved"
            )

    @property
    def begun(self) -> Begun:
        """The first line."""
        first = self.lines[0]
        assert isinstance(first, Begun)
        return first

    @functools.cached_property
    def rounds(self) -> Mapping[int, Logged]:
        """The last line of each round, by its number, without rounds that a resumed run dropped."""
        logged: dict[int, Logged] = {}
        for line in self.lines:
            if isinstance(line, Logged):
                logged[line.round] = line
            elif isinstance(line, Resumed):
                logged = {
                    number: entry for number, entry in logged.items() if number <= line.rounds
                }
        return logged

    @property
    def rounds_again(self) -> int:
        """The number of lines of rounds that a resumption drops or later lines replace."""
        return sum(isinstance(line, Logged) for line in self.lines) - len(self.rounds)

    @property
    def sessions(self) -> int:
        """The number of times that the run was started or resumed."""
        return 1 + sum(isinstance(line, Resumed) for line in self.lines)

    def last(self, kind: type[AnyLine]) -> AnyLine | None:
        """The last line of a kind; None without any."""
        return next((line for line in reversed(self.lines) if isinstance(line, kind)), None)

    @property
    def is_scored(self) -> bool:
        """Whether there are scores, and no round, not even half of one, or resumption follows."""
        kinds = (Logged, Scoring, Scored, Resumed)
        last = next((line for line in reversed(self.lines) if isinstance(line, kinds)), None)
        return isinstance(last, Scored)

    def until(self, link: str) -> "Chain":
        """The chain up to the line with this link."""
        at = [line.link for line in self.lines].index(link) + 1
        broken = tuple(number for number in self.broken if number <= at)
        return Chain(self.lines[:at], broken, torn=False)

    def changed_rows(self, folder: Path) -> tuple[ChangedRow, ...]:
        """The rows of existing logs that differ from the chain."""
        rows_of: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for number, line in self.rounds.items():
            for name, value in line.rows.items():
                rows_of[name].append((number - 1, number, value))
            for name, value in line.step_rows.items():
                rows_of[name].append(((line.step or 1) - 1, number, value))
        changed = []
        for name, rows in rows_of.items():
            path = folder / name
            if not path.exists():
                continue
            current = _rows(path, [index for index, _, _ in rows])
            changed += [
                ChangedRow(name, number)
                for row, (_, number, value) in zip(current, rows, strict=True)
                if digest(row) != value
            ]
        return tuple(changed)

    @property
    def scored_rounds(self) -> int:
        """The number of scored rounds; 0 unless the scores follow all logged rounds."""
        scored = self.last(Scored)
        return 0 if scored is None or not self.is_scored else scored.rounds

    @property
    def files(self) -> dict[str, str]:
        """The digests in the first line and in the last line of scores, by file name."""
        scored = self.last(Scored)
        return self.begun.files | (scored.files if scored is not None else {})

    def changed_files(self, folder: Path, names: Iterable[str]) -> list[str]:
        """The `names` of files that exist, but have another digest than in the chain."""
        compared = self.files.keys() & set(names)
        return [
            name
            for name in sorted(compared)
            if (folder / name).exists() and digest_of(folder / name) != self.files[name]
        ]

    def changed_terms(self, folder: Path, names: Iterable[str]) -> list[str]:
        """The `names` of files that were changed, added or removed since the last scores."""
        now = digests_of([folder / name for name in names])
        return [name for name in names if now.get(name) != self.files.get(name)]

    def changed(self, folder: Path) -> list[str]:
        """The names of changed logs and files; all logs count as changed unless `is_scored`."""
        rounds = self.rounds.values()
        logs = [] if self.is_scored else [name for line in rounds for name in line.rows]
        rows = [row.name for row in self.changed_rows(folder)]
        return list(dict.fromkeys([*logs, *rows, *self.changed_files(folder, self.files)]))


def read_chain(path: Path) -> Chain:
    """Reads a chain; an incomplete last line is ignored."""
    lines: list[Line] = []
    broken: list[int] = []
    before, torn = "", False
    with reading(path), open_foreign(path) as file:
        for number, text in enumerate(file, start=1):
            if not text.endswith(b"\n"):
                torn = True
                break
            line = _decoded(path, number, text)
            if text != text_of(linked(line, before)):  # true also for a repeated key
                broken.append(number)
            before = line.link
            lines.append(line)
    if not lines:
        raise InputError(f"{path}: is not a chain: has no line")
    return Chain(tuple(lines), tuple(broken), torn)


def _decoded(path: Path, number: int, text: bytes) -> Line:
    where = f"{path}: line {number}"
    line: Line = decode_json(text, cast("type[Any]", Line), where, "a valid line of a chain")
    if isinstance(line, Begun) != (number == 1):
        raise InputError(f"{where}: the first line, and no other, must be `begun`")
    if isinstance(line, Begun):
        check_format_version(path, line.format_version, FORMAT_VERSION)
    if isinstance(line, Logged | Scoring) and line.round < 1:
        raise InputError(f"{where}: rounds count from 1, got {line.round}")
    if isinstance(line, Logged) and line.step is not None and line.step < 1:
        raise InputError(f"{where}: steps count from 1, got {line.step}")
    for name in _names(line):
        if name in ("", ".", "..") or Path(name).name != name:
            raise InputError(f"{where}: names {name!r}, must name files in its folder")
    return line


def _names(line: Line) -> Iterator[str]:
    for names in (getattr(line, key, {}) for key in ("files", "rows", "step_rows")):
        yield from names
