r"""Rewords parsers' errors for users.

Each function takes a message of one library (msgspec, tomllib, csv, PyArrow, argparse) and keeps
the location in it.
"""

import csv
import re
from collections.abc import Callable, Iterable, Mapping

from fl_audit.errors import nearest

# msgspec: a value of another type, or out of range.

_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
    "date": "a date",
    "datetime": "a date",
    "time": "a time",
}
_EVEN = " that's a multiple of 2"
_SIGNS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_TYPE = r"`([a-z]+(?: \| [a-z]+)*)`"
_EXPECTED = re.compile(rf"Expected {_TYPE}(?:( of length)? ([<>]=?) (\S+?))?(?:, got {_TYPE})?")
_NOT_ONE_OF = "Invalid enum value "
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`")


def type_words(message: str, known: Iterable[str] = (), got: str = "") -> str:
    """Rewords msgspec's message on a value, without the value's location.

    `known` are the allowed keys, for a hint on an unknown key; `got` is the value, if known.

    >>> type_words("Expected `int`, got `str`", got="'many'")
    "must be a whole number, got 'many'"
    >>> type_words("Expected `float` > 0.0", got="-1")
    'must be a number above 0, got -1'
    >>> type_words("Expected `int` that's a multiple of 2", got="7")
    'must be an even number, got 7'
    >>> type_words("Object contains unknown field `naem`", ["name", "kind"])
    "unknown key `naem`; did you mean 'name'?"
    >>> type_words("Invalid enum value 'sqr'")
    "unknown 'sqr'"
    """
    if field := _FIELD.fullmatch(message):
        what, name = field.groups()
        if what == "missing required":
            return f"lacks the key `{name}`"
        hint = f"; {nearest(name, known)}" if known else ""
        return f"unknown key `{name}`{hint}"
    if message.startswith(_NOT_ONE_OF):
        return f"unknown {message.removeprefix(_NOT_ONE_OF)}"
    if message.endswith(_EVEN):
        return f"must be an even number, got {got}" if got else "must be an even number"
    if (expected := _EXPECTED.fullmatch(message)) is None:
        return message if not got or "got" in message else f"{message}, got {got}"
    kind, is_length, sign, limit, got_kind = expected.groups()
    words = f"must be {_kinds(kind)}"
    if sign is not None:
        size = f"{_SIGNS[sign]} {limit.removesuffix('.0')}"
        words += f" {size} items" if is_length else f" {size}"
    said = got or ("" if got_kind is None else _kinds(got_kind))
    return f"{words}, got {said}" if said else words


def json_words(error: Exception, known: Iterable[str] = ()) -> str:
    """Rewords msgspec's message on JSON, the key first; `known` as in `type_words`.

    >>> json_words(ValueError("Expected `int`, got `str` - at `$.pool.seed`"))
    'key `pool.seed`: must be a whole number, got text'
    """
    if isinstance(error, UnicodeDecodeError):
        return not_utf8(error, "")
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    said, _, place = str(error).partition(" - at `$")
    key = place.strip("`.")
    words = type_words(said, known)
    return f"key `{key}`: {words}" if key else words


def _kinds(names: str) -> str:
    kinds = [_TYPES.get(name, name) for name in names.split(" | ") if name != "null"]
    return " or ".join(kinds) or "nothing"


# tomllib

_TOML = {
    "Invalid value": "this is no value; text needs double quotes",
    "Expected '=' after a key": "a key must be followed by = and its value",
    "Expected newline or end of document": "there is more after the value; one key per line",
    "Invalid statement": "this is no `key = value`, no [section] and no # comment",
    "Invalid initial character for a key": "a key must be of letters, digits, _ and -",
    "Illegal character '\\n'": "a text is not closed by its quote before the end of the line",
    'Expected "\'"': "a text is opened by ' and never closed",
    "Found invalid character": "this is no character of TOML",
    "Unterminated string": "a text is opened by a quote and never closed",
    "Unclosed array": "a list is opened by [ and never closed",
    "Unclosed inline table": "a table is opened by { and never closed",
    "Expected ']'": "a [section] must end with ]",
    "Cannot overwrite a value": "this key is given twice",
    "Cannot declare": "this section is given twice",
    "Exceeds the limit": "it has a number of more than 4,300 digits",
}
_PLACE = re.compile(r"(.*?) \((at .*)\)", re.DOTALL)


