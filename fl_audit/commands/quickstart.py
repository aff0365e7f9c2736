"""`fl-audit quickstart`: an audit from start to end on a small real task."""

import argparse
from pathlib import Path

from fl_audit.commands.parser import Commands, add_command
from fl_audit.commands.printing import add_verbose, print_report


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        _quickstart,
        name="quickstart",
        summary="two small audits end to end, in minutes, no download",
        description="Audit two small runs, one without noise and one with, and report on both.",
        example="fl-audit quickstart",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="default: the first free runs/quickstart-N"
    )
    add_verbose(parser)


def _quickstart(arguments: argparse.Namespace) -> int:
    from fl_audit.formats.folders import RunFolder
    from fl_audit.pipeline import quickstart

    out = arguments.out or quickstart.free_folder(Path("runs"))
    reports = quickstart.run(out)
    for noise_multiplier, report in reports.items():
        print(f"noise multiplier {noise_multiplier:g}")
        page = RunFolder(out / quickstart.folder_name(noise_multiplier)).report_html
        print_report(report, page, arguments.verbose)
        print()
    print(quickstart.comparison(reports))
    print("\nNoise is new in every run, so a second quickstart gives other numbers.")
    return 0
