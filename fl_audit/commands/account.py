"""`fl-audit account`: the upper bounds of a config, a folder or options, without training."""

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_audit.commands.parser import Commands, add_command, add_set
from fl_audit.commands.printing import print_json, print_lines
from fl_audit.errors import InputError

if TYPE_CHECKING:
    from fl_audit.account import Source

_KEYS = {"restart_every": int, "strategy": str, "bands": int, "buffers": int, "coefficients": str}
"""Keys of mechanisms that are also options, with their types."""

_RELEASE = ("noise_multiplier", "rounds", "sampling", "rate", "participations", "separation")


def add(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _account,
        name="account",
        summary="upper bounds on epsilon by every accountant, and the least noise for one",
        description=(
            "Account the privacy of a config, of a run's or log's folder, or of options alone: "
            "epsilon by accountant with lower bounds, μ, ρ and true positive rates, for clients "
            "and canaries, and for attackers with and without the schedule. Nothing is trained."
        ),
        example=(
            "fl-audit account --noise-multiplier 1 --rounds 2000 --sampling poisson --rate 0.01 "
            "--delta 1e-6"
        ),
    )
    parser.add_argument(
        "source",
        metavar="CONFIG.toml",
        nargs="?",
        type=Path,
        help="a config, or the folder of a run or a log; without it, options state the release",
    )
    add_set(parser)
    parser.add_argument(
        "--delta",
        type=float,
        help="in (0, 1); default: the delta of the config or run; required for options alone",
    )
    parser.add_argument(
        "--epsilon",
        metavar="E",
        type=float,
        help="find the least noise that gives clients this epsilon; a config's noise is ignored",
    )
    _add_release(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_release(parser: argparse.ArgumentParser) -> None:
    """Adds the options that describe a release."""
    group = parser.add_argument_group("a release by options, without CONFIG.toml")
    group.add_argument("--noise-multiplier", metavar="Z", type=float, help="noise multiplier")
    group.add_argument("--rounds", metavar="T", type=int, help="rounds of training")
    group.add_argument(
        "--sampling",
        choices=("none", "poisson", "fixed_size", "shuffle"),
        help="how rounds sample clients; default: none (an attacker may know a client's rounds)",
    )
    group.add_argument(
        "--rate",
        metavar="Q",
        type=float,
        help="for poisson and fixed_size: probability that a client is in a round",
    )
    group.add_argument(
        "--participations",
        metavar="K",
        type=int,
        help="for none: largest number of a client's rounds; for shuffle: number of epochs",
    )
    group.add_argument(
        "--separation",
        metavar="B",
        type=int,
        help="for none: least distance between a client's rounds",
    )
    group.add_argument(
        "--mechanism",
        choices=("gaussian_fixed", "tree_aggregation", "matrix_factorisation"),
        help="default: gaussian_fixed, noise that is independent between rounds",
    )
    for name, kind in _KEYS.items():
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, type=kind, help=f"key {name} of the mechanism")


def _account(arguments: argparse.Namespace) -> int:
    from fl_audit.account import account_lines, accounted

    record = accounted(_source(arguments))
    if arguments.json:
        print_json(record.to_json())
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        print_lines(account_lines(record, width, arguments.epsilon))
    return 0


def _source(arguments: argparse.Namespace) -> "Source":
    """The release given by the arguments."""
    keys: dict[str, Any] = {
        name: value for name in _KEYS if (value := getattr(arguments, name)) is not None
    }
    if arguments.source is not None:
        described = (*_RELEASE, "mechanism", *keys)
        given = [name for name in described if getattr(arguments, name) is not None]
        if given:
            option = f"--{given[0].replace('_', '-')}"
            raise InputError(
                f"{option}: {arguments.source} states this already; leave out the option, or "
                "change a config by --set"
            )
        from fl_audit.account.files import source_of_path

        return source_of_path(
            arguments.source, arguments.overrides, arguments.delta, arguments.epsilon
        )
    if arguments.overrides:
        raise InputError("--set: changes a key of a config; give CONFIG.toml")
    for name in ("rounds", "delta"):
        if getattr(arguments, name) is None:
            raise InputError(f"--{name}: is required without CONFIG.toml")
    from fl_audit.account.options import Options, source_of_options

    stated = {name: getattr(arguments, name) for name in _RELEASE}
    options = Options(
        **stated | {"sampling": arguments.sampling or "none"},
        epsilon=arguments.epsilon,
        mechanism=arguments.mechanism or "gaussian_fixed",
        keys=keys,
    )
    return source_of_options(options, arguments.delta)
