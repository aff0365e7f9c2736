"""What commands print: one JSON object, or the lines of a report."""

import json
from pathlib import Path
from typing import Any


def print_report(report: dict[str, Any], out: Path) -> None:
    """Print a run's report as lines of text, and where it is."""
    from fl_audit.report import summary_lines
    from fl_audit.run_folder import RunFolder

    print("\n".join(summary_lines(report)))
    print(f"report: {RunFolder(out).report_html}")


def print_json(value: dict[str, object]) -> None:
    """Print one JSON object; infinities in it are words already."""
    print(json.dumps(value, allow_nan=False))
