"""Printing of JSON objects, of reports and of verdicts."""

import json
import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fl_audit.report import Report
    from fl_audit.verdict import Claim


def print_report(report: "Report", out: Path) -> None:
    """Prints a run's report as lines of text, and the path of its page."""
    from fl_audit.formats.run_folder import RunFolder
    from fl_audit.report import summary_lines
    from fl_audit.verdict import Claim

    width = shutil.get_terminal_size((100, 24)).columns
    print("\n".join(summary_lines(report, width)))
    print(f"report: {RunFolder(out).report_html}")
    if (verdict := report.verdict) is not None:
        claim = Claim(verdict.claimed_epsilon, report.run.delta)
        print("\n".join(verdict_lines(claim, verdict.outcome, verdict.reason)))


def verdict_lines(claim: "Claim", outcome: str, reason: str) -> list[str]:
    """The outcome of a verdict in one line, with the reason below it."""
    line = f"verdict: {outcome.upper()}, claimed epsilon {claim.epsilon:g} at delta {claim.delta:g}"
    width = max(min(shutil.get_terminal_size((100, 24)).columns, 100), 40)
    return ["", line, *(f"  {part}" for part in textwrap.wrap(f"{reason}.", width - 2))]


def print_json(value: dict[str, object]) -> None:
    """Prints one JSON object, whose infinities have to be words."""
    print(json.dumps(value, allow_nan=False))
