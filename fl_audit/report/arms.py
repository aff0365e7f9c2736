"""Arms of canaries in a report: what each shows, and by how much any two differ."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.accounting.release import Release
from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.estimators.arms import LEAST_CANARIES, ArmComparison, compare_arms
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.formats.participation_files import CanaryRow
from fl_audit.formats.score_file import ScoreFile
from fl_audit.number_words import duration, significant
from fl_audit.report.finished_run import FinishedRun

STATISTIC = "own_rounds"
"""The statistic whose scores are compared: its null is one for canaries of any rounds."""


@dataclass(frozen=True)
class ReportedArms:
    """What the arms of a run show of its patterns.

    Attributes:
      comparison: The shifts of the arms and their differences.
      delta: The delta at which shifts are said as epsilons.
      allowed: The mean over an arm's included canaries of the shift that accounting allows them, by
        arm; empty where it is not known.
      seconds: The time that the run's training took, in seconds; None where it is not known.
    """

    comparison: ArmComparison
    delta: float
    allowed: Mapping[str, float]
    seconds: float | None = None


def arms_of_run(run: FinishedRun) -> ReportedArms | None:
    """The arms of a run; None where it has none, or its rounds' scores are not there."""
    if not run.arms or STATISTIC not in run.scores or run.record.stopped_after is not None:
        return None
    comparison = _compared(
        run.scores[STATISTIC], run.arms, run.record.dim, run.config.audit.confidence
    )
    if comparison is None:
        return None
    allowed = _allowed(run.record.release, run.rounds_of_canaries)
    arms, is_in = np.array(run.arms), run.included
    return ReportedArms(
        comparison,
        run.record.delta,
        {
            arm.arm: float(allowed[(arms == arm.arm) & is_in].mean())
            for arm in comparison.arms
            if allowed is not None
        },
        run.record.training_seconds,
    )


def arms_of_log(
    pool: Mapping[str, CanaryRow], scores: ScoreFile, dim: int, delta: float, confidence: float
) -> ReportedArms | None:
    """The arms of a log whose canaries.csv names them; None where it names none."""
    arms = [pool[name].arm for name in scores.canary_id]
    if not any(arms):
        return None
    comparison = _compared(scores, arms, dim, confidence)
    return None if comparison is None else ReportedArms(comparison, delta, {})


def _compared(
    scores: ScoreFile, arms: Sequence[str], dim: int, confidence: float
) -> ArmComparison | None:
    """The comparison; None where arms have too few included canaries."""
    deviates = math.sqrt(dim) * scores.score
    of_arm = np.array(arms)
    included = {
        name: deviates[(of_arm == name) & scores.included] for name in dict.fromkeys(arms) if name
    }
    if len(included) < 2 or min(map(len, included.values())) < LEAST_CANARIES:
        return None
    return compare_arms(dict(sorted(included.items())), confidence)


def _allowed(release: Release, rounds: Sequence[IndexArray]) -> FloatArray | None:
    """The shift that the noise allows each canary, of shape (num_canaries,); None if not known."""
    z = release.noise.noise_multiplier
    if z == 0 or release.noise.distribution not in ("gaussian", "tree", "matrix"):
        return None
    if release.correlation is None:
        return np.sqrt([len(own) for own in rounds]) / z
    presences = np.zeros((len(rounds), release.rounds))
    for row, own in zip(presences, rounds, strict=True):
        row[own] = 1.0
    squared = (release.correlation.weights(presences) * presences).sum(axis=1)
    return np.asarray(np.sqrt(squared) / z)


# In words.


@dataclass(frozen=True)
class ArmRow:
    """One arm, or one difference of two, as a table shows it."""

    name: str
    canaries: str
    shift: str
    interval: str
    allowed: str
    epsilon: str


def arm_rows(arms: ReportedArms) -> list[ArmRow]:
    """A row for each arm."""
    return [
        ArmRow(
            arm.arm,
            f"{arm.num_included:,}",
            significant(arm.mu),
            f"{significant(arm.lower)} to {significant(arm.upper)}",
            significant(arms.allowed[arm.arm]) if arm.arm in arms.allowed else "not known",
            significant(epsilon_of_mu(max(arm.mu, 0.0), arms.delta)),
        )
        for arm in arms.comparison.arms
    ]


def difference_rows(arms: ReportedArms) -> list[ArmRow]:
    """A row for each difference."""
    rows = []
    for difference in arms.comparison.differences:
        allowed = "not known"
        if arms.allowed:
            allowed = significant(arms.allowed[difference.second] - arms.allowed[difference.first])
        interval = f"{significant(difference.lower)} to {significant(difference.upper)}"
        name = f"{difference.second} − {difference.first}"
        rows.append(ArmRow(name, "", significant(difference.mu), interval, allowed, ""))
    return rows


def arms_words(arms: ReportedArms) -> str:
    """How to read the intervals, and what runs side by side would have cost."""
    number = len(arms.comparison.arms)
    words = (
        f"Canaries were assigned to {number} arms at random. The shift is the mean of included "
        f"canaries’ {STATISTIC} scores in standard deviations of the null distribution; the "
        f"{100 * arms.comparison.confidence:g} % intervals hold for all arms at once, and for all "
        f"differences at once. {number} runs side by side, each with one arm’s canaries, would "
        "have told as much, if runs did not differ otherwise"
    )
    if arms.seconds is None:
        return f"{words}."
    return f"{words}: {duration(number * arms.seconds)} of training, not {duration(arms.seconds)}."


def arm_lines(arms: ReportedArms) -> list[str]:
    """The arms and their differences for the terminal."""
    lines = ["arms                shift of included canaries (accounting)"]
    for row in (*arm_rows(arms), *difference_rows(arms)):
        lines.append(f"  {row.name:<36}  {row.shift}, {row.interval} ({row.allowed})")
    return lines
