"""What commands print: one JSON object, or the lines of a report."""

import json
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def print_report(report: dict[str, Any], out: Path) -> None:
    """Print a run's report as lines of text, and where it is."""
    from fl_audit.formats.run_folder import RunFolder
    from fl_audit.report import summary_lines

    width = shutil.get_terminal_size((100, 24)).columns
    print("\n".join(summary_lines(report, width)))
    print(f"report: {RunFolder(out).report_html}")
    for line in verdict_lines(report["verdict"]):
        print(line)


def verdict_lines(verdict: Mapping[str, Any] | None) -> list[str]:
    """A verdict in one line, and its reason; nothing without a claim."""
    if verdict is None:
        return []
    line = (
        f"verdict: {verdict['outcome'].upper()}, claimed epsilon {verdict['claimed_epsilon']:g} "
        f"at delta {verdict['claimed_delta']:g}"
    )
    width = max(min(shutil.get_terminal_size((100, 24)).columns, 100), 40)
    reason = textwrap.wrap(f"{verdict['reason']}.", width - 2)
    return ["", line, *(f"  {part}" for part in reason)]


def print_json(value: dict[str, object]) -> None:
    """Print one JSON object; infinities in it are words already."""
    print(json.dumps(value, allow_nan=False))
