"""`fl-audit show`: the report of a finished run."""

import argparse
import webbrowser
from pathlib import Path

from fl_audit.commands.parser import Commands, add_command
from fl_audit.commands.printing import add_verbose, print_report
from fl_audit.formats.folders import RunFolder


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        _show,
        name="show",
        summary="print the report of a finished run, or open its page",
        description="Print what `run` printed at its end, from the folder of a finished run.",
        example="fl-audit show runs/first --verbose",
    )
    parser.add_argument("folder", metavar="RUN", type=Path, help="the folder of a finished run")
    add_verbose(parser)
    parser.add_argument("--open", action="store_true", help="open report.html in a browser")


def _show(arguments: argparse.Namespace) -> int:
    from fl_audit.comparison import read_report

    folder = RunFolder(arguments.folder)
    report = read_report(folder)
    print_report(report, folder.report_html, arguments.verbose)
    if arguments.open:
        webbrowser.open(folder.report_html.resolve().as_uri())
    return 0
