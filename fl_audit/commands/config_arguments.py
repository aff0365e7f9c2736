"""Arguments of the commands that take a config: the file, and keys to change in it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.errors import InputError

if TYPE_CHECKING:
    from fl_audit.commands.parser import Parser
    from fl_audit.config import Config

_LONGEST_CALIBRATION = 3600
"""The longest calibration, in seconds."""


def add_config_arguments(parser: "Parser", summary: str) -> None:
    """Adds CONFIG.toml and --set.

    Args:
      parser: The command's parser.
      summary: Help text that says what the config is to the command.
    """
    parser.add_argument("config", metavar="CONFIG.toml", type=Path, help=summary)
    parser.add_argument(
        "--set",
        metavar="section.key=value",
        dest="overrides",
        action="append",
        default=[],
        help="change one key of the config; may be repeated",
    )


def add_calibrate(parser: "Parser", summary: str) -> None:
    """Adds --calibrate [SECONDS], a minute where it is given alone.

    Args:
      parser: The command's parser.
      summary: Help text that says what the first rounds are trained for.
    """
    parser.add_argument(
        "--calibrate", metavar="SECONDS", type=float, nargs="?", const=60.0, help=summary
    )


def check_calibrate(seconds: float | None) -> None:
    """Checks the seconds of --calibrate; None where it was not given.

    Raises:
      InputError: They are out of their range.
    """
    if seconds is not None and not 0 < seconds <= _LONGEST_CALIBRATION:
        raise InputError(
            f"--calibrate {seconds:g}: must be above 0 and at most {_LONGEST_CALIBRATION} seconds"
        )


def config_of(arguments: argparse.Namespace) -> "Config":
    """Reads and checks the config that the arguments name.

    Raises:
      InputError: The config cannot be read or does not describe a run.
    """
    from fl_audit.config.file import load_config
    from fl_audit.training.runtimes.kinds import check_runtime_name

    config = load_config(arguments.config, arguments.overrides)
    check_runtime_name(config.runtime, str(arguments.config))
    return config
