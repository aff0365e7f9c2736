"""`fl-audit compare`: comparison of finished runs."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands import exit_status, printing
from fl_audit.commands.parser import Commands, add_command, output_file

if TYPE_CHECKING:
    from fl_audit.comparison import Comparison


def add(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _compare,
        name="compare",
        summary="tables and plots over finished runs",
        description=(
            "Compare finished runs or logs, for example of several participation patterns or noise "
            "levels. A setting is named by the config keys that differ; runs that differ only in "
            "their seed are repetitions of one setting. With --require no-worse, exits with status "
            "5 if the first run leaks significantly more than the second."
        ),
        example="fl-audit compare runs/grid/runs/* --out compare.html --csv results.csv",
    )
    parser.add_argument(
        "folders",
        metavar="DIR",
        type=Path,
        nargs="+",
        help="folder of a finished run, of a log, or with scores_*.csv",
    )
    parser.add_argument(
        "--delta",
        type=float,
        help="delta of folders other than runs; default: the runs' delta",
    )
    parser.add_argument(
        "--out", metavar="FILE.html", type=output_file, help="write a page with plots"
    )
    parser.add_argument(
        "--csv",
        metavar="FILE",
        type=output_file,
        help="write a row for each run, statistic and method",
    )
    parser.add_argument(
        "--latex", metavar="FILE", type=output_file, help="write a table for LaTeX, with booktabs"
    )
    parser.add_argument(
        "--require",
        choices=("no-worse",),
        help="NEW OLD: exit with status 5 if NEW leaks significantly more, by the interval of the "
        "difference of their estimates",
    )
    printing.add_verbose(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _compare(arguments: argparse.Namespace) -> int:
    from fl_audit.comparison import compare, comparison_json, difference_to_last
    from fl_audit.comparison.as_text import brief_lines, comparison_lines
    from fl_audit.comparison.ranking import attackers_of
    from fl_audit.json_records import to_json

    comparison = compare(arguments.folders, arguments.delta, printing.scoring_progress)
    difference = difference_to_last(comparison) if arguments.require else None
    if arguments.json:
        further = {} if difference is None else {"no_worse": to_json(difference)}
        if attackers := attackers_of(comparison):
            further["patterns"] = to_json(attackers)
        printing.print_json(comparison_json(comparison) | further)
    else:
        lines = comparison_lines if arguments.verbose else brief_lines
        printing.print_lines(lines(comparison))
        printing.print_lines([] if difference is None else [difference.words])
    sys.stdout.flush()
    _write_files(comparison, arguments)
    return exit_status.WORSE if difference is not None and difference.is_worse else 0


def _write_files(comparison: "Comparison", arguments: argparse.Namespace) -> None:
    """Writes the requested page and tables, and prints their paths."""
    from fl_audit import comparison as written  # without the packages of pages until one is asked

    files: tuple[tuple[str, str, Path | None, Callable[[], str]], ...] = (
        ("page", "--out", arguments.out, lambda: written.render_comparison(comparison)),
        ("table", "--csv", arguments.csv, lambda: written.csv_text(comparison.records())),
        ("table", "--latex", arguments.latex, lambda: written.latex_table(comparison)),
    )
    for name, option, path, text in files:
        if path is not None:
            printing.write_page(text(), path, option)
            printing.print_path(name, path, is_json=arguments.json)
