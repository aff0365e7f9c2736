"""Arms of canaries in a report: how well attackers detect each arm, and how far its scores shift.

If canaries of all arms have about equally many rounds, arms are compared like patterns
(`report.patterns`). The shifts of `own_rounds` scores, and the differences between arms' shifts,
are reported for all arms.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.attacker_bounds import AttackerBounds, attacker_bounds
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.sampling import FixedRounds, Sampling
from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.attacks.statistics import RunFacts
from fl_audit.attacks.threat_models import STATISTICS
from fl_audit.checks.training_faults import TrainingFault
from fl_audit.estimators import estimate
from fl_audit.estimators.arm_shifts import (
    LEAST_CANARIES,
    ArmComparison,
    ArmDifference,
    ArmShift,
    compare_arms,
)
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.formats.participation_files import CanaryRow
from fl_audit.formats.score_file import ScoreFile
from fl_audit.json_records import WRITTEN_IF_SET
from fl_audit.number_words import duration, significant
from fl_audit.participation.arms import read_arm
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.patterns import (
    BOUND,
    Detection,
    PatternAttacker,
    PatternTable,
    equally_often,
    mean_auc,
    pattern_attackers,
    rounds_words,
)
from fl_audit.verdict import scored_statistic
from fl_audit.verdict.claims import bound_against

Level = tuple[float, float]
"""The delta and the confidence of bounds."""

STATISTIC = "own_rounds"
"""The statistic whose scores give the shifts, as its null does not depend on a canary's rounds."""


@dataclass(frozen=True)
class ReportedArms:
    """The comparison of the arms of a run or a log."""

    comparison: ArmComparison
    delta: float  # the delta at which shifts are converted to epsilons
    # by arm, the mean over included canaries of the largest shift that accounting allows; empty for
    # a log, and without Gaussian noise
    allowed: Mapping[str, float]
    epsilons: Mapping[str, float]  # the epsilon of each arm's shift; 0 for a negative shift
    seconds: float | None = None  # training time in seconds, if known
    left_out: tuple[str, ...] = field(default=(), metadata=WRITTEN_IF_SET)
    # the mean rounds of a canary in words, and how well attackers detect each arm; both empty if
    # mean rounds differ between arms
    rounds: str = field(default="", metadata=WRITTEN_IF_SET)
    attackers: tuple[PatternAttacker, ...] = field(default=(), metadata=WRITTEN_IF_SET)


def arms_of_run(run: FinishedRun) -> ReportedArms | None:
    """The arms of a run; None without own-round scores of two arms, or if the run was stopped."""
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
        _epsilons(comparison, run.record.delta),
        run.record.training_seconds,
        left_out,
        *_as_patterns(
            [arm.arm for arm in comparison.arms],
            arms,
            run.rounds_of_canaries,
            _Scored(run.scores, run.facts, run.record.release, run.config.dropouts is None),
            (run.record.delta, confidence),
        ),
    )


@dataclass(frozen=True, eq=False)
class _Scored:
    """Scores by statistic, and facts about the audit.

    Attributes:
      release: The release, for upper bounds; None if unknown.
      is_drawn: Whether canaries' rounds have the distribution that their arm names.
    """

    scores: Mapping[str, ScoreFile]
    facts: RunFacts
    release: Release | None
    is_drawn: bool

    def detection(
        self,
        arm: str,
        is_of: npt.NDArray[np.bool_],
        name: str,
        bounds: AttackerBounds | None,
        level: Level,
    ) -> Detection | None:
        """The detection of an arm's canaries, marked by `is_of`; None without scores or a ROC."""
        statistic, delta, confidence = STATISTICS.get(name), *level
        if statistic is None or name not in self.scores:
            return None
        scored = scored_statistic(
            statistic, self.scores[name].only(is_of).canary_scores(), self.facts.of_arm(arm)
        )
        result = estimate(
            scored.scores, delta=delta, confidence=confidence, methods=[BOUND], null=scored.null
        )
        if result.roc is None:
            return None
        upper = None if bounds is None else bound_against(bounds, statistic).guarantee.epsilon
        lower = next((found.epsilon for found in result.estimates), None)
        return Detection(arm, upper, lower, *mean_auc([result.roc]))

    def bounds(self, arm: str, rounds: Sequence[IndexArray], delta: float) -> AttackerBounds | None:
        """The upper bounds for a canary of an arm; None without a release, or if delta is 0."""
        release = self.release
        if release is None or delta == 0:
            return None
        sampling: Sampling = FixedRounds(max(map(len, rounds), default=0))
        if self.is_drawn:
            sampling = read_arm(arm).sampling(release.rounds)
        squared = None
        if release.correlation is not None:
            members = np.repeat(np.arange(len(rounds)), [len(own) for own in rounds])
            squared = sampling.worst_sensitivity(release.correlation)
            squared = squared or release.correlation.worst_of(members, np.concatenate(rounds))
        return attacker_bounds(release, Party(sampling, squared), delta)


def _as_patterns(
    names: Sequence[str],
    arms: npt.NDArray[np.str_],
    rounds: Sequence[IndexArray],
    scored: _Scored,
    level: Level,
) -> tuple[str, tuple[PatternAttacker, ...]]:
    """A canary's mean number of rounds in words, and the attackers; both empty if means differ."""
    is_of = [arms == name for name in names]
    own = [[rounds[canary] for canary in np.flatnonzero(members)] for members in is_of]
    means = [float(np.mean([len(one) for one in of_arm])) for of_arm in own]
    if not equally_often(max(means), min(means)):
        return "", ()
    bounds = [scored.bounds(*of_arm, level[0]) for of_arm in zip(names, own, strict=True)]
    attackers = pattern_attackers(
        len(names), lambda i, name: scored.detection(names[i], is_of[i], name, bounds[i], level)
    )
    return rounds_words(float(np.mean(means))), attackers


