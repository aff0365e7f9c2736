"""`fl-audit release`: the release sheet of a finished run."""

import argparse
from pathlib import Path

from fl_audit.commands import exit_status
from fl_audit.commands.parser import Commands, add_command, output_file
from fl_audit.commands.printing import (
    add_commitment,
    print_json,
    print_lines,
    scoring_progress,
    write_page,
)
from fl_audit.errors import InputError
from fl_audit.progress import warn


def add(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _release,
        name="release",
        summary="write the release sheet of a finished run: two pages for a release board",
        description=(
            "Verify a run's folder, and write what a release board asks of a model: unit of "
            "privacy, trust model, every access to the data, guarantee, verdict, residual risks, "
            "each with its evidence. What only you can say comes from the table [release] of the "
            "run's config, or of --statement FILE; the rest is read from the run's folder. A "
            "missing field is printed as not stated or not audited. Exits with status 1, and "
            "writes nothing, if something in the folder does not fit."
        ),
        example="fl-audit release runs/first --out sheet.html --statement statement.toml",
    )
    parser.add_argument("folder", metavar="RUN", type=Path, help="the folder of a finished run")
    parser.add_argument("--out", metavar="FILE.html", type=output_file, help="the sheet to write")
    parser.add_argument(
        "--statement",
        metavar="FILE.toml",
        type=Path,
        help="a file with a table [release]; its keys take precedence over the config's",
    )
    add_commitment(parser)
    parser.add_argument(
        "--model-card", metavar="FILE.md", type=output_file, help="write a section of a model card"
    )
    parser.add_argument("--json", action="store_true", help="print a registry's entry")


def _release(arguments: argparse.Namespace) -> int:
    """Verifies the run; writes its sheet and model card section, prints the registry's entry."""
    from fl_audit.formats.folders import RunFolder
    from fl_audit.release_sheet.documents import model_card
    from fl_audit.release_sheet.from_run import (
        read_provenance,
        read_statement,
        sheet_of_run,
        statement_of,
    )
    from fl_audit.release_sheet.registry_entry import parameters_of, registry_entry
    from fl_audit.release_sheet.sheet import render_sheet
    from fl_audit.release_sheet.sweep_price import sweep_around
    from fl_audit.verification import verify_folder

    if arguments.out is None and arguments.model_card is None and not arguments.json:
        raise InputError(
            "--out, --model-card or --json: give at least one; nothing would be written"
        )
    given = None if arguments.statement is None else read_statement(arguments.statement)
    folder = RunFolder(arguments.folder)
    if not folder.report_json.exists():
        raise InputError(f"{folder.path}: holds no finished run ({folder.report_json.name})")
    verified = verify_folder(folder.path, arguments.commitment, scoring_progress)
    report = verified.report
    if report is None:
        for finding in verified.findings:
            warn(str(finding))
        warn(f"{folder.path}: its files do not fit together, so no release sheet is written")
        return exit_status.BROKEN
    statement = statement_of(report.config, given)
    sweep = sweep_around(folder.path, report.delta)
    sheet = sheet_of_run(report, statement, read_provenance(folder, verified), sweep)
    if arguments.out is not None:
        write_page(render_sheet(sheet), arguments.out)
    if arguments.model_card is not None:
        write_page(model_card(sheet, report), arguments.model_card)
    if arguments.json:
        finished = "" if report.run is None else report.run.finished.partition("T")[0]
        print_json(registry_entry(sheet, statement, parameters_of(report), finished))
        return 0
    written = {"release sheet": arguments.out, "model card": arguments.model_card}
    left = ", ".join(verified.not_made_again)
    print_lines(
        [f"verification: {verified.outcome}{f' (not computed again: {left})' * bool(left)}"]
    )
    print_lines([f"{what}: {path}" for what, path in written.items() if path is not None])
    return 0
