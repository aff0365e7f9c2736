"""`fl-audit estimate`: epsilon from the scores of canaries."""

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_audit.commands import exit_status, printing
from fl_audit.commands.parser import Commands, add_command, output_file
from fl_audit.errors import InputError
from fl_audit.formats.text_files import number_in, read_csv

if TYPE_CHECKING:
    from fl_audit.estimators.null import NullKind, NullTail
    from fl_audit.report.build import EstimateRequest
    from fl_audit.report.folder import AuditedFolder
    from fl_audit.report.report import Report
    from fl_audit.verdict import ScoredStatistic
    from fl_audit.verdict.claims import Claim, CurveClaim, ProfileClaim


_CONFIDENCE = 0.95
"""The confidence without the option --confidence."""


def add(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _estimate,
        name="estimate",
        summary="epsilon from the scores of canaries, a log or a finished run",
        description=(
            "Estimate epsilon from a file of canary scores (CSV or .parquet), or from a folder: "
            "another system's log (docs/logs.md) or a finished run. Exits with status 3 if the "
            "claim is contradicted, and with 4 if a claim is stated and a mechanism check fails."
        ),
        example="fl-audit estimate scores.csv --delta 1e-5 --dim 167178",
    )
    parser.add_argument(
        "scores",
        metavar="SCORES",
        type=Path,
        help="a file with canary_id, included, score; or a folder with pool.json or scores_*.csv",
    )
    parser.add_argument(
        "--delta", type=float, help="in [0, 1); default: the delta of a run's folder; else required"
    )
    parser.add_argument(
        "--statistic", metavar="NAME", help="use only this statistic of a folder; default: all"
    )
    parser.add_argument(
        "--dim",
        type=int,
        help="number of trainable parameters; not needed if a folder states it",
    )
    parser.add_argument(
        "--canaries",
        choices=("gaussian", "rademacher", "hadamard"),
        help="family of the canaries, if scores are cosines with one vector; needs --dim. "
        "With gaussian, bounds use the exact distribution of an excluded score; else a bound on "
        "its tail that holds for every family. A folder states the family itself",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=_CONFIDENCE,
        help="confidence of each bound, and of the verdict",
    )
    parser.add_argument(
        "--methods", metavar="a,b,...", help="the methods to use; default: all that apply"
    )
    parser.add_argument(
        "--null",
        choices=("closed_form", "empirical"),
        help="null distribution of an excluded score; default: closed_form with --dim, else "
        "empirical; in a folder: chosen per statistic",
    )
    _add_claims(parser)
    exit_status.add_require(parser)
    printing.add_junit(parser)
    parser.add_argument(
        "--out", metavar="FILE.html", type=output_file, help="write the report as a page"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    printing.add_verbose(parser)


_CLAIMS = {
    "claimed_epsilon": ("E", float, "test the claim that training is (E, delta)-private"),
    "claimed_mu": (
        "MU",
        float,
        "test the claim that training is MU-GDP, as a whole trade-off curve",
    ),
    "claimed_rho": (
        "RHO",
        float,
        "test the claim that training is RHO-zCDP, as a whole trade-off curve",
    ),
    "claimed_noise": (
        "Z",
        float,
        "test the claim of Gaussian noise with this multiplier, for canaries of one round",
    ),
    "claimed_profile": (
        "FILE.csv",
        Path,
        "test the claim of a privacy profile, a CSV file with the columns epsilon and delta, as a "
        "whole trade-off curve; default: claim.csv of a log folder that has one",
    ),
}
"""The options that state a claim, at most one of which is given: metavar, type and help."""


def _add_claims(parser: argparse.ArgumentParser) -> None:
    claims = parser.add_argument_group("claim, at most one").add_mutually_exclusive_group()
    for name, (metavar, kind, meaning) in _CLAIMS.items():
        option = f"--{name.replace('_', '-')}"
        claims.add_argument(option, metavar=metavar, type=kind, help=meaning)


def _estimate(arguments: argparse.Namespace) -> int:
    """Reports on the scores; returns the exit status."""
    from fl_audit.report.folder import AuditedFolder

    _check_source(arguments.scores)
    is_claimed = _settle_claim(arguments)
    exit_status.check_required(
        arguments.require, is_claimed=is_claimed, how="give --claimed-epsilon"
    )
    source = AuditedFolder(arguments.scores, printing.scoring_progress)
    if arguments.delta is None:
        arguments.delta = source.delta
    if arguments.delta is None:
        raise InputError(f"--delta: is required (such as 1e-5), as {source.path} records none")
    audit = _folder_report if arguments.scores.is_dir() else _file_report
    report, scored = audit(source, arguments, _request(arguments))
    if arguments.json:
        printing.print_json(_json(report, arguments.scores.is_dir()))
    else:
        printing.print_report(report, is_verbose=arguments.verbose)
    if arguments.out is not None:
        sys.stdout.flush()
        from fl_audit.report.page import render_estimates

        page = render_estimates(source, report, scored, _command(arguments))
        printing.write_page(page, arguments.out)
        printing.print_path("page", arguments.out, is_json=arguments.json)
    printing.write_junit(report, arguments.junit, arguments.require)
    return exit_status.exit_status_of(report, arguments.require)


_SHAPING = ("delta", "statistic", "dim", "canaries", "confidence", "methods", "null", *_CLAIMS)
"""The options that change what a page says."""


def _command(arguments: argparse.Namespace) -> str:
    """The command that estimates alike, without the options that say where results go."""
    words = ["fl-audit", "estimate", str(arguments.scores)]
    for name in _SHAPING:
        given = getattr(arguments, name)
        if given is not None and (name, given) != ("confidence", _CONFIDENCE):
            words += [f"--{name.replace('_', '-')}", str(given)]
    return shlex.join(words)


def _check_source(scores: Path) -> None:
    """Raises InputError for a missing path, a config, or a folder without scores."""
    from fl_audit.report.folder import check_holds_scores

    try:
        scores.stat()
    except OSError as error:
        raise InputError(f"{scores}: cannot be read: {error.strerror}") from error
    if scores.suffix == ".toml":
        raise InputError(
            f"{scores}: is a config, which has no scores; `fl-audit run {scores} --out DIR` "
            "trains and scores"
        )
    if scores.is_dir():
        check_holds_scores(scores)


def _json(report: "Report", is_folder: bool) -> dict[str, object]:
    """The JSON object of a folder's statistics, or of the one statistic of a file."""
    from fl_audit.json_records import to_json
    from fl_audit.report.report import estimates_to_json, report_to_json

    if is_folder:
        return report_to_json(report)
    (statistic,) = report.statistics.values()
    verdict = {} if report.verdict is None else {"verdict": to_json(report.verdict)}
    return estimates_to_json(statistic) | verdict


def _file_report(
    source: "AuditedFolder", arguments: argparse.Namespace, request: "EstimateRequest"
) -> "tuple[Report, list[ScoredStatistic]]":
    from fl_audit.estimators.null import Null
    from fl_audit.formats.score_file import read_score_file
    from fl_audit.report.build import report_on_file
    from fl_audit.verdict import ScoredStatistic

    if arguments.statistic is not None:
        raise InputError(
            f"--statistic: chooses among a folder's statistics; {source.path} holds one statistic"
        )
    scores = read_score_file(source.path).canary_scores()
    default: NullKind = "empirical" if arguments.dim is None else "closed_form"
    kind: NullKind = arguments.null or default
    tail = _null_tail(arguments.canaries, arguments.dim, kind)
    scored = ScoredStatistic(None, scores, Null(kind, tail, arguments.dim, source="argument"))
    return report_on_file(source.path, scored, request), [scored]


def _null_tail(family: str | None, dim: int | None, kind: "NullKind") -> "NullTail | None":
    """The tail bound of a cosine with one vector, for a family; None without a family."""
    if family is None:
        return None
    from fl_audit.attacks.compared_vectors import ANY_VECTOR
    from fl_audit.estimators.scores import check_dim

    if dim is None or kind == "empirical":
        raise InputError(
            "--canaries: is only for the closed_form null, which needs --dim; give --dim, or leave "
            "out --canaries"
        )
    check_dim(dim)
    return ANY_VECTOR.null_tail(family, dim)


def _folder_report(
    source: "AuditedFolder", arguments: argparse.Namespace, request: "EstimateRequest"
) -> "tuple[Report, list[ScoredStatistic]]":
    from fl_audit.report.build import report_on_statistics
    from fl_audit.report.folder import check_statistic, chosen_statistic, folder_statistics

    check_statistic(source.path, arguments.statistic)
    statistics = folder_statistics(source, arguments.dim, arguments.null, arguments.canaries)
    chosen = chosen_statistic(source.path, statistics, arguments.statistic)
    others = [name for name in statistics if name not in chosen]
    return report_on_statistics(source, chosen, request, others), chosen


def _request(arguments: argparse.Namespace) -> "EstimateRequest":
    from fl_audit.report.build import EstimateRequest

    methods = arguments.methods
    return EstimateRequest(
        delta=arguments.delta,
        confidence=arguments.confidence,
        methods=None if methods is None else [name.strip() for name in methods.split(",")],
        claim=_claim(arguments),
    )


def _settle_claim(arguments: argparse.Namespace) -> bool:
    """Whether a claim is stated; without an option, a log folder's claim.csv becomes the claim."""
    from fl_audit.formats.folders import LogFolder

    if any(getattr(arguments, name) is not None for name in _CLAIMS):
        return True
    recorded = LogFolder(arguments.scores).claim
    arguments.claimed_profile = recorded if recorded.exists() else None
    return arguments.claimed_profile is not None


def _claim(arguments: argparse.Namespace) -> "Claim | CurveClaim | None":
    from fl_audit.verdict.claims import Claim, GaussianClaim, NoiseClaim, ZeroConcentratedClaim

    kinds: dict[str, Callable[[Any, float], Claim | CurveClaim]] = {
        "claimed_epsilon": Claim,
        "claimed_mu": GaussianClaim,
        "claimed_rho": ZeroConcentratedClaim,
        "claimed_noise": NoiseClaim,
        "claimed_profile": _profile_claim,
    }
    for name, claim in kinds.items():
        if (stated := getattr(arguments, name)) is not None:
            return claim(stated, arguments.delta)
    return None


def _profile_claim(path: Path, delta: float) -> "ProfileClaim":
    from fl_audit.verdict.claims import ProfileClaim

    points = read_profile(path)
    try:
        return ProfileClaim(points, delta)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


# The file of a claimed privacy profile.


def read_profile(path: Path) -> tuple[tuple[float, float], ...]:
    """The points of a privacy profile: pairs of epsilon and delta."""
    return tuple(
        (number_in(row, "epsilon", path, number), number_in(row, "delta", path, number))
        for number, row in enumerate(read_csv(path, ("epsilon", "delta")), start=1)
    )
