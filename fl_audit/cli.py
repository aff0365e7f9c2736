"""The command line: `fl-audit COMMAND`; each command has --help."""

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence

from fl_audit.commands import (
    account,
    attack,
    commit,
    compare,
    completion,
    counts,
    estimate,
    exit_status,
    init,
    mcmc,
    mechanism,
    one_run,
    plan,
    process,
    quickstart,
    release,
    run,
    show,
    sweep,
    verify,
)
from fl_audit.commands.parser import Commands, Parser
from fl_audit.errors import InputError, Interrupted, one_line
from fl_audit.extras import missing_extra
from fl_audit.progress import doing, set_verbosity

_GROUPS = {
    "start": (quickstart, init, completion),
    "train": (account, plan, run, sweep),
    "audit": (estimate, show, release),
    "verify": (commit, verify),
    "compare": (compare,),
    "attack": (attack,),
    "low level": (counts, one_run, mcmc, mechanism),
}
"""The commands by purpose, in the order of --help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    The status is 0 for success, 2 for bad input or an error of the system, such as a full disk
    (reported in one line), 3 for a contradicted claim, 128 + N if signal N stopped a run, 141 for a
    closed pipe, or a command's own.
    """
    with process.interrupts() as ctrl_c:
        try:
            return _main(argv)
        except BaseException:
            if not ctrl_c:
                raise
            # A library may replace the KeyboardInterrupt by another error while it is imported.
            print(f"fl-audit: {process.INTERRUPTED}", file=sys.stderr)
            return 128 + ctrl_c[0]


def _main(argv: Sequence[str] | None) -> int:
    try:
        process.ask_for_streams()
        process.draw_without_windows()
        status = _call(sys.argv[1:] if argv is None else argv)
        process.flush_output()
    except InputError as error:
        return _refuse(str(error))
    except Interrupted as stop:
        print(f"fl-audit: {stop}; continue with --resume", file=sys.stderr)
        return 128 + stop.signal_number
    except BrokenPipeError:
        # The reader has closed the pipe; without this the flush at exit would fail again.
        process.drop_output()
        return exit_status.BROKEN_PIPE
    except (OSError, ArithmeticError, MemoryError) as error:
        return _refuse(process.limit_words(error))
    return status


def _call(argv: Sequence[str]) -> int:
    """Calls a command; without one, prints the help."""
    parser = _parser()
    arguments = parser.parse_args(argv or ["--help"])
    if arguments.verbosity is not None:
        set_verbosity(arguments.verbosity)
    arguments.check_outputs(arguments)
    try:
        with doing(f"{arguments.called}: at work"):
            status: int = arguments.command(arguments)
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        raise error if missing is None else missing from error
    return status


class _Version(argparse.Action):
    """Prints the version; its module is imported only here, to save time."""

    def __call__(self, *_: object) -> None:
        from fl_audit.version import __version__

        print(f"fl-audit {__version__}")
        sys.exit(0)


def _refuse(message: str) -> int:
    print(f"fl-audit: error: {one_line(message)}", file=sys.stderr)
    return exit_status.BAD_INPUT


_USAGE = "fl-audit [-h] [--version] COMMAND ..."
_DESCRIPTION = (
    "Audit the privacy of a federated training run. `fl-audit COMMAND --help` shows the options of "
    "a command, their defaults and an example."
)


def _parser() -> Parser:
    parser = Parser(prog="fl-audit", usage=_USAGE, allow_abbrev=False)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(
        metavar="COMMAND", required=True, prog="fl-audit", help=argparse.SUPPRESS
    )
    for group in _GROUPS.values():
        for command in group:
            command.add(commands)
    parser.description = "\n\n".join([_DESCRIPTION, *_group_texts(commands)])
    return parser


def _group_texts(commands: Commands) -> Iterator[str]:
    """The text of each group: its title, and a line for each of its commands."""
    width = max(map(len, commands.choices))
    lines = iter(
        [f"  {name:<{width}}  {command.summary}" for name, command in commands.choices.items()]
    )
    for title, group in _GROUPS.items():
        yield "\n".join([f"{title}:", *itertools.islice(lines, len(group))])


if __name__ == "__main__":
    sys.exit(main())
