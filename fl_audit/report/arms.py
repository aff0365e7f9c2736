"""Arms of canaries in a report: how well attackers detect each arm, and how far its scores shift.

If canaries of all arms have about equally many rounds, arms are compared like patterns
(`report.patterns`). The shifts of `own_rounds` scores, and the differences between arms' shifts,
are reported for all arms.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.attacker_bounds import AttackerBounds, attacker_bounds
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.sampling import FixedRounds, Sampling
from fl_audit.array_types import FloatArray, IntArray
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
    if run.record.stopped_after is not None:
        return None
    record = run.record
    found = _ScoredArms(
        run.scores,
        run.facts,
        np.array(run.arms),
        run.rounds_of_canaries,
        record.release,
        is_drawn=run.config.dropouts is None,
        delta=record.delta,
        confidence=run.config.audit.confidence,
    ).reported()
    if found is None:
        return None
    return dataclasses.replace(
        found, allowed=allowed_of_run(run, found), seconds=record.training_seconds
    )


def allowed_of_run(run: FinishedRun, found: ReportedArms) -> dict[str, float]:
    """`ReportedArms.allowed` of the arms that were found in a run."""
    allowed, arms = _allowed(run.record.release, run.rounds_of_canaries), np.array(run.arms)
    if allowed is None:
        return {}
    return {
        arm.arm: float(allowed[(arms == arm.arm) & run.included].mean())
        for arm in found.comparison.arms
    }


def arms_of_log(
    pool: Mapping[str, CanaryRow],
    scores: Mapping[str, ScoreFile],
    facts: RunFacts,
    release: Release | None,
    level: tuple[float, float],
) -> ReportedArms | None:
    """The arms of a log or of scores; None without own-round scores of two arms.

    Upper bounds come from `release`; it is None if no release is known, or if canaries' rounds do
    not have the distribution that their arm names. `level` has the delta and the confidence.
    """
    if STATISTIC not in scores:
        return None
    rows = [pool[name] for name in scores[STATISTIC].canary_id]
    arms, rounds = np.array([row.arm for row in rows]), [row.rounds for row in rows]
    return _ScoredArms(scores, facts, arms, rounds, release, True, *level).reported()


@dataclass(frozen=True, eq=False)
class _ScoredArms:
    """Scores by statistic, and facts about the canaries and the audit.

    Attributes:
      arms: The arm of each canary, of shape (num_canaries,); empty for none.
      rounds: The rounds of each canary; None if not known.
      release: The release, for upper bounds; None if unknown.
      is_drawn: Whether canaries' rounds have the distribution that their arm names.
      delta: The delta of bounds.
      confidence: The confidence of bounds, and of the comparison.
    """

    scores: Mapping[str, ScoreFile]
    facts: RunFacts
    arms: npt.NDArray[np.str_]
    rounds: Sequence[IntArray | None]
    release: Release | None
    is_drawn: bool
    delta: float
    confidence: float

    def reported(self) -> ReportedArms | None:
        """The comparison of arms that are not left out; None without own-round scores of two."""
        own = self.scores.get(STATISTIC)
        if own is None or self.facts.dim is None or not len(self.arms):
            return None
        left_out = self._left_out(own)
        deviates = math.sqrt(self.facts.dim) * own.score
        included = {
            name: deviates[(self.arms == name) & own.included]
            for name in self._names
            if name not in left_out
        }
        if len(included) < 2:
            return None
        comparison = compare_arms(included, self.confidence)
        epsilons = {arm.arm: epsilon_of_mu(max(arm.mu, 0.0), self.delta) for arm in comparison.arms}
        as_patterns = self._as_patterns(list(included))
        return ReportedArms(comparison, self.delta, {}, epsilons, None, left_out, *as_patterns)

    @property
    def _names(self) -> list[str]:
        return sorted(set(self.arms.tolist()) - {""})

    def _left_out(self, own: ScoreFile) -> tuple[str, ...]:
        """The arms in which fewer than `LEAST_CANARIES` included canaries probably participate.

        The share of an arm's canaries with any round is taken over included and excluded canaries.
        """
        participates = np.array([rounds is None or len(rounds) > 0 for rounds in self.rounds])
        return tuple(
            name
            for name in self._names
            if own.included[self.arms == name].sum() * participates[self.arms == name].mean()
            < LEAST_CANARIES
        )

    def _as_patterns(self, names: Sequence[str]) -> tuple[str, tuple[PatternAttacker, ...]]:
        """A canary's mean number of rounds in words, and the attackers.

        Both are empty if means differ, or if rounds are not known.
        """
        known = [rounds for rounds in self.rounds if rounds is not None]
        if len(known) < len(self.rounds):
            return "", ()
        is_of = [self.arms == name for name in names]
        own = [[known[canary] for canary in np.flatnonzero(members)] for members in is_of]
        means = [float(np.mean([len(one) for one in of_arm])) for of_arm in own]
        if not equally_often(max(means), min(means)):
            return "", ()
        bounds = list(map(self._bounds, names, own))
        canaries = np.array(self.scores[STATISTIC].canary_id)
        attackers = pattern_attackers(
            len(names),
            lambda i, name: self._detection(names[i], canaries[is_of[i]], name, bounds[i]),
        )
        return rounds_words(float(np.mean(means))), attackers

    def _detection(
        self, arm: str, members: npt.NDArray[np.str_], name: str, bounds: AttackerBounds | None
    ) -> Detection | None:
        """The detection of an arm's `members`, by canary_id; None without scores or a ROC."""
        statistic = STATISTICS.get(name)
        if statistic is None or name not in self.scores:
            return None
        scores = self.scores[name]
        scores = scores.only(np.isin(scores.canary_id, members))  # its order may differ
        scored = scored_statistic(statistic, scores.canary_scores(), self.facts.of_arm(arm))
        delta, confidence = self.delta, self.confidence
        result = estimate(
            scored.scores, delta=delta, confidence=confidence, methods=[BOUND], null=scored.null
        )
        if result.roc is None:
            return None
        upper = None if bounds is None else bound_against(bounds, statistic).guarantee.epsilon
        lower = next((found.epsilon for found in result.estimates), None)
        return Detection(arm, upper, lower, *mean_auc([result.roc]))

    def _bounds(self, arm: str, rounds: Sequence[IntArray]) -> AttackerBounds | None:
        """The upper bounds for a canary of an arm; None without a release, or if delta is 0."""
        release = self.release
        if release is None or self.delta == 0:
            return None
        sampling: Sampling = FixedRounds(max(map(len, rounds), default=0))
        if self.is_drawn:
            sampling = read_arm(arm).sampling(release.rounds)
        squared = None
        if release.correlation is not None:
            members = np.repeat(np.arange(len(rounds)), [len(own) for own in rounds])
            squared = sampling.worst_sensitivity(release.correlation)
            squared = squared or release.correlation.worst_of(members, np.concatenate(rounds))
        return attacker_bounds(release, Party(sampling, squared), self.delta)


def unlike_canaries(
    arms: Iterable[str | None], rounds: Iterable[Sequence[int] | IntArray]
) -> str | None:
    """How included canaries differ, so that no single epsilon applies to them; None if alike."""
    named, numbers = {arm for arm in arms if arm}, {len(own) for own in rounds}
    if len(named) > 1:
        return f"canaries of {len(named)} arms"
    if len(numbers) > 1:
        return f"canaries in {min(numbers)} to {max(numbers)} rounds"
    return None


def _allowed(release: Release, rounds: Sequence[IntArray]) -> FloatArray | None:
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
    second, first = arms.allowed[found.second], arms.allowed[found.first]
    return "0" if math.isclose(second, first) else significant(second - first)


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
