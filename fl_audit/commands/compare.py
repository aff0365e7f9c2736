"""`fl-audit compare`: comparison of finished runs."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands.parser import add_command
from fl_audit.commands.printing import (
    add_verbose,
    print_json,
    print_lines,
    scoring_progress,
    write_page,
)

if TYPE_CHECKING:
    from fl_audit.commands.parser import Commands


def add(commands: "Commands") -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _compare,
        name="compare",
        summary="a table and plots side by side over finished runs",
        description=(
            "Lay finished runs side by side: participation patterns, noise levels. Runs are named "
            "by the config keys that differ; runs that differ in their seed alone are repetitions."
        ),
    )
    parser.add_argument(
        "folders",
        metavar="DIR",
        type=Path,
        nargs="+",
        help="of a finished run, a log, or scores_*.csv",
    )
    parser.add_argument(
        "--delta",
        type=float,
        help="of estimates from folders that are no runs; default: that of the runs",
    )
    parser.add_argument("--out", metavar="FILE.html", type=Path, help="write a page with plots")
    add_verbose(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _compare(arguments: argparse.Namespace) -> int:
    from fl_audit.comparison import compare, comparison_json, render_comparison
    from fl_audit.comparison.tables import brief_lines, comparison_lines

    comparison = compare(arguments.folders, arguments.delta, scoring_progress)
    if arguments.json:
        print_json(comparison_json(comparison))
    else:
        lines = comparison_lines if arguments.verbose else brief_lines
        print_lines(lines(comparison))
    if arguments.out is not None:
        sys.stdout.flush()
        write_page(render_comparison(comparison), arguments.out)
        print(f"page: {arguments.out}", file=sys.stderr if arguments.json else sys.stdout)
    return 0
