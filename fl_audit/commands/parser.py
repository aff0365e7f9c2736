"""The parser of the command line: one clear line for whatever is wrong."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from fl_audit.errors import InputError, nearest

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, and what was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise InputError(message)

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Parse, but refuse an unknown option before complaining of what it leaves missing."""
        self._refuse_unknown_options(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def _refuse_unknown_options(self, args: Sequence[str]) -> None:
        for token in args:
            if self._subparsers is not None and not token.startswith("-"):
                return  # what follows belongs to the command, whose own parser checks it
            if token == "--":
                return
            name = token.split("=")[0]
            if name.startswith("--") and name not in self._option_string_actions:
                hint = nearest(name, [o for o in self._option_string_actions if o[:2] == "--"])
                self.error(f"unknown option {name!r}: {hint}")


def add_command(
    commands: "Commands",
    command: Callable[[argparse.Namespace], int],
    *,
    name: str,
    summary: str,
    description: str,
) -> Parser:
    """Add a command that calls `command` with its parsed arguments."""
    parser = commands.add_parser(name, help=summary, description=description, allow_abbrev=False)
    parser.set_defaults(command=command)
    return parser
