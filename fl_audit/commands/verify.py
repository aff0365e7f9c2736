"""`fl-audit verify`: whether a folder's results follow from its logs."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

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
from fl_audit.progress import hint

if TYPE_CHECKING:
    from fl_audit.formats.folders import RunFolder
    from fl_audit.verification import Verified

EXIT_OF = {"held": 0, "broken": exit_status.BROKEN, "partly": exit_status.PARTLY}
"""The exit status of each outcome."""

_WORDS = {
    "held": "held: what the folder says follows from its logs",
    "partly": "partly: nothing is wrong, but part of the verdict's basis was not computed again",
}


def add(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _verify,
        name="verify",
        summary="compute a folder's numbers again from its logs",
        description=(
            "Compute the numbers of report.json again from a folder's logs and models, without "
            "data and without TensorFlow, and name what does not fit: a changed digit, a dropped, "
            "repeated or moved round, another seed, a claim or statistic that was chosen "
            "afterwards. Exits with status 1 if something does not fit, and with status 5 if files "
            "could not be computed again, so that only the chain of digests covers them."
        ),
        example="fl-audit verify runs/first --commitment commitment.json --model model.npz",
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a finished run, or a log")
    add_commitment(parser)
    parser.add_argument(
        "--model",
        metavar="FILE",
        type=Path,
        help="a file of the released model, which must be the one that the run trained",
    )
    parser.add_argument(
        "--link",
        metavar="SHA256",
        help="the last link of the chain, as `run` (of logs: `verify`) printed it after training",
    )
    parser.add_argument(
        "--sheet",
        metavar="FILE.html",
        type=Path,
        help="a release sheet of the run: every line but the operator's statements must follow "
        "from the run",
    )
    parser.add_argument(
        "--statement",
        metavar="FILE.json",
        type=output_file,
        help="write an in-toto statement on the model and the run's chain, for a pipeline to sign",
    )
    parser.add_argument("--json", action="store_true", help="print outcome and findings as JSON")


def _verify(arguments: argparse.Namespace) -> int:
    """Verifies a folder, and its release sheet if one is given."""
    from fl_audit.formats.folders import LogFolder, RunFolder
    from fl_audit.release_sheet.compare_sheets import verify_sheet
    from fl_audit.verification import NOT_SHOWN, WITHOUT_LINK, verify_folder

    for option in ("sheet", "statement"):
        if getattr(arguments, option) is not None and LogFolder(arguments.folder).pool.exists():
            raise InputError(f"--{option}: {arguments.folder} is a log; only runs have one")
    verified = verify_folder(
        arguments.folder,
        arguments.commitment,
        scoring_progress,
        model=arguments.model,
        link=arguments.link,
    )
    if arguments.sheet is not None:
        verify_sheet(arguments.sheet, RunFolder(arguments.folder), verified)
    if arguments.statement is not None and verified.outcome != "broken":
        _write_statement(RunFolder(arguments.folder), verified, arguments.statement)
    notes = [*verified.notes, *[WITHOUT_LINK] * (arguments.link is None), NOT_SHOWN]
    if arguments.json:
        for line in notes:
            hint(line)
        print_json(verified.to_json())
    else:
        print_lines(map(str, verified.findings))
        if verified.not_made_again:
            print_lines([f"not computed again: {', '.join(verified.not_made_again)}"])
        print_lines([*filter(None, [_WORDS.get(verified.outcome)]), *notes])
    return EXIT_OF[verified.outcome]


def _write_statement(folder: "RunFolder", verified: "Verified", out: Path) -> None:
    """Writes the in-toto statement of a run that is not broken."""
    from fl_audit.formats.round_chain import read_chain
    from fl_audit.release_sheet.documents import in_toto_statement

    link = read_chain(folder.chain).lines[-1].link
    statement = in_toto_statement(link, verified)
    write_page(json.dumps(statement, indent=2, ensure_ascii=False) + "\n", out, "--statement")
