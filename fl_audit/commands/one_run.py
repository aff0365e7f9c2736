"""`fl-audit one-run`: lower bound from counts of correct guesses."""

import argparse
from decimal import ROUND_DOWN

from fl_audit.commands.parser import Commands, add_command
from fl_audit.commands.printing import print_json
from fl_audit.number_words import significant


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        _one_run,
        name="one-run",
        summary="lower bound from counts of right guesses",
        description="Lower bound on epsilon from guesses in one run (Steinke et al. 2023).",
        example="fl-audit one-run --examples 100 --guesses 100 --correct 75 --delta 0",
    )
    parser.add_argument(
        "--examples", type=int, required=True, help="canaries, each included by a fair coin"
    )
    parser.add_argument("--guesses", type=int, required=True, help="guesses made")
    parser.add_argument("--correct", type=int, required=True, help="guesses that were right")
    parser.add_argument("--delta", type=float, required=True, help="in [0, 1)")
    parser.add_argument("--confidence", type=float, default=0.95, help="confidence of the bound")
    parser.add_argument(
        "--epsilon", type=float, help="null hypothesis: also print the p-value of this epsilon"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _one_run(arguments: argparse.Namespace) -> int:
    """Prints the lower bounds, rounded down, and the p-value of a requested epsilon."""
    from fl_audit.estimators.one_run.bound import (
        epsilon_lower_bound,
        p_value,
        sharp_epsilon_lower_bound,
    )

    counts = arguments.examples, arguments.guesses, arguments.correct
    lower = epsilon_lower_bound(*counts, arguments.delta, arguments.confidence)
    sharp = sharp_epsilon_lower_bound(*counts, arguments.delta, arguments.confidence)
    p = None
    if arguments.epsilon is not None:
        p = p_value(*counts, arguments.epsilon, arguments.delta)
    if arguments.json:
        print_json({"epsilon_lower": lower, "p_value": p, "epsilon_lower_sharp": sharp})
        return 0
    percent = f"{100 * arguments.confidence:g} %"
    least, sharp_least = (significant(bound, 6, ROUND_DOWN) for bound in (lower, sharp))
    print(f"epsilon >= {least} at {percent} confidence (Corollary 5.4)")
    if arguments.delta > 0:
        print(
            f"epsilon >= {sharp_least} at {percent} confidence (with the exact worst case of delta)"
        )
    if p is not None:
        print(f"p-value of epsilon <= {arguments.epsilon:g}: {p:.6g}")
    return 0
