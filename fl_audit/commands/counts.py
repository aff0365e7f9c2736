"""`fl-audit counts`: intervals on epsilon from counts of correct and wrong guesses."""

import argparse
from decimal import ROUND_DOWN, ROUND_UP

from fl_audit.commands.parser import Commands, add_command
from fl_audit.commands.printing import print_json
from fl_audit.number_words import significant


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        _counts,
        name="counts",
        summary="intervals on epsilon from counts of right and wrong guesses",
        description=(
            "Two-sided intervals on epsilon from the counts of a membership inference attack "
            "(Zanella-Béguelin et al. 2022)."
        ),
        example="fl-audit counts --fn 35 --tp 65 --fp 25 --tn 75 --delta 0.05 --confidence 0.95",
    )
    for option, meaning in (
        ("--fn", "members guessed to be non-members"),
        ("--tp", "members guessed to be members"),
        ("--fp", "non-members guessed to be members"),
        ("--tn", "non-members guessed to be non-members"),
    ):
        parser.add_argument(option, type=int, required=True, help=meaning)
    parser.add_argument("--delta", type=float, required=True, help="in [0, 1)")
    parser.add_argument("--confidence", type=float, default=0.9, help="confidence of each interval")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _counts(arguments: argparse.Namespace) -> int:
    from fl_audit.estimators.counts import ConfusionCounts, intervals

    counts = ConfusionCounts(
        false_negatives=arguments.fn,
        true_positives=arguments.tp,
        false_positives=arguments.fp,
        true_negatives=arguments.tn,
    )
    rows = intervals(counts, arguments.delta, arguments.confidence)
    if arguments.json:
        print_json(rows.to_json())
        return 0
    print(f"epsilon at delta {arguments.delta:g}, {100 * arguments.confidence:g} %")
    for name, meaning in _MEANINGS.items():
        interval = getattr(rows, name)
        lower = significant(interval.lower, 4, ROUND_DOWN)
        upper = significant(interval.upper, 4, ROUND_UP)
        print(f"{name:<16}{lower:>8} to {upper:<8}  {meaning}")
    return 0


_MEANINGS = {
    "clopper_pearson": "confidence interval, exact for each rate: valid, and the widest",
    "jeffreys": "confidence interval by Jeffreys intervals for each rate: about valid",
    "bayes": "credible interval under Jeffreys priors for both rates: no confidence interval",
}
