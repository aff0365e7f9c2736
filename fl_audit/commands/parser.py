"""The command line's parser, which reports an error in one line, and arguments of many commands."""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from fl_audit.errors import InputError, nearest
from fl_audit.library_words import argument_words
from fl_audit.progress import VERBOSITIES

if TYPE_CHECKING:
    from fl_audit.config import Config

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


_LARGEST = 2**63 - 1


class _Help(argparse.HelpFormatter):
    """Help with every default; indented lines are not wrapped."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_none = action.default is None or isinstance(action.default, bool | list)
        is_said = "default:" in (action.help or "") or action.default is argparse.SUPPRESS
        if has_none or is_said:
            return action.help
        return f"{action.help}; default: %(default)s"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            part if "\n  " in part else super(_Help, self)._fill_text(part, width, indent)
            for part in text.split("\n\n")
        )


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, with the nearest known option.

    Attributes:
      summary: The command's purpose, in a line; empty for the program's own parser.
    """

    summary = ""

    def __init__(self, *args, **kwargs) -> None:  # type: ignore[no-untyped-def]
        """Registers checks of whole numbers and paths."""
        super().__init__(*args, **{"formatter_class": _Help, **kwargs})
        self.register("type", int, _whole_number)
        self.register("type", Path, _path)

    def error(self, message: str) -> NoReturn:
        """Raises an `InputError` with the message."""
        raise InputError(argument_words(message))

    def check_outputs(self, arguments: argparse.Namespace) -> None:
        """Raises InputError for a file that cannot be written."""
        for action in self._actions:
            path = getattr(arguments, action.dest, None) if action.type is output_file else None
            if path is None:
                continue
            try:
                _check_writable(path)
            except OSError as error:
                name = action.option_strings[0]
                self.error(f"argument {name}: {path}: cannot be written: {error.strerror}")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Parses arguments; reports unknown commands and options before missing arguments."""
        self._refuse_unknown_options(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def _refuse_unknown_options(self, args: Sequence[str]) -> None:
        for token in args:
            if self._subparsers is not None and not token.startswith("-"):
                self._refuse_unknown_command(token)
                return  # the command's own parser checks the rest
            if token == "--":
                return
            name = token.split("=")[0]
            if name.startswith("--") and name not in self._option_string_actions:
                hint = nearest(name, [o for o in self._option_string_actions if o[:2] == "--"])
                self.error(f"unknown option {name!r}: {hint}")

    def _refuse_unknown_command(self, name: str) -> None:
        assert self._subparsers is not None
        known = self._subparsers._group_actions[0].choices or ()
        if name not in known:
            self.error(f"unknown command {name!r}: {nearest(name, map(str, known))}")


def _whole_number(text: str) -> int:
    is_long = len(text) > 30  # more digits than 64 bits hold; `int` refuses thousands of digits
    if (is_long and text.strip("+-").isdigit()) or (not is_long and abs(int(text)) > _LARGEST):
        raise argparse.ArgumentTypeError(f"must be a whole number within 64 bits, got {text}")
    return int(text)


def _path(text: str) -> Path:
    if "\0" in text:
        raise argparse.ArgumentTypeError(f"must be a path without a null byte, got {text!r}")
    return Path(text)


def output_file(text: str) -> Path:
    """The path of a file to write; `Parser.check_outputs` tests such arguments before any work."""
    return _path(text)


def _check_writable(path: Path) -> None:
    """Raises OSError for a folder, and if the path's folder does not take files."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if path.is_file() or not path.exists():  # others, such as a pipe, need no new file
        from fl_audit.formats.text_files import check_writable

        check_writable(path)


def add_command(
    commands: Commands,
    command: Callable[[argparse.Namespace], int],
    *,
    name: str,
    summary: str,
    description: str,
    example: str,
) -> Parser:
    """Adds a command and returns its parser."""
    parser = commands.add_parser(
        name, description=description, epilog=f"example:\n  {example}", allow_abbrev=False
    )
    parser.summary = summary
    parser.set_defaults(command=command, called=parser.prog, check_outputs=parser.check_outputs)
    parser.add_argument(
        "--verbosity",
        choices=VERBOSITIES,
        metavar="LEVEL",
        help=(
            "what to write on standard error: error, warning, info (progress, the default) or "
            "debug (what TensorFlow and TFF log, too)"
        ),
    )
    return parser


_LONGEST_CALIBRATION = 3600
"""The longest time of a calibration, in seconds."""


def add_config_arguments(parser: "Parser", summary: str) -> None:
    """Adds CONFIG.toml and --set."""
    parser.add_argument("config", metavar="CONFIG.toml", type=Path, help=summary)
    add_set(parser)


def add_set(parser: "Parser") -> None:
    """Adds --set."""
    parser.add_argument(
        "--set",
        metavar="section.key=value",
        dest="overrides",
        action="append",
        default=[],
        help="change a key of the config, such as mechanism.noise_multiplier=0.5; may be repeated",
    )


def add_calibrate(parser: "Parser", summary: str) -> None:
    """Adds --calibrate [SECONDS], by default a minute."""
    parser.add_argument(
        "--calibrate", metavar="SECONDS", type=float, nargs="?", const=60.0, help=summary
    )


def check_calibrate(seconds: float | None) -> None:
    """Raises InputError for seconds of --calibrate outside their range."""
    if seconds is not None and not 0 < seconds <= _LONGEST_CALIBRATION:
        raise InputError(
            f"--calibrate {seconds:g}: must be above 0 and at most {_LONGEST_CALIBRATION} seconds"
        )


def config_of(arguments: argparse.Namespace) -> "Config":
    """Reads and checks the config that the arguments name."""
    from fl_audit.config.file import load_config
    from fl_audit.engines.runtimes import check_runtime_name

    config = load_config(arguments.config, arguments.overrides)
    check_runtime_name(config.runtime, str(arguments.config))
    return config
