"""`fl-audit estimate`: epsilon from the scores of canaries."""

import argparse
import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands.exit_status import verdict_status
from fl_audit.commands.parser import add_command
from fl_audit.commands.printing import print_json, verdict_lines

if TYPE_CHECKING:
    from fl_audit.commands.parser import Commands
    from fl_audit.estimators.audit import AuditResult
    from fl_audit.estimators.result import Estimate
    from fl_audit.estimators.roc import RocSummary
    from fl_audit.estimators.scores import CanaryScores
    from fl_audit.estimators.setting import Null


def add(commands: "Commands") -> None:
    """Add the command."""
    parser = add_command(
        commands,
        _estimate,
        name="estimate",
        summary="epsilon from the scores of canaries",
        description=(
            "Estimate epsilon from a file of canary scores (CSV or .parquet). Exits with status 3 "
            "where the scores contradict --claimed-epsilon."
        ),
    )
    parser.add_argument("scores", metavar="SCORES", type=Path, help="canary_id, included, score")
    parser.add_argument("--delta", type=float, required=True, help="in [0, 1)")
    parser.add_argument("--dim", type=int, help="number of trainable parameters")
    parser.add_argument("--confidence", type=float, default=0.95, help="of each bound")
    parser.add_argument("--methods", metavar="a,b,...", help="default: all that apply")
    parser.add_argument(
        "--null",
        choices=("closed_form", "empirical"),
        help="law of an excluded score; default: closed_form with --dim, else empirical",
    )
    parser.add_argument(
        "--claimed-epsilon",
        metavar="E",
        type=float,
        help="give a verdict on the claim of (E, delta)-privacy for whom the canaries stand for",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _estimate(arguments: argparse.Namespace) -> int:
    from fl_audit.estimators.audit import estimate
    from fl_audit.score_file import read_score_file

    methods = arguments.methods
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    scores = read_score_file(arguments.scores).canary_scores()
    result = estimate(
        scores,
        delta=arguments.delta,
        dim=arguments.dim,
        confidence=arguments.confidence,
        methods=names,
        null=arguments.null,
    )
    verdict = _verdict(arguments, scores, names)
    if arguments.json:
        print_json(result.to_json() | ({} if verdict is None else {"verdict": verdict}))
    else:
        print("\n".join([_table(result), *verdict_lines(verdict)]))
    return verdict_status(verdict)


def _verdict(
    arguments: argparse.Namespace, scores: "CanaryScores", methods: list[str] | None
) -> dict[str, object] | None:
    """The verdict by those of the methods that hold for any mechanism; None without a claim."""
    if arguments.claimed_epsilon is None:
        return None
    from fl_audit.verdict import VALID_METHODS, Claim, Looks, Statistic, reach_verdict

    claim = Claim(arguments.claimed_epsilon, arguments.delta)
    default: Null = "empirical" if arguments.dim is None else "closed_form"
    statistic = Statistic(None, scores, arguments.null or default, arguments.dim)
    valid = [name for name in VALID_METHODS if methods is None or name in methods]
    return reach_verdict(claim, Looks([statistic], arguments.confidence, valid)).to_json()


def _table(result: "AuditResult") -> str:
    """The estimates as aligned text, in groups of what may be relied on."""
    from fl_audit.estimators.audit import reasons
    from fl_audit.method_groups import METHOD_GROUPS

    room = max(min(shutil.get_terminal_size((100, 24)).columns, 100), 40)
    width = max(len(estimate.method) for estimate in result.estimates)
    lines = [
        f"{result.num_included} included and {result.num_excluded} excluded canaries, "
        f"delta {result.delta:g}, confidence {result.confidence:g}"
    ]
    for group in METHOD_GROUPS:
        found = [estimate for estimate in result.estimates if estimate.to_json() in group]
        if found:
            lines += ["", group.title, *textwrap.wrap(group.meaning, room)]
            lines += [f"  {e.method:<{width}}  {_epsilon(e)}" for e in found]
    if result.roc is not None:
        lines += ["", *_attack(result.roc)]
    if result.left_out:
        lines += ["", *(f"left out: {reason}" for reason in reasons(result.left_out))]
    return "\n".join(lines)


def _attack(roc: "RocSummary") -> list[str]:
    """How well scores tell who was included, in the words of membership inference."""
    interval = roc.auc_interval
    return [
        f"AUC {roc.auc:.4g} ({interval.lower:.4g} to {interval.upper:.4g}), balanced accuracy of "
        f"the best threshold {roc.balanced_accuracy:.4g}",
        "true positive rate "
        + ", ".join(
            f"{100 * point.true_positive_rate:.3g} % at FPR {100 * point.false_positive_rate:g} %"
            for point in roc.operating_points
        ),
    ]


def _epsilon(estimate: "Estimate") -> str:
    """An epsilon with what kind of number it is."""
    if estimate.kind == "lower_bound":
        return f"≥ {estimate.epsilon:.4g}"
    if estimate.kind == "interval":
        return f"  {estimate.epsilon:.4g} ({estimate.lower:.4g} to {estimate.upper:.4g})"
    return f"  {estimate.epsilon:.4g}"
