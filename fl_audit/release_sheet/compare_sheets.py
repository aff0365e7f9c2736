"""Compares a written release sheet with the sheet computed from its run.

The operator's statements are read from the page, which must equal the sheet computed with these
statements.
"""

import dataclasses
import difflib
from html.parser import HTMLParser
from pathlib import Path

import msgspec

from fl_audit.attacks.threat_models import STATISTICS
from fl_audit.config import ReleaseStatement
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import read_foreign, reading
from fl_audit.release_sheet.from_run import (
    STATED,
    read_not_made_again,
    read_provenance,
    sheet_of_run,
)
from fl_audit.release_sheet.sheet import KEY_OF_STATED, LABELS, ReleaseSheet, render_sheet
from fl_audit.release_sheet.sweep_price import sweep_around
from fl_audit.verification import Verified

Row = tuple[str, str, str]
"""A field's label, a statement, and its evidence."""

_STATED_IN = {label: key for key, label in LABELS.items()} | {
    LABELS[key]: name for name, key in KEY_OF_STATED.items()
}
"""The key of an operator's statement, by the label of the field that prints it."""


class _Page(HTMLParser):
    """Reads the title and the rows of a sheet's page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self._heading: list[str] = []
        self._cells: list[str] | None = None
        self._label = ""
        self.feed(text)
        self.title = " ".join(self._heading)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self._cells = []
        elif tag in ("td", "th") and self._cells is not None:
            self._cells.append("")

    def handle_data(self, data: str) -> None:
        if self._cells:
            self._cells[-1] += data
        elif self.lasttag == "h1":
            self._heading += data.split()

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and self._cells is not None:
            if len(self._cells) == 3:
                label, text, evidence = (" ".join(cell.split()) for cell in self._cells)
                self._label = label or self._label
                self.rows.append((self._label, text, evidence))
            self._cells = None

    def statement(self) -> ReleaseStatement:
        """The operator's statements on the page."""
        stated = {
            _STATED_IN.get(label, label): text
            for label, text, evidence in self.rows
            if evidence == STATED
        }
        known = {key: stated[key] for key in ReleaseStatement.__struct_fields__ if key in stated}
        named: ReleaseStatement = msgspec.structs.replace(ReleaseStatement(), name=self.title)
        return msgspec.structs.replace(named, **known)


def verify_sheet(path: Path, folder: RunFolder, verified: Verified) -> None:
    """Adds to a verification the differences between a written and the computed sheet.

    The written sheet is not read if the verification has findings already, or is one of a log.
    """
    report = verified.report
    if verified.outcome == "broken" or report is None:
        return
    with reading(path):
        text = read_foreign(path).decode("utf-8")
    page = _Page(text)
    if not page.rows[1:]:
        raise InputError(f"{path}: is no release sheet: it has no rows of three cells")
    sweep = sweep_around(folder.path, report.delta)
    provenance = read_provenance(folder, verified)
    if (left := _not_made_again(page, folder, verified)) is not None:
        provenance = dataclasses.replace(provenance, not_made_again=left)
        if more := [name for name in verified.not_made_again if name not in left]:
            verified.note(
                f"{path.name}: its writer also computed again what was not possible here: "
                f"{', '.join(more)}"
            )
    sheet = sheet_of_run(report, page.statement(), provenance, sweep)
    for words in _differences(page, text, sheet):
        verified.add(path, words)


def _not_made_again(page: _Page, folder: RunFolder, verified: Verified) -> tuple[str, ...] | None:
    """What the sheet's writer could not recompute, by the page; None if the page does not say it.

    Another processor, or a withheld secret, can make it differ from what could be recomputed here.
    """
    known = {path.name for path in folder.path.iterdir() if " " not in path.name}
    known |= {f"{folder.compared_vectors.name}: {name}" for name in STATISTICS}
    known |= {folder.commitment.name, *verified.not_made_again}
    said = [text for label, text, _ in page.rows if label == LABELS["verified"]]
    return read_not_made_again(said[0], known) if said else None


def _differences(page: _Page, text: str, sheet: ReleaseSheet) -> list[str]:
    """The differences between a page and the computed sheet, in words."""
    rendered = render_sheet(sheet)
    written, follows = page.rows[1:], _Page(rendered).rows[1:]
    differences = [
        f"`{label}` says {stated!r} ({evidence}), which does not follow from the run"
        for label, stated, evidence in written
        if (label, stated, evidence) not in follows
    ]
    differences += [
        f"`{label}` lacks {stated!r} ({evidence})"
        for label, stated, evidence in follows
        if (label, stated, evidence) not in written
    ]
    words, derived = text.split(), rendered.split()
    if differences or words == derived:
        return differences
    changes = difflib.SequenceMatcher(None, words, derived, autojunk=False).get_opcodes()
    _, start, end, *_ = next(change for change in changes if change[0] != "equal")
    return [
        f"has {' '.join(words[start : max(end, start + 1)])!r}, which does not follow from the run"
    ]
