"""The command `fl-audit estimate`, which estimates epsilon from the scores of canaries."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands.exit_status import verdict_status
from fl_audit.commands.parser import add_command
from fl_audit.commands.printing import print_json, verdict_lines

if TYPE_CHECKING:
    from fl_audit.commands.parser import Commands
    from fl_audit.estimators.audit import AuditResult
    from fl_audit.estimators.laws import NullTail
    from fl_audit.estimators.setting import Null
    from fl_audit.verdict import ScoredStatistic, Verdict


def add(commands: "Commands") -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _estimate,
        name="estimate",
        summary="epsilon from the scores of canaries",
        description=(
            "Estimate epsilon from a file of canary scores (CSV or .parquet), or from a folder: a "
            "production system's log (docs/logs.md) or a finished run. Exits with status 3 where "
            "the scores contradict --claimed-epsilon."
        ),
    )
    parser.add_argument(
        "scores",
        metavar="SCORES",
        type=Path,
        help="a file with canary_id, included, score; or a folder with pool.json or scores_*.csv",
    )
    parser.add_argument("--delta", type=float, required=True, help="in [0, 1)")
    parser.add_argument(
        "--statistic", metavar="NAME", help="the one statistic of a folder to look at; default: all"
    )
    parser.add_argument(
        "--dim", type=int, help="number of trainable parameters; a folder's is in it"
    )
    parser.add_argument(
        "--canaries",
        choices=("gaussian", "rademacher", "hadamard"),
        help="family of the canaries whose cosines with one vector the scores are; needs --dim. "
        "With gaussian bounds take the exact law of an excluded score; else they take what holds "
        "for all families and any vector. A folder's is in it",
    )
    parser.add_argument("--confidence", type=float, default=0.95, help="of each bound")
    parser.add_argument("--methods", metavar="a,b,...", help="default: all that apply")
    parser.add_argument(
        "--null",
        choices=("closed_form", "empirical"),
        help="law of an excluded score; default: closed_form with --dim, else empirical; in a "
        "folder: what is known of each statistic",
    )
    parser.add_argument(
        "--claimed-epsilon",
        metavar="E",
        type=float,
        help="give a verdict on the claim of (E, delta)-privacy for whom the canaries stand for",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _estimate(arguments: argparse.Namespace) -> int:
    return _of_folder(arguments) if arguments.scores.is_dir() else _of_file(arguments)


def _of_file(arguments: argparse.Namespace) -> int:
    from fl_audit.commands.estimate_lines import file_lines
    from fl_audit.errors import InputError
    from fl_audit.formats.score_file import read_score_file
    from fl_audit.verdict import ScoredStatistic

    if arguments.statistic is not None:
        raise InputError(
            f"--statistic: is about a folder; {arguments.scores} is the file of one statistic"
        )
    scores = read_score_file(arguments.scores).canary_scores()
    default: Null = "empirical" if arguments.dim is None else "closed_form"
    null: Null = arguments.null or default
    tail = _null_tail(arguments.canaries, arguments.dim, null)
    statistic = ScoredStatistic(None, scores, null, arguments.dim, tail)
    result = _result(arguments, statistic)
    verdict = _verdict(arguments, [statistic])
    if arguments.json:
        print_json(result.to_json() | _verdict_json(verdict))
    else:
        print("\n".join([*file_lines(result), *_verdict_lines(verdict)]))
    return verdict_status(None if verdict is None else verdict.outcome)


def _null_tail(family: str | None, dim: int | None, null: "Null") -> "NullTail | None":
    """The bound on the tail of a cosine with one vector that the canaries' family gives.

    Raises:
      InputError: A family is given, but the dimension is missing or below 2, or the null is
        empirical.
    """
    if family is None:
        return None
    from fl_audit.attacks.compared_vectors import ANY_VECTOR
    from fl_audit.errors import InputError

    if dim is None or null == "empirical":
        raise InputError(
            "--canaries: is about the closed_form null, which needs --dim; give it, or leave out "
            "--canaries"
        )
    if dim < 2:
        raise InputError(f"--dim: must be at least 2, got {dim}")
    return ANY_VECTOR.null_tail(family, dim)


def _of_folder(arguments: argparse.Namespace) -> int:
    """Estimates from the statistics of a folder that are asked for, with one verdict over them."""
    from fl_audit.commands.estimate_lines import folder_lines
    from fl_audit.commands.progress import scoring_progress
    from fl_audit.errors import InputError
    from fl_audit.report.folder_statistics import chosen_statistic, folder_statistics

    statistics = chosen_statistic(
        arguments.scores,
        folder_statistics(
            arguments.scores,
            arguments.dim,
            arguments.null,
            arguments.canaries,
            progress=scoring_progress,
        ),
        arguments.statistic,
    )
    results = {}
    for statistic in statistics:
        try:
            results[str(statistic.name)] = _result(arguments, statistic)
        except InputError as error:
            raise InputError(f"{arguments.scores}, statistic {statistic.name}: {error}") from error
    verdict = _verdict(arguments, statistics)
    if arguments.json:
        made = {"statistics": {name: result.to_json() for name, result in results.items()}}
        print_json(made | _verdict_json(verdict))
    else:
        print("\n".join([*folder_lines(results), *_verdict_lines(verdict)]))
    return verdict_status(None if verdict is None else verdict.outcome)


def _methods(arguments: argparse.Namespace) -> list[str] | None:
    methods = arguments.methods
    return None if methods is None else [name.strip() for name in methods.split(",")]


def _result(arguments: argparse.Namespace, statistic: "ScoredStatistic") -> "AuditResult":
    from fl_audit.estimators.audit import estimate

    return estimate(
        statistic.scores,
        delta=arguments.delta,
        dim=statistic.dim,
        confidence=arguments.confidence,
        methods=_methods(arguments),
        null=statistic.null,
        null_tail=statistic.null_tail,
    )


def _verdict(
    arguments: argparse.Namespace, statistics: "Sequence[ScoredStatistic]"
) -> "Verdict | None":
    """The verdict by the chosen methods that hold for any mechanism; None without a claim."""
    if arguments.claimed_epsilon is None:
        return None
    from fl_audit.verdict import Claim, ClaimTests, chosen_methods, reach_verdict

    claim = Claim(arguments.claimed_epsilon, arguments.delta)
    tests = ClaimTests(statistics, arguments.confidence, chosen_methods(_methods(arguments)))
    return reach_verdict(claim, tests)


def _verdict_json(verdict: "Verdict | None") -> dict[str, object]:
    return {} if verdict is None else {"verdict": verdict.to_json()}


def _verdict_lines(verdict: "Verdict | None") -> list[str]:
    return [] if verdict is None else verdict_lines(verdict.claim, verdict.outcome, verdict.reason)
