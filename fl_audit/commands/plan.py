"""`fl-audit plan`: what an audit would report, can detect and costs, before any training."""

import argparse
import sys
from typing import TYPE_CHECKING

from fl_audit.commands.config_arguments import add_config_arguments, config_of
from fl_audit.commands.parser import add_command
from fl_audit.commands.printing import print_json

if TYPE_CHECKING:
    from fl_audit.commands.parser import Commands


def add(commands: "Commands") -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _plan,
        name="plan",
        summary="what an audit would say, can tell and costs, before anything is trained",
        description=(
            "Predict the estimates of a run by simulation of its aggregates alone: how they depend "
            "on canaries, repeats, noise and clip norm, what the audit can tell of a claim, and "
            "what it costs. No client is trained."
        ),
    )
    add_config_arguments(parser, "what would be run")
    parser.add_argument(
        "--trials", metavar="N", type=int, help="simulated runs; default: 39, or 19 for large ones"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _plan(arguments: argparse.Namespace) -> int:
    config = config_of(arguments)
    if sys.stderr.isatty():
        print("loading the task; the plan takes about a minute", file=sys.stderr)
    from fl_audit.training import tensorflow_environment

    tensorflow_environment.set_defaults()
    from fl_audit.planning import make_plan, plan_lines

    plan = make_plan(config, arguments.trials)
    if arguments.json:
        print_json(plan.to_json())
    else:
        print("\n".join(plan_lines(plan)))
    return 0
