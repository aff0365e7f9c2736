"""`fl-audit compare`: comparison of finished runs."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands.parser import add_command
from fl_audit.commands.printing import print_json
from fl_audit.errors import InputError

if TYPE_CHECKING:
    from fl_audit.commands.parser import Commands
    from fl_audit.comparison import Comparison


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
    parser.add_argument("folders", metavar="DIR", type=Path, nargs="+", help="of a finished run")
    parser.add_argument("--out", metavar="FILE.html", type=Path, help="write a page with plots")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _compare(arguments: argparse.Namespace) -> int:
    from fl_audit.comparison import compare, comparison_json, comparison_lines

    comparison = compare(arguments.folders)
    if arguments.out is not None:
        _write_page(comparison, arguments.out)
    if arguments.json:
        print_json(comparison_json(comparison))
    else:
        print("\n".join(comparison_lines(comparison)))
    if arguments.out is not None:
        print(f"page: {arguments.out}", file=sys.stderr if arguments.json else sys.stdout)
    return 0


def _write_page(comparison: "Comparison", path: Path) -> None:
    from fl_audit.comparison import render_comparison
    from fl_audit.formats.atomic import write_text

    try:
        write_text(path, render_comparison(comparison))
    except OSError as error:
        raise InputError(f"--out {path}: cannot be written: {error.strerror}") from error
