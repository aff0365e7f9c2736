"""`fl-audit run`: train with canaries, score them, estimate, report."""

import argparse
from pathlib import Path

from fl_audit.commands import exit_status, printing
from fl_audit.commands.parser import Commands, add_command, add_config_arguments, config_of
from fl_audit.progress import hint


def add(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _run,
        name="run",
        summary="train with canaries, score them, estimate epsilon, report",
        description=(
            "Train with canary clients, score them, estimate epsilon and write a report. Exits "
            "with status 3 if the config's claim is contradicted, and with 4 if a claim is stated "
            "and a mechanism check fails."
        ),
        example="fl-audit run config.toml --out runs/first",
    )
    add_config_arguments(parser, "the config of the run")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="the run folder")
    parser.add_argument("--resume", action="store_true", help="continue from DIR's last checkpoint")
    printing.add_commitment(
        parser, "refuse any config but that of FILE, which `fl-audit commit` wrote"
    )
    exit_status.add_require(parser)
    printing.add_junit(parser)
    parser.add_argument("--json", action="store_true", help="print report.json")
    printing.add_verbose(parser)


def _run(arguments: argparse.Namespace) -> int:
    from fl_audit.formats.folders import RunFolder
    from fl_audit.formats.round_chain import read_chain
    from fl_audit.pipeline.runs import continue_run, start_run
    from fl_audit.report import report_to_json

    config = config_of(arguments)
    how = "set audit.claimed_epsilon in the config"
    exit_status.check_required(arguments.require, is_claimed=config.audit.is_claimed, how=how)
    go = continue_run if arguments.resume else start_run
    report = go(config, arguments.out, commitment=arguments.commitment)
    if arguments.json:
        printing.print_json(report_to_json(report))
    else:
        printing.print_report(report, RunFolder(arguments.out).report_html, arguments.verbose)
    link = read_chain(RunFolder(arguments.out).chain).lines[-1].link
    sealed = f"chain: the last link is {link}; send this link to whoever will verify the run"
    if arguments.json:
        hint(sealed)
    else:
        printing.print_lines([sealed])
    printing.write_junit(report, arguments.junit, arguments.require)
    return exit_status.exit_status_of(report, arguments.require)
