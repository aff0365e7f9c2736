"""The command line: `fl-audit COMMAND`, see each command's --help."""

import os
import sys
from collections.abc import Sequence

from fl_audit.commands import (
    compare,
    counts,
    estimate,
    mcmc,
    mechanism,
    one_run,
    plan,
    quickstart,
    run,
)
from fl_audit.commands.parser import Parser
from fl_audit.errors import InputError, Interrupted

EXIT_BAD_INPUT = 2
EXIT_BROKEN_PIPE = 141
"""What a shell reports for a program that a closed pipe has ended (128 + SIGPIPE)."""

_COMMANDS = (estimate, counts, one_run, mcmc, mechanism, plan, run, compare, quickstart)
"""In the order of --help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 for success, 2 and one line for bad input, 3 where a claimed epsilon is contradicted, 128 + N
    where signal N stopped a run.
    """
    try:
        arguments = _parser().parse_args(argv)
        status: int = arguments.command(arguments)
        sys.stdout.flush()
    except InputError as error:
        print(f"fl-audit: error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except Interrupted as stop:
        print(f"fl-audit: {stop}; continue with --resume", file=sys.stderr)
        return 128 + stop.signal_number
    except BrokenPipeError:
        # The reader has gone: nothing is left to say, not even by the flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    return status


def _parser() -> Parser:
    parser = Parser(
        prog="fl-audit",
        description="Audit the privacy of a federated training run.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
