"""The release sheet as a page that prints on two sheets of A4."""

from fl_audit.release_sheet.sheet import NOT_AUDITED, NOT_STATED, ReleaseSheet
from fl_audit.report.page import render


def render_sheet(sheet: ReleaseSheet) -> str:
    """Renders the page of a sheet, which refers to no other file."""
    context = {"sheet": sheet, "silent": (NOT_STATED, NOT_AUDITED)}
    return render("fl_audit.release_sheet", "sheet.html", context)
