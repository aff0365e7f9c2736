"""Arms of canaries in a report: the shift of each arm, and the difference of any two."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fl_audit.accounting.release import Release
from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.estimators.arm_shifts import LEAST_CANARIES, ArmComparison, compare_arms
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.formats.participation_files import CanaryRow
from fl_audit.formats.score_file import ScoreFile
from fl_audit.json_records import WRITTEN_IF_SET
from fl_audit.number_words import duration, significant
from fl_audit.report.finished_run import FinishedRun

STATISTIC = "own_rounds"
"""The statistic whose scores are compared: its null does not depend on a canary's rounds."""


@dataclass(frozen=True)
class ReportedArms:
    """The shifts of the arms of a run."""

    comparison: ArmComparison
    delta: float  # the delta at which shifts are converted to epsilons
    # by arm, the mean of the shifts that accounting allows its included canaries; empty if
    # accounting does not cover the run
    allowed: Mapping[str, float]
    seconds: float | None = None  # training time in seconds, if known
    left_out: tuple[str, ...] = field(default=(), metadata=WRITTEN_IF_SET)

    def epsilons(self) -> dict[str, float]:
        """The epsilon of each arm's shift, 0 where it is negative."""
        return {
            arm.arm: epsilon_of_mu(max(arm.mu, 0.0), self.delta) for arm in self.comparison.arms
        }


def arms_of_run(run: FinishedRun) -> ReportedArms | None:
    """The arms of a run; None if it has none, was stopped, or has no scores of its rounds."""
    if not run.arms or STATISTIC not in run.scores or run.record.stopped_after is not None:
        return None
    scores, confidence = run.scores[STATISTIC], run.config.audit.confidence
    left_out = _left_out(run.arms, run.rounds_of_canaries, scores)
    comparison = _compared(scores, run.arms, run.record.dim, confidence, left_out)
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
        left_out,
    )


def unlike_canaries(
    arms: Iterable[str | None], rounds: Iterable[Sequence[int] | IndexArray]
) -> str | None:
    """In what the included canaries differ, so that one epsilon is that of none; None if alike."""
    named, numbers = {arm for arm in arms if arm}, {len(own) for own in rounds}
    if len(named) > 1:
        return f"canaries of {len(named)} arms"
    if len(numbers) > 1:
        return f"canaries in {min(numbers)} to {max(numbers)} rounds"
    return None


def arms_of_log(
    pool: Mapping[str, CanaryRow], scores: ScoreFile, dim: int, delta: float, confidence: float
) -> ReportedArms | None:
    """The arms of a log whose canaries.csv names them, else None."""
    arms = [pool[name].arm for name in scores.canary_id]
    if not any(arms):
        return None
    rounds = [pool[name].rounds for name in scores.canary_id]
    left_out = _left_out(arms, rounds, scores)
    comparison = _compared(scores, arms, dim, confidence, left_out)
    if comparison is None:
        return None
    return ReportedArms(comparison, delta, {}, left_out=left_out)


def _left_out(
    arms: Sequence[str], rounds: Sequence[IndexArray | None], scores: ScoreFile
) -> tuple[str, ...]:
    """The arms of which fewer than `LEAST_CANARIES` included canaries are expected to participate.

    The share that participates is that of all canaries of the arm, excluded ones too.
    """
    of_arm = np.array(arms)
    participates = np.array([own is None or len(own) > 0 for own in rounds])
    return tuple(
        name
        for name in sorted({name for name in arms if name})
        if scores.included[of_arm == name].sum() * participates[of_arm == name].mean()
        < LEAST_CANARIES
    )


def _compared(
    scores: ScoreFile, arms: Sequence[str], dim: int, confidence: float, left_out: Sequence[str]
) -> ArmComparison | None:
    """The comparison; None without two arms, or if any has too few included canaries."""
    deviates = math.sqrt(dim) * scores.score
    arm_of_canary = np.array(arms)
    included = {
        name: deviates[(arm_of_canary == name) & scores.included]
        for name in dict.fromkeys(arms)
        if name and name not in left_out
    }
    if len(included) < 2:
        return None
    return compare_arms(dict(sorted(included.items())), confidence)


def _allowed(release: Release, rounds: Sequence[IndexArray]) -> FloatArray | None:
    """The largest shift of each canary under the noise, of shape (num_canaries,), if known."""
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


def arm_rows(arms: ReportedArms) -> list[tuple[str, ...]]:
    """Name, included canaries, shift, its interval, accounting, and the epsilon of the shift."""
    epsilons = arms.epsilons()
    return [
        (
            arm.arm,
            f"{arm.num_included:,}",
            significant(arm.mu),
            f"{significant(arm.lower)} to {significant(arm.upper)}",
            significant(arms.allowed[arm.arm]) if arm.arm in arms.allowed else "not known",
            significant(epsilons[arm.arm]),
        )
        for arm in arms.comparison.arms
    ]


def difference_rows(arms: ReportedArms) -> list[tuple[str, ...]]:
    """Names, the difference of their shifts, its interval, and accounting's."""
    rows: list[tuple[str, ...]] = []
    for difference in arms.comparison.differences:
        allowed = "not known"
        if arms.allowed:
            allowed = significant(arms.allowed[difference.second] - arms.allowed[difference.first])
        interval = f"{significant(difference.lower)} to {significant(difference.upper)}"
        name = f"{difference.second} − {difference.first}"
        rows.append((name, significant(difference.mu), interval, allowed))
    return rows


def arms_words(arms: ReportedArms) -> str:
    """How to read the intervals, and what separate runs would have cost."""
    number = len(arms.comparison.arms)
    words = (
        f"Canaries were assigned to {number} arms at random. The shift is the mean of included "
        f"canaries’ {STATISTIC} scores in standard deviations of the null distribution; the "
        f"{100 * arms.comparison.confidence:g} % intervals hold for all arms at once, and for all "
        f"differences at once. {number} separate runs, each with one arm’s canaries, would "
        "give the same precision, if runs did not differ otherwise"
    )
    if arms.left_out:
        words = (
            f"Left out, as few of their canaries participate: {', '.join(arms.left_out)}. {words}"
        )
    if arms.seconds is None:
        return f"{words}."
    return f"{words}: {duration(number * arms.seconds)} of training, not {duration(arms.seconds)}."


def arm_lines(arms: ReportedArms) -> list[str]:
    """The arms and their differences for the terminal."""
    lines = ["arms                shift of included canaries (accounting)"]
    of_arms = [(name, *rest) for name, _, *rest, _ in arm_rows(arms)]
    for name, shift, interval, allowed in (*of_arms, *difference_rows(arms)):
        lines.append(f"  {name:<36}  {shift}, {interval} ({allowed})")
    return lines
