"""From what the models of an attack say to scores, counts, losses and a report."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.config.attack import num_models
from fl_audit.estimators import CanaryScores, estimate
from fl_audit.estimators.challenge_bases.grid import grid_posterior
from fl_audit.estimators.challenge_bases.model import ChallengeCounts, Prior
from fl_audit.formats.score_file import COUNT_COLUMNS, ScoreFile, write_score_file
from fl_audit.formats.text_files import write_text
from fl_audit.membership.lira import online_lira
from fl_audit.membership.measure_mia import measure_mia
from fl_audit.membership.outputs import epsilon_star_of_model
from fl_audit.pipeline.attacked_bases import AttackedBase, Chosen, Target
from fl_audit.report.attack import AttackReport, render_attack

METHODS = ("bayes", "threshold_valid", "threshold_jeffreys", "threshold_clopper_pearson")
"""The methods of report.json for scores of independent models."""


def score_files(bases: Sequence[AttackedBase]) -> dict[str, ScoreFile]:
    """The challenges' scores by statistic: the log likelihood ratio, minus loss, and margin."""
    margins = np.concatenate([base.challenged.values[:, 0] for base in bases])
    scores = {
        "lira": np.concatenate(
            [online_lira(base.challenged.values, base.shadow)[:, 0] for base in bases]
        ),
        "loss": -np.concatenate([base.losses for base in bases]),
        "margin": margins,
    }
    ids = tuple(
        f"{base.member}-{model}" for base in bases for model in range(len(base.challenged.values))
    )
    member = np.concatenate([base.challenged.member[:, 0] for base in bases])
    return {name: ScoreFile(ids, member, values) for name, values in scores.items()}


def error_counts(bases: Sequence[AttackedBase], false_positive_rate: float) -> ChallengeCounts:
    """The errors of the loss-based attack on each base, at one target false positive rate."""
    of_bases = []
    for base in bases:
        sides = [
            -of.values[of.member[:, 0] == is_member].T
            for of in (base.challenged, base.shadow)
            for is_member in (False, True)
        ]
        of_bases.append(measure_mia(*sides).counts(false_positive_rate))
    return ChallengeCounts(
        *(np.concatenate([getattr(counts, name) for counts in of_bases]) for name in COUNT_COLUMNS)
    )


def make_report(
    target: Target,
    scores: Mapping[str, ScoreFile],
    chosen: Chosen,
    bases: Sequence[AttackedBase],
) -> AttackReport:
    """The report of the challenges on all bases."""
    attack, worst = target.attack, chosen.worst
    of_canaries: dict[str, CanaryScores] = {
        name: file.canary_scores() for name, file in scores.items()
    }
    counts = error_counts(bases, attack.false_positive_rate)
    return AttackReport(
        scores=of_canaries,
        results={
            name: estimate(
                values, delta=target.delta, confidence=attack.confidence, methods=METHODS
            )
            for name, values in of_canaries.items()
        },
        counts=counts,
        posterior=grid_posterior(counts, target.delta, Prior()),
        privacy=epsilon_star_of_model(
            chosen.margins[chosen.training], chosen.margins[~chosen.training], target.delta
        ),
        members=tuple(
            target.member(int(index), float(accuracy), float(separation))
            for index, accuracy, separation in zip(
                worst.points, worst.accuracy, worst.separation, strict=True
            )
        ),
        accuracy=float(np.mean([base.accuracy for base in bases])),
        guaranteed=target.guaranteed,
        words=target.words,
        num_models=num_models(attack),
        delta=target.delta,
        confidence=attack.confidence,
    )


def write_results(
    folder: Path,
    scores: Mapping[str, ScoreFile],
    chosen: Chosen,
    report: AttackReport,
) -> None:
    """Writes all files; report.json is the last, and its presence means that all are there."""
    for name, file in scores.items():
        write_score_file(folder / f"scores_{name}.csv", file)
    counts = report.counts
    columns = [getattr(counts, name).tolist() for name in COUNT_COLUMNS]
    _write_csv(folder / "counts.csv", COUNT_COLUMNS, list(zip(*columns, strict=True)))
    for name, members in (("members", chosen.training), ("population", ~chosen.training)):
        _write_losses(folder / f"losses_{name}.csv", chosen.losses, np.flatnonzero(members))
    write_text(folder / "report.html", render_attack(report))
    text = json.dumps(report.to_json(), indent=2, allow_nan=False)
    write_text(folder / "report.json", text + "\n")


def _write_losses(path: Path, losses: FloatArray, points: IndexArray) -> None:
    _write_csv(path, ("id", "loss"), [(int(point), float(losses[point])) for point in points])


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
    write_text(path, "\n".join(lines) + "\n")
