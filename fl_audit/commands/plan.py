"""`fl-audit plan`: expected report, power and cost of an audit, before any training."""

import argparse
from typing import TYPE_CHECKING

from fl_audit.commands.parser import (
    Commands,
    add_calibrate,
    add_command,
    add_config_arguments,
    check_calibrate,
    config_of,
)
from fl_audit.commands.printing import add_verbose, print_json
from fl_audit.errors import InputError
from fl_audit.progress import hint

if TYPE_CHECKING:
    from fl_audit.config import Config
    from fl_audit.planning import Plan
    from fl_audit.planning.cost import Calibration


def add(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _plan,
        name="plan",
        summary="what an audit can show and what it costs, before training",
        description=(
            "Predict the bounds and estimates of a run, how they depend on canaries, repeats, "
            "noise and clip norm, how often the audit would contradict a claim, and the cost. Only "
            "aggregates are simulated; no client is trained, except with --calibrate."
        ),
        example="fl-audit plan config.toml --set mechanism.noise_multiplier=0.5",
    )
    add_config_arguments(parser, "the config of the run")
    parser.add_argument(
        "--trials", metavar="N", type=int, help="simulated runs; default: 39, or 19 for large ones"
    )
    parser.add_argument(
        "--against",
        metavar="SECTION.KEY=VALUE",
        nargs="+",
        action="append",
        default=[],
        help="another participation pattern, by the keys that differ; shows how many canaries "
        "distinguish it from the config's; may be repeated",
    )
    add_calibrate(parser, "train the first rounds for SECONDS (default: 60), to predict hours")
    parser.add_argument(
        "--runs",
        metavar="N",
        type=int,
        default=1,
        help="with --calibrate: number of runs to estimate hours for",
    )
    parser.add_argument(
        "--machines",
        metavar="N",
        type=int,
        default=1,
        help="with --calibrate: number of machines that share the runs",
    )
    add_verbose(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _plan(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    config = config_of(arguments)
    hint("loading the task; the plan takes some seconds, and longer for 10,000 rounds or more")
    from fl_audit.resources import set_tensorflow_defaults

    set_tensorflow_defaults()
    from fl_audit.planning import make_plan
    from fl_audit.planning.cost import calibrate

    plan = make_plan(config, arguments.trials, _others(arguments))
    seconds = arguments.calibrate
    measured = None if seconds is None else calibrate(plan.run.config, seconds)
    _print_plan(plan, measured, arguments)
    return 0


def _others(arguments: argparse.Namespace) -> "list[tuple[str, Config]]":
    """The other patterns' configs, each named by the values of the keys that differ."""
    from fl_audit.config.file import load_config

    return [
        (
            ", ".join(key.partition("=")[2] for key in keys),
            load_config(arguments.config, [*arguments.overrides, *keys]),
        )
        for keys in arguments.against
    ]


def _print_plan(
    plan: "Plan", measured: "Calibration | None", arguments: argparse.Namespace
) -> None:
    from fl_audit.planning import answer_lines, plan_lines

    if arguments.json:
        hours = measured and measured.to_json(arguments.runs, arguments.machines)
        print_json(plan.to_json() | {"hours": hours})
    else:
        lines = plan_lines if arguments.verbose else answer_lines
        print("\n".join([*lines(plan), *_hours_lines(measured, arguments)]))


def _check_options(arguments: argparse.Namespace) -> None:
    """Raises InputError for numbers of runs, machines or trials that are out of range or unused."""
    from fl_audit.planning import LEAST_TRIALS

    for name, least in (("runs", 1), ("machines", 1), ("trials", LEAST_TRIALS)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise InputError(f"--{name} {value}: must be at least {least}")
    check_calibrate(arguments.calibrate)
    for name in ("runs", "machines"):
        value = getattr(arguments, name)
        if value != 1 and arguments.calibrate is None:
            raise InputError(f"--{name} {value}: is only for --calibrate")


def _hours_lines(measured: "Calibration | None", arguments: argparse.Namespace) -> list[str]:
    """The prediction from the calibration; empty without one."""
    if measured is None:
        return []
    from fl_audit.number_words import count, duration, significant

    runs, machines = arguments.runs, arguments.machines
    together = duration(measured.seconds(runs, machines))
    lines = [
        "",
        "How long it takes",
        f"  {duration(measured.seconds())} on this machine: {duration(measured.start_seconds)} to "
        f"the end of the first round, then {significant(measured.round_seconds, 2)} s a round "
        f"(mean of {measured.rounds_timed - 1:,} of {measured.rounds:,})",
        f"  {together} for {count(runs, 'such run')} on {count(machines, 'such machine')}",
    ]
    return lines[: 3 if (runs, machines) == (1, 1) else 4]
