"""`fl-audit verify`: whether a folder's results follow from its logs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands.parser import add_command
from fl_audit.commands.printing import print_json, print_lines, scoring_progress
from fl_audit.progress import hint

if TYPE_CHECKING:
    from fl_audit.commands.parser import Commands

EXIT_NOT_HELD = 1


def add(commands: "Commands") -> None:
    parser = add_command(
        commands,
        _verify,
        name="verify",
        summary="compute a folder's numbers again from its logs",
        description=(
            "Compute the numbers of report.json again from a folder's logs, without data and "
            "without TensorFlow, and name what does not fit: a changed digit, a dropped, repeated "
            "or moved round, another seed, a claim or statistic that was chosen afterwards. Exits "
            "with status 1 if something does not fit."
        ),
        example="fl-audit verify runs/first --commitment commitment.json",
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a finished run, or a log")
    parser.add_argument(
        "--commitment",
        metavar="FILE",
        type=Path,
        help="the commitment that `fl-audit commit` wrote before the run",
    )
    parser.add_argument("--json", action="store_true", help="print findings as JSON")


def _verify(arguments: argparse.Namespace) -> int:
    from fl_audit.verification import NOT_SHOWN, verify_folder

    outcome = verify_folder(arguments.folder, arguments.commitment, scoring_progress)
    notes = [*outcome.notes, NOT_SHOWN]
    if arguments.json:
        for line in notes:
            hint(line)
        findings = [{"file": finding.file, "what": finding.what} for finding in outcome.findings]
        print_json({"held": outcome.held, "findings": findings})
    else:
        print_lines(map(str, outcome.findings))
        held = "held: what the folder says follows from its logs" if outcome.held else ""
        print_lines([*filter(None, [held]), *notes])
    return 0 if outcome.held else EXIT_NOT_HELD
