"""`fl-audit release`: the release sheet of a finished run."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands.parser import add_command
from fl_audit.commands.printing import print_json, print_lines, write_page
from fl_audit.errors import InputError

if TYPE_CHECKING:
    from fl_audit.commands.parser import Commands


def add(commands: "Commands") -> None:
    parser = add_command(
        commands,
        _release,
        name="release",
        summary="write the release sheet of a finished run: two pages for a release board",
        description=(
            "Write what a release board asks of a model: unit of privacy, trust model, every "
            "access to the data, guarantee, verdict, residual risks, each with its evidence. What "
            "only you can say comes from the table [release] of the run's config, or of "
            "--statement FILE; the rest is read from the run's folder. A missing field is printed "
            "as not stated or not audited."
        ),
        example="fl-audit release runs/first --out sheet.html --statement statement.toml",
    )
    parser.add_argument("folder", metavar="RUN", type=Path, help="the folder of a finished run")
    parser.add_argument("--out", metavar="FILE.html", type=Path, help="the sheet to write")
    parser.add_argument(
        "--statement",
        metavar="FILE.toml",
        type=Path,
        help="a file with a table [release]; its keys take precedence over the config's",
    )
    parser.add_argument("--json", action="store_true", help="print a registry's entry")


def _release(arguments: argparse.Namespace) -> int:
    """Reads the run and its release statement; writes the page, prints the entry."""
    from fl_audit.comparison import read_report
    from fl_audit.formats.folders import RunFolder
    from fl_audit.release_sheet.from_run import (
        read_provenance,
        read_statement,
        sheet_of_run,
        statement_of,
    )
    from fl_audit.release_sheet.registry import parameters_of, registry_entry
    from fl_audit.release_sheet.selection import sweep_around
    from fl_audit.release_sheet.sheet import render_sheet

    if arguments.out is None and not arguments.json:
        raise InputError("--out or --json is needed: there is nothing to write or print else")
    given = None if arguments.statement is None else read_statement(arguments.statement)
    folder = RunFolder(arguments.folder)
    report = read_report(folder)
    statement = statement_of(report.config, given)
    sweep = sweep_around(folder.path, report.delta)
    sheet = sheet_of_run(report, statement, read_provenance(folder), sweep)
    if arguments.out is not None:
        write_page(render_sheet(sheet), arguments.out)
    if arguments.json:
        print_json(registry_entry(sheet, statement, parameters_of(report)))
    else:
        print_lines([f"release sheet: {arguments.out}"])
    return 0
