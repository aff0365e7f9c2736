"""The parser of the command line, which reports any error in one line."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from fl_audit.errors import InputError, nearest

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]


_LARGEST = 2**63 - 1


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, with the nearest known option."""

    def __init__(self, *args, **kwargs) -> None:  # type: ignore[no-untyped-def]
        """Makes whole numbers and paths of all commands be checked as they are read."""
        super().__init__(*args, **kwargs)
        self.register("type", int, _whole_number)
        self.register("type", Path, _path)

    def error(self, message: str) -> NoReturn:
        """Raises an `InputError` with the message."""
        raise InputError(message)

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Parses arguments; an unknown option is refused before missing arguments are reported."""
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


def _whole_number(text: str) -> int:
    is_long = len(text) > 30  # more digits than 64 bits have; `int` refuses thousands of them
    if (is_long and text.strip("+-").isdigit()) or (not is_long and abs(int(text)) > _LARGEST):
        raise argparse.ArgumentTypeError(f"must be a whole number within 64 bits, got {text}")
    return int(text)


def _path(text: str) -> Path:
    if "\0" in text:
        raise argparse.ArgumentTypeError(f"must be a path without a null byte, got {text!r}")
    return Path(text)


def add_command(
    commands: "Commands",
    command: Callable[[argparse.Namespace], int],
    *,
    name: str,
    summary: str,
    description: str,
) -> Parser:
    """Adds a command and returns its parser.

    Args:
      commands: The commands of the command line.
      command: A function that is called with the parsed arguments and returns the exit status.
      name: Name of the command.
      summary: One line for the list of commands.
      description: Text for the command's own --help.
    """
    parser = commands.add_parser(name, help=summary, description=description, allow_abbrev=False)
    parser.set_defaults(command=command)
    return parser
