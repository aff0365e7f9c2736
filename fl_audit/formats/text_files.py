r"""Text files: opening untrusted files, parsing, and atomic writes.

A folder from an untrusted source may hold pipes, which block a reader, and links to devices, to the
reader's other files, or to nothing. fl_audit opens such files by `open_foreign`, which accepts only
regular files, and pipes named by a shell. CSV, JSON and TOML are read strictly: errors raise an
`InputError` of one line that names the file. Files are written atomically.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "coins.csv"
...     write_text(path, "canary_id,included\n0,1\n")
...     read_csv(path, ("canary_id", "included"))
[{'canary_id': '0', 'included': '1'}]
"""

import codecs
import contextlib
import csv
import errno
import fcntl
import io
import itertools
import os
import re
import secrets
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from fl_audit.errors import InputError, nearest, refuse_misspelt
from fl_audit.library_words import csv_words, json_words, not_utf8, toml_words
from fl_audit.progress import warn

if TYPE_CHECKING:
    from _csv import _reader

_SHELL_PIPES = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
"""The folders of pipes named by a shell, such as /dev/stdin or `<(zcat …)`."""

_MOST_BYTES = 1 << 28
"""The largest size, in bytes, of a file that is read completely, such as the report of a run."""

_MOST_BYTES_OF_HOLES = 1 << 36
"""The size in bytes above which a file is refused if almost none of it is on the disk."""

_LONGEST_LINE = 1 << 24

_NOT_TEXT = {
    b"PK\x03\x04": "a workbook or another archive, not text; save the sheet as CSV",
    b"PAR1": "Parquet, not text; save it as CSV (scores and tables: or with a name in .parquet)",
    b"\x1f\x8b": "compressed, not text; unpack it",
    b"BZh9": "compressed, not text; unpack it",
}
"""Kinds of files by their first bytes, with advice."""

_KINDS = (
    (stat.S_ISFIFO, "is a pipe"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)


def open_foreign(path: Path) -> io.BufferedReader:
    """Opens a regular file for reading, or a pipe named by a shell.

    Raises OSError if the file cannot be opened, is a folder, device or other pipe, or claims many
    gigabytes with almost no data on the disk.
    """
    # O_NONBLOCK: opening a pipe does not wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        _check_kind(path, found.st_mode)
        taken = 512 * found.st_blocks
        if found.st_size > _MOST_BYTES_OF_HOLES and taken < found.st_size // 1000:
            claim = f"claims a size of {found.st_size:,} bytes, but takes {taken:,} on the disk"
            raise OSError(errno.EFBIG, claim, str(path))
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _check_kind(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode) or (stat.S_ISFIFO(mode) and path.parent in _SHELL_PIPES):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "is no file")
    raise OSError(errno.EINVAL, f"{kind}, must be a regular file", str(path))