def unlike_canaries(
    arms: Iterable[str | None], rounds: Iterable[Sequence[int] | IndexArray]
) -> str | None:
    """How included canaries differ, so that no single epsilon applies to them; None if alike."""
    named, numbers = {arm for arm in arms if arm}, {len(own) for own in rounds}
    if len(named) > 1:
        return f"canaries of {len(named)} arms"
    if len(numbers) > 1:
        return f"canaries in {min(numbers)} to {max(numbers)} rounds"
    return None


def arms_of_log(
    pool: Mapping[str, CanaryRow],
    scores: Mapping[str, ScoreFile],
    facts: RunFacts,
    release: Release | None,
    level: Level,
) -> ReportedArms | None:
    """The arms of a log or of scores; None without own-round scores of two arms.

    Upper bounds come from `release`; it is None if no release is known, or if canaries' rounds do
    not have the distribution that their arm names.
    """
    own = scores.get(STATISTIC)
    if own is None or facts.dim is None:
        return None
    arms = [pool[name].arm for name in own.canary_id]
    if not any(arms):
        return None
    rounds = [pool[name].rounds for name in own.canary_id]
    left_out = _left_out(arms, rounds, own)
    comparison = _compared(own, arms, facts.dim, level[1], left_out)
    if comparison is None:
        return None
    names = [arm.arm for arm in comparison.arms]
    known = [listed for listed in rounds if listed is not None]
    as_patterns: tuple[str, tuple[PatternAttacker, ...]] = ("", ())
    if len(known) == len(rounds):
        scored = _Scored(scores, facts, release, is_drawn=True)
        as_patterns = _as_patterns(names, np.array(arms), known, scored, level)
    epsilons = _epsilons(comparison, level[0])
    return ReportedArms(comparison, level[0], {}, epsilons, None, left_out, *as_patterns)


def _epsilons(comparison: ArmComparison, delta: float) -> dict[str, float]:
    return {arm.arm: epsilon_of_mu(max(arm.mu, 0.0), delta) for arm in comparison.arms}


def _left_out(
    arms: Sequence[str], rounds: Sequence[IndexArray | None], scores: ScoreFile
) -> tuple[str, ...]:
    """The arms in which fewer than `LEAST_CANARIES` included canaries are expected to participate.

    The share of an arm's canaries with any round is taken over included and excluded canaries.
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
    """The comparison of arms that are not left out; None for fewer than two arms."""
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
    """Each canary's largest allowed shift, shape (num_canaries,); None without Gaussian noise."""
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

_OF_ALL = (
    "Upper bounds in this table count on how each pattern draws its rounds. The run’s upper bound "
    "below is for all patterns together: a canary in as many rounds as any of them has, which the "
    "attacker may know."
)


def interval_words(found: ArmShift | ArmDifference) -> str:
    return f"{significant(found.lower)} to {significant(found.upper)}"


def difference_name(difference: ArmDifference) -> str:
    return f"{difference.second} − {difference.first}"


def allowed_words(arms: ReportedArms, found: ArmShift | ArmDifference) -> str:
    """The shift that accounting allows an arm, or the difference of two arms' allowed shifts."""
    if not arms.allowed:
        return "not known"
    if isinstance(found, ArmShift):
        return significant(arms.allowed[found.arm])
    return significant(arms.allowed[found.second] - arms.allowed[found.first])


def arms_as_patterns(arms: ReportedArms | None, faults: Sequence[TrainingFault]) -> PatternTable:
    """The arms by attacker; empty unless canaries of all arms participate about equally often."""
    if arms is None:
        return PatternTable((), "", 0.95)
    return PatternTable(
        arms.attackers,
        arms.rounds,
        arms.comparison.confidence,
        ("One run for all patterns: another may give other numbers.", *(f.words for f in faults)),
        (_OF_ALL,) if any(d.upper_bound for a in arms.attackers for d in a.detections) else (),
    )


def arms_words(arms: ReportedArms) -> str:
    """What arms, shifts and intervals mean, and what separate runs would have cost, in words."""
    number = len(arms.comparison.arms)
    words = (
        f"Canaries were assigned to {number} arms at random. The shift is the mean of included "
        f"canaries’ {STATISTIC} scores in standard deviations of the null distribution; the "
        f"{100 * arms.comparison.confidence:g} % intervals of shifts hold for all arms at once, "
        f"those of differences for all differences at once. {number} separate runs, each with one "
        "arm’s canaries, would give the same precision if they were otherwise alike"
    )
    if arms.left_out:
        words = (
            f"Left out, because too few of their canaries participate: {', '.join(arms.left_out)}. "
            f"{words}"
        )
    if arms.seconds is None:
        return f"{words}."
    return (
        f"{words}: {duration(number * arms.seconds)} of training instead of "
        f"{duration(arms.seconds)}."
    )


def arm_lines(arms: ReportedArms | None) -> list[str]:
    """The arms and their differences for the terminal; empty without arms."""
    if arms is None:
        return []
    found = {arm.arm: arm for arm in arms.comparison.arms} | {
        difference_name(difference): difference for difference in arms.comparison.differences
    }
    return [
        "arms                shift of included canaries (allowed by accounting)",
        *(
            f"  {name:<36}  {significant(shift.mu)}, {interval_words(shift)} "
            f"({allowed_words(arms, shift)})"
            for name, shift in found.items()
        ),
    ]