def toml_words(error: ValueError) -> str:
    """Rewords tomllib's message, with the location first.

    >>> toml_words(ValueError("Invalid value (at line 6, column 11)"))
    'at line 6, column 11: this is no value; text needs double quotes'
    """
    placed = _PLACE.fullmatch(str(error))
    said, place = placed.groups() if placed else (str(error), "")
    words = _first(_TOML, said, str.startswith)
    return f"{place}: {words}" if place else words


# csv

_CSV = {
    "unexpected end of data": "a double quote is opened and never closed",
    "expected after": "a double quote ends within a field; write two for one in a text",
    "NUL": "has a null byte",
    "new-line character": "has a carriage return in a field without quotes",
    "field larger": "has a field of more than 131,072 characters",
}


def csv_words(error: csv.Error) -> str:
    """Rewords the message of Python's csv on a row.

    >>> csv_words(csv.Error("unexpected end of data"))
    'is not CSV: a double quote is opened and never closed'
    """
    return f"is not CSV: {_first(_CSV, str(error), str.__contains__)}"


_FIELDS = re.compile(r".*?(?:Row #(\d+): )?Expected (\d+) columns, got (\d+).*", re.DOTALL)


def arrow_words(error: Exception, header_lines: int = 1) -> str:
    """Rewords PyArrow's message on a CSV, whose header has this many lines, or a Parquet table.

    >>> arrow_words(ValueError("CSV parse error: Row #4: Expected 3 columns, got 2: 1,2"))
    'row 3 below the header: must have 3 fields, got 2'
    """
    if (found := _FIELDS.fullmatch(str(error))) is None:
        return "is damaged, or no CSV or Parquet table"
    row, expected, got = found.groups()
    where = "a row" if row is None else f"row {int(row) - header_lines} below the header"
    return f"{where}: must have {expected} fields, got {got}"


def not_utf8(error: UnicodeDecodeError, hint: str = " (in Excel: CSV UTF-8)") -> str:
    """Words for a text that is not UTF-8."""
    bad = error.object[error.start : error.start + 1].hex()
    return f"must be UTF-8 text{hint}, has the byte 0x{bad}"


# argparse

_ARGUMENTS: Mapping[str, Callable[[re.Match[str]], str]] = {
    r"(.*): invalid int value: (.*)": lambda m: f"{m[1]}: must be a whole number, got {m[2]}",
    r"(.*): invalid float value: (.*)": lambda m: f"{m[1]}: must be a number, got {m[2]}",
    r"(.*): invalid choice: (.*) \(choose from (.*)\)": lambda m: (
        f"{m[1]}: unknown {m[2]}; {nearest(m[2].strip(chr(39)), _names(m[3]))}"
    ),
    r"(.*): expected (?:one|at least one) argument": lambda m: f"{m[1]}: needs a value after it",
    r"(.*): ignored explicit argument (.*)": lambda m: f"{m[1]}: takes no value, got {m[2]}",
    r"the following arguments are required: (.*)": lambda m: f"required and not given: {m[1]}",
    r"unrecognized arguments: (.*)": lambda m: f"one argument too many: {m[1]}",
}


def _names(choices: str) -> list[str]:
    return [name.strip("' ") for name in choices.split(",")]


def argument_words(message: str) -> str:
    """Rewords argparse's message on an argument.

    >>> argument_words("argument --dim: invalid int value: '1.5'")
    "argument --dim: must be a whole number, got '1.5'"
    >>> argument_words("argument --null: invalid choice: 'x' (choose from 'empirical', 'closed')")
    "argument --null: unknown 'x'; known: closed, empirical"
    """
    for pattern, words in _ARGUMENTS.items():
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return words(found)
    return message


def _first(words: Mapping[str, str], said: str, fits: Callable[[str, str], bool]) -> str:
    """The words for the first key that fits a message, else the message."""
    return next((ours for part, ours in words.items() if fits(said, part)), said)