def read_foreign(path: Path, most_bytes: int = _MOST_BYTES) -> bytes:
    """Reads a complete file; raises OSError like `open_foreign`, and for too large a file."""
    with open_foreign(path) as file:
        too_large = os.fstat(file.fileno()).st_size > most_bytes
        content = b"" if too_large else file.read(most_bytes + 1)
    if too_large or len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"has more than {most_bytes:,} bytes", str(path))
    return content


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a text with their ends, without a byte order mark.

    The text is UTF-8, or UTF-16 with its mark, as Excel's "Unicode text". Raises OSError like
    `open_foreign`, for a file that is no text, and for a line that is too long.
    """
    with open_foreign(path) as opened:
        start = opened.peek(4)[:4]
        for magic, kind in _NOT_TEXT.items():
            if start.startswith(magic):
                raise OSError(errno.EINVAL, f"is {kind}", str(path))
        is_utf16 = start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        encoding = "utf-16" if is_utf16 else "utf-8-sig"
        with io.TextIOWrapper(opened, encoding=encoding, newline="") as file:
            while line := file.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE:
                    reason = f"has a line of {_LONGEST_LINE:,} characters or more"
                    raise OSError(errno.EFBIG, reason, str(path))
                yield line


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns errors of the block, if the file is unreadable or not UTF-8, into an InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {not_utf8(error)}") from error


@contextlib.contextmanager
def linked_unquoted(path: Path, what: str) -> Iterator[None]:
    """Prevents errors of the block from quoting the target of a link.

    A folder from an untrusted source may link to the reader's private key, whose first line an
    error would show.
    """
    try:
        yield
    except InputError as error:
        if not path.is_symlink() or isinstance(error.__cause__, OSError):
            raise
        raise InputError(
            f"{path}: is a link to {path.readlink()}, which is not {what}; put the file itself "
            "there to see what is wrong with it"
        ) from None


# Writing: a file is written under another name, then renamed.


_UNFINISHED = re.compile(r"\..+\.[a-z0-9_]{8}\.part")
"""The names of files and folders until they are written in full."""


@contextlib.contextmanager
def atomic_writer(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A binary file that replaces `path` when the block ends, or leaves no trace on an error.

    A new file's permissions are `mode` less the umask. A device or a pipe, such as /dev/stdout, is
    written to directly. Unfinished files that killed programs left of `path` are deleted.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as stream:
            yield stream
        return
    delete_unfinished(path)
    temporary, descriptor = _new_file(path, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """An empty folder that appears as `path` when the block ends, or leaves no trace on an error.

    Unfinished folders that killed programs left of `path` are deleted. Raises OSError if `path` is
    a file or a folder that is not empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    delete_unfinished(path)
    start = f".{path.name[:40]}."
    with tempfile.TemporaryDirectory(prefix=start, suffix=".part", dir=path.parent) as parent:
        descriptor = os.open(parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _lock(descriptor)
            new = Path(parent) / path.name
            new.mkdir()
            yield new
            new.rename(path)
        finally:
            os.close(descriptor)


def check_writable(path: Path) -> None:
    """Raises OSError if no file can be created in the folder of `path`; leaves none there."""
    temporary, descriptor = _new_file(path, OWNER_ALONE)
    temporary.unlink()
    os.close(descriptor)


def delete_unfinished(path: Path) -> None:
    """Deletes what killed programs left of `path`; keeps files being written, which are locked."""
    for left in unfinished_files(path.parent):
        if not left.name.startswith(f".{path.name[:40]}.") or left.is_symlink():
            continue
        with contextlib.suppress(OSError):  # it is locked, or gone
            descriptor = os.open(left, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            finally:
                os.close(descriptor)


def _new_file(path: Path, mode: int) -> tuple[Path, int]:
    """A new file in the folder of `path`, and a descriptor, which holds the file's lock."""
    if path.parent in _SHELL_PIPES:  # renamed to /dev/stdout, it would replace that for everybody
        raise OSError(errno.EINVAL, "is redirected to a file; name that file itself", str(path))
    while True:
        temporary = path.parent / f".{path.name[:40]}.{secrets.token_hex(4)}.part"
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        _lock(descriptor)
        if os.fstat(descriptor).st_nlink:  # else it was deleted before it was locked
            return temporary, descriptor
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # a file system without locks, where nothing is deleted
        fcntl.flock(descriptor, fcntl.LOCK_EX)


OWNER_ALONE = 0o600
"""The mode of files with keys, noise or secrets."""


def keep_to_owner(paths: Iterable[Path]) -> None:
    """Makes existing files readable by their owner only."""
    for path in paths:
        if path.exists():
            path.chmod(OWNER_ALONE)


def write_text(path: Path, text: str, mode: int = 0o666) -> None:
    r"""Writes UTF-8 text atomically.

    Bytes of file names that are not UTF-8 are written as escapes such as \udcff.
    """
    with atomic_writer(path, mode) as file:
        file.write(text.encode("utf-8", errors="backslashreplace"))


def append_whole(path: Path, content: bytes) -> None:
    """Appends to a file; after an error, such as a full disk, the file is as before."""
    with path.open("ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            while content:
                content = content[file.write(content) :]
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise


@contextlib.contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Waits for the lock of a file and holds it in the block; the file is created and kept."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        yield


def unfinished_files(folder: Path) -> list[Path]:
    """The files and folders in `folder` that a program is writing, or was when killed."""
    return [path for path in folder.glob(".*") if _UNFINISHED.fullmatch(path.name)]


# CSV, as written by Python, pandas and Excel.


NAMES = ("canary_id", "pair", "arm", "client_id")
"""The columns whose cells are names, also `0,5`."""


@dataclass(frozen=True)
class CsvTable:
    """A CSV: column names without blanks around them, rows, and the rows' line numbers."""

    header: list[str]
    rows: list[list[str]]
    lines: list[int]


def read_csv_table(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    names: Collection[str] = NAMES,
) -> CsvTable:
    """Reads a CSV with at least these columns, each row complete.

    Columns may also be separated by semicolons or tabs, with decimal commas in numbers, except in
    the columns `names`; a warning says so. Refuses a column that is missing, misspelt (if optional)
    or duplicated.
    """
    with reading(path), linked_unquoted(path, f"a CSV file with {', '.join(columns)}"):
        header, reader = open_csv(path, text_lines(path))
        check_header(path, header, columns, optional)
        table = CsvTable(header, [], [])
        for line, row in _whole_rows(path, header, reader):
            table.rows.append(row)
            table.lines.append(line)
        return table if reader.dialect.delimiter == "," else _with_points(path, table, names)


def csv_rows(
    path: Path, file: Iterator[str], columns: Sequence[str], hint: str = ""
) -> Iterator[tuple[int, list[str]]]:
    """Reads a CSV like `read_csv_table`, but row by row, and leaves cells as they are.

    Args:
      path: The name of the file in messages.
      file: The lines of the file.
      columns: The columns, each of which the file must have once.
      hint: What to do about a row with too few or too many fields, for the message.

    Yields:
      The line number of each row, and the cells of `columns`.
    """
    header, reader = open_csv(path, file)
    check_header(path, header, columns)
    at = [header.index(name) for name in columns]
    for line, row in _whole_rows(path, header, reader, hint):
        yield line, [row[position] for position in at]
    if reader.dialect.delimiter != ",":
        say_separator(path)


def _whole_rows(
    path: Path, header: Sequence[str], reader: "_reader", hint: str = ""
) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, with their line numbers; refuses incomplete ones."""
    try:
        for row in filter(None, reader):
            if len(row) != len(header):
                fields = f"must have {len(header)} fields, got {len(row)}{hint}"
                raise InputError(f"{path}, line {reader.line_num}: {fields}")
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {csv_words(error)}") from error


def open_csv(path: Path, lines: Iterator[str]) -> "tuple[list[str], _reader]":
    """The names of the columns, and a reader of the rows below them.

    Raises InputError for a first line of numbers only, a line `sep=…`, or one that is no CSV.
    """
    first = next(lines, "")
    if first.startswith("sep="):
        raise InputError(
            f"{path}, line 1: is {first.strip()!r}, as Excel writes it; delete this line"
        )
    delimiter = separator_of(first)
    reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        got = f"got {first.strip()[:60]!r}"
        raise InputError(
            f"{path}, line 1: must name the columns, with commas between them, {got}"
        ) from error
    if header and all(map(_NUMBER.fullmatch, header)):
        raise InputError(
            f"{path}: has no header: its first line must name the columns, got {first.strip()!r}"
        )
    return header, reader


def separator_of(first_line: str) -> str:
    """The separator of columns: a comma, or the semicolon or tab in a header without commas.

    >>> separator_of("canary_id;included;score")
    ';'
    """
    others = [sign for sign in (";", "\t") if sign in first_line]
    return others[0] if others and "," not in first_line else ","


def say_separator(path: Path, more: str = "") -> None:
    """Reports that a CSV was read as separated by semicolons or tabs."""
    warn(f"{path}: columns are read as separated by semicolons or tabs{more}")


_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_WITH_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")


def is_number(text: str) -> bool:
    """Whether a cell is a number with a decimal point, or without one."""
    return _NUMBER.fullmatch(text) is not None


def plain_header(path: Path) -> tuple[list[str], int] | None:
    """The columns of a CSV that is UTF-8 with commas between columns, and how many lines name them.

    A quoted name may have line breaks. None for a CSV of another kind.

    Raises InputError like `open_csv`, OSError like `text_lines`.
    """
    with open_foreign(path) as file:
        is_utf16 = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    header, reader = open_csv(path, text_lines(path))
    is_plain = not is_utf16 and reader.dialect.delimiter == ","
    return (header, reader.line_num) if is_plain else None


def _with_points(path: Path, table: CsvTable, names: Collection[str]) -> CsvTable:
    """The table with decimal points outside columns of names; refuses both commas and points."""
    at = [position for position, name in enumerate(table.header) if name not in names]
    commas, points = (
        next((n for n, row in enumerate(table.rows) if any(is_one(row[p]) for p in at)), None)
        for is_one in (_WITH_COMMA.fullmatch, _HAS_POINT.fullmatch)
    )
    if commas is not None and points is not None:
        raise InputError(
            f"{path}, line {table.lines[points]}: has a number with a point, and line "
            f"{table.lines[commas]} one with a comma; write all with a decimal point"
        )
    say_separator(path, ", and their decimal commas as points" if commas is not None else "")
    for row in table.rows if commas is not None else ():
        for position in at:
            row[position] = _with_point(row[position])
    return table


_HAS_POINT = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")


def _with_point(text: str) -> str:
    return text.replace(",", ".") if _WITH_COMMA.fullmatch(text) else text


def read_csv(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    names: Collection[str] = NAMES,
) -> list[dict[str, str]]:
    """The rows of a CSV by column, read by `read_csv_table`."""
    table = read_csv_table(path, columns, optional, names)
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def number_in(row: dict[str, str], column: str, path: Path, row_number: int) -> float:
    """The number in a column of a CSV's row; the InputError for another text names both."""
    try:
        if "_" in row[column]:  # Python reads 1_5 as 15
            raise ValueError
        return float(row[column])
    except ValueError as error:
        raise InputError(
            f"{path}, row {row_number}: column `{column}` must be a number, got {row[column]!r}"
        ) from error


def read_flag(text: str) -> bool | None:
    """A flag from a CSV: 0 or 1, also 0.0 or 1.0, or False or True in any case.

    None for other texts.

    >>> [read_flag(text) for text in ("1", "0.0", "True", "FALSE", "yes")]
    [True, False, True, False, None]
    """
    flags = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
    return flags.get(text.strip().casefold())


def read_integer(text: str, largest: int) -> int | None:
    """A whole number from a CSV, from 0 to `largest` and without a sign; None for other texts.

    >>> [read_integer(text, 99) for text in ("7", " 007", "100", "-1", "1.5")]
    [7, 7, None, None, None]
    """
    digits = text.strip().lstrip("0") or text.strip()[-1:]
    is_short = digits.isascii() and digits.isdigit() and len(digits) <= len(str(largest))
    return int(digits) if is_short and int(digits) <= largest else None


def check_header(
    path: Path, header: Sequence[str], columns: Sequence[str], optional: Sequence[str] = ()
) -> None:
    """Raises InputError for a column that is missing, misspelt (if optional) or duplicated."""
    if not header:
        raise InputError(f"{path}: must start with a header naming {', '.join(columns)}")
    refuse_misspelt(f"{path}: column", header, optional)
    for name in columns:
        if name not in header:
            raise InputError(f"{path}: has no column {name!r}: {nearest(name, header)}")
    for name in (*columns, *optional):
        if header.count(name) > 1:
            raise InputError(f"{path}: must have one column {name!r}, got {header.count(name)}")


# JSON


Read = TypeVar("Read")


def read_json(path: Path, kind: type[Read], what: str) -> Read:
    """Reads a JSON file as an object of a type; `what` names it in error messages."""
    with reading(path):
        content = read_foreign(path).removeprefix(codecs.BOM_UTF8)
    return decode_json(content, kind, str(path), what)


def decode_json(content: bytes, kind: type[Read], name: str, what: str) -> Read:
    """Reads JSON text as an object of a type; error messages begin with `name`."""
    import msgspec  # imported here because `benchmarks/gpu.py` uses this module without msgspec

    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError as error:
        raise InputError(f"{name}: is not {what}: is nested too deeply") from error
    except (msgspec.MsgspecError, ValueError) as error:
        words = json_words(error, getattr(kind, "__struct_fields__", ()))
        raise InputError(f"{name}: is not {what}: {words}") from error


# TOML


_LARGEST = 2**64 - 1
_MOST_BITS_SHOWN = 2_000
_DEEPEST = 20
_MOST_TOML_BYTES = 1 << 22


def check_format_version(path: Path, version: object, known: int) -> None:
    if version != known:
        raise InputError(f"{path}: format_version is {version!r}, must be {known}")


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file; refuses deep nesting, numbers beyond 64 bits and text with a null byte."""
    try:
        text = read_foreign(path, _MOST_TOML_BYTES).decode("utf-8-sig")
    except OSError as error:
        inside = path / "config.toml"
        rather = f"; give {inside}" if inside.exists() else ""
        raise InputError(f"{path}: cannot be read: {error.strerror}{rather}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not TOML: {not_utf8(error, '')}") from error
    return parse_toml(text, str(path))


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Reads TOML text like `read_toml`; error messages begin with `name`."""
    try:
        table = tomllib.loads(text)
    except RecursionError as error:
        raise InputError(f"{name}: is not TOML: is nested too deeply") from error
    except ValueError as error:
        raise InputError(f"{name}: is not TOML: {toml_words(error)}") from error
    check_values(table, name)
    return table


def check_values(table: dict[str, Any], name: str) -> None:
    """Refuses integers beyond 64 bits, text with a null byte, and too deep nesting in a table."""
    _check(table, name, (), 0)


def _check(value: Any, name: str, path: tuple[str, ...], depth: int) -> None:
    key = f"{name}: key `{'.'.join(path)}`"
    if depth > _DEEPEST:
        raise InputError(f"{key}: is nested too deeply")
    if isinstance(value, dict):
        for part, inner in value.items():
            _check(inner, name, (*path, part), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, name, path, depth + 1)
    elif isinstance(value, int) and abs(value) > _LARGEST:
        bits = value.bit_length()  # Python writes no number of many thousand digits
        got = value if bits <= _MOST_BITS_SHOWN else f"one of {bits:,} bits"
        raise InputError(f"{key}: must be a whole number within 64 bits, got {got}")
    elif isinstance(value, str) and "\0" in value:
        raise InputError(f"{key}: must be text without a null byte, got {value!r}")
