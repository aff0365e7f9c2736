"""Compares a written release sheet with the one that its run gives now."""

import dataclasses
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from fl_audit.comparison import read_report
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import read_foreign
from fl_audit.release_sheet.from_run import STATED, read_provenance, sheet_of_run, statement_of
from fl_audit.release_sheet.selection import sweep_around
from fl_audit.release_sheet.sheet import NOT_STATED, ReleaseSheet
from fl_audit.verification import Finding, Verified

Row = tuple[str, str, str]
"""A field's label, a statement, and its evidence."""


class _Rows(HTMLParser):
    """Reads the rows of a sheet's page."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self._cells: list[str] | None = None
        self._label = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self._cells = []
        elif tag in ("td", "th") and self._cells is not None:
            self._cells.append("")

    def handle_data(self, data: str) -> None:
        if self._cells:
            self._cells[-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and self._cells is not None:
            if len(self._cells) == 3:
                label, text, evidence = (" ".join(cell.split()) for cell in self._cells)
                self._label = label or self._label
                self.rows.append((self._label, text, evidence))
            self._cells = None


def _rows(sheet: ReleaseSheet) -> Iterator[Row]:
    for section in sheet.sections:
        for field in section.fields:
            for line in field.lines:
                yield field.label, " ".join(line.text.split()), line.evidence


def _is_stated(row: Row) -> bool:
    """Whether a row is a statement of the operator, or says that there is none."""
    return row[2] == STATED or (not row[2] and NOT_STATED in row[1])


def verify_sheet(path: Path, folder: RunFolder, verified: Verified) -> Verified:
    """Adds the differences between a written sheet and its run to a verification.

    The sheet is not read if the verification has findings.

    Raises:
      InputError: The page cannot be read, or is no release sheet.
    """
    if verified.outcome == "broken":
        return verified
    report = read_report(folder)
    sweep = sweep_around(folder.path, report.delta)
    statement = statement_of(report.config, None)
    sheet = sheet_of_run(report, statement, read_provenance(folder, verified), sweep)
    wrong = (Finding(path.name, words) for words in sheet_differences(path, sheet))
    return dataclasses.replace(verified, findings=tuple(wrong))


def sheet_differences(path: Path, sheet: ReleaseSheet) -> list[str]:
    """The differences between a page and a sheet, in words, without the operator's statements.

    Raises:
      InputError: The page cannot be read, or is no release sheet.
    """
    reader = _Rows()
    try:
        reader.feed(read_foreign(path).decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    written = [row for row in reader.rows[1:] if not _is_stated(row)]
    if not written:
        raise InputError(f"{path}: is no release sheet: it has no rows of three cells")
    follows = [row for row in _rows(sheet) if not _is_stated(row)]
    lines = [
        f"`{label}` says {text!r} ({evidence}), which does not follow"
        for label, text, evidence in written
        if (label, text, evidence) not in follows
    ]
    lines += [f"`{row[0]}` lacks {row[1]!r} ({row[2]})" for row in follows if row not in written]
    return lines
