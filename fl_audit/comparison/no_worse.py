"""Whether a new run leaks significantly more than an old one, such as the previous release.

The runs are compared by the estimate of epsilon on the first statistic of the strongest attacker
for which both have an interval, a choice that does not depend on scores. If the two estimates are
independent, their difference d has the interval

    d - sqrt((new - new lower)^2 + (old upper - old)^2)  to
    d + sqrt((new upper - new)^2 + (old - old lower)^2)

of the method of variance estimates recovery (Zou & Donner 2008, Statistics in Medicine 27, equation
6), at the confidence that both intervals have. The new run leaks significantly more if the
difference's interval is above 0.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

from fl_audit.attacks.threat_models import title_of
from fl_audit.comparison.comparison import Comparison
from fl_audit.comparison.ranking import span
from fl_audit.comparison.reported_run import ReportedRun
from fl_audit.errors import InputError
from fl_audit.json_records import UNWRITTEN
from fl_audit.number_words import epsilon_text, significant
from fl_audit.report.headline import strongest_first
from fl_audit.report.patterns import equally_often


@dataclass(frozen=True)
class Leakage:
    """One run's estimate, None if the lower bound contradicts it, and interval (`ranking.span`).

    `is_capped` says that the run's page caps them at the upper bound: a difference of two capped
    estimates would hide what scores show.
    """

    epsilon: float | None
    lower: float
    upper: float
    is_capped: bool = field(default=False, metadata=UNWRITTEN)

    @property
    def words(self) -> str:
        ends = f"{epsilon_text(self.lower)} … {epsilon_text(self.upper)}"
        capped = ", not capped at the upper bound" if self.is_capped else ""
        return ends if self.epsilon is None else f"{epsilon_text(self.epsilon)} ({ends}{capped})"


@dataclass(frozen=True)
class Difference:
    """The new run's epsilon minus the old one's, on one statistic.

    Attributes:
      lower: The lower end of the difference's interval, possibly infinite.
      upper: The upper end of the interval, possibly infinite.
    """

    JSON_COMPUTED: ClassVar = ("is_worse",)

    statistic: str
    new: Leakage
    old: Leakage
    lower: float
    upper: float

    @property
    def is_worse(self) -> bool:
        """Whether the new run leaks significantly more."""
        return self.lower > 0

    @property
    def words(self) -> str:
        leaks = "leaks" if self.is_worse else "does not leak"
        return (
            f"no-worse: the new run {leaks} significantly more: by “{title_of(self.statistic)}”, "
            f"ε ≈ {self.new.words} against {self.old.words}; the difference is within "
            f"{epsilon_text(self.lower)} … {epsilon_text(self.upper)}."
        )


def difference_to_last(comparison: Comparison) -> Difference:
    """The difference between the two runs of a comparison; the new one is first.

    Raises:
      InputError: There are not two runs, they are not comparable, or no statistic has an interval
        in both runs.
    """
    if len(comparison.runs) != 2:
        raise InputError(
            f"--require no-worse: compares NEW with OLD, two folders, got {len(comparison.runs)}"
        )
    new, old = comparison.runs
    _check_comparable(new, old)
    reports = new.report.statistics
    known = {
        name: (of_new, of_old)
        for name in reports
        if (of_new := _leakage(new, name)) and (of_old := _leakage(old, name))
    }
    if not known:
        raise InputError("--require no-worse: no statistic has an interval in both runs")
    is_sampled = new.is_sampled or old.is_sampled
    name = strongest_first({name: reports[name] for name in known}, is_sampled)[0]
    return Difference(name, *known[name], *interval_of_difference(*known[name]))


def _check_comparable(new: ReportedRun, old: ReportedRun) -> None:
    """Raises InputError if files are missing, canaries were lost, or the runs' terms differ."""
    for run in (new, old):
        if run.unsealed:
            raise InputError(
                f"--require no-worse: {run.folder} lacks {' and '.join(run.unsealed)}, without "
                "which nobody can tell whether its report was changed; restore what is missing, or "
                "delete report.json and write it anew with `fl-audit run --resume`"
            )
        if run.why_canaries_failed is not None:
            raise InputError(
                f"--require no-worse: the canary check of {run.folder} failed, so its scores do "
                f"not measure leakage: {run.why_canaries_failed}"
            )
    for name, of_new, of_old in (
        ("delta", new.report.delta, old.report.delta),
        ("confidence", new.report.confidence, old.report.confidence),
    ):
        if of_new != of_old:
            raise InputError(f"--require no-worse: {name} differs, {of_new:g} against {of_old:g}")
    if not equally_often(new.participations, old.participations):
        raise InputError(
            "--require no-worse: canaries participate in different numbers of rounds, "
            f"{_rounds(new)} against {_rounds(old)} on average"
        )


def _rounds(run: ReportedRun) -> str:
    return "unknown" if run.participations is None else significant(run.participations)


def _leakage(run: ReportedRun, statistic: str) -> Leakage | None:
    headline = run.headline(statistic)
    ends = span(headline)
    if headline is None or ends is None:
        return None
    fit, within = headline.estimated, headline.interval_within()
    if fit is None or within is None:
        return Leakage(None, *ends)
    return Leakage(fit.epsilon, *ends, is_capped=within != ends)


def interval_of_difference(new: Leakage, old: Leakage) -> tuple[float, float]:
    """The interval of new minus old, as in the module's equation.

    If an estimate is unknown or infinite, or `old.upper` is infinite, the limits
    are differences of opposite limits of the two intervals.
    """
    centres = (new.epsilon, old.epsilon)
    known = [centre for centre in centres if centre is not None and math.isfinite(centre)]
    if len(known) < 2 or math.isinf(old.upper):
        upper = math.inf if math.isinf(new.upper) else _minus(new.upper, old.lower)
        return _minus(new.lower, old.upper), upper
    difference = known[0] - known[1]
    below = math.hypot(known[0] - new.lower, old.upper - known[1])
    above = math.hypot(new.upper - known[0], known[1] - old.lower)
    return difference - below, difference + above


def _minus(first: float, second: float) -> float:
    """first - second; minus infinity, in favour of the new run, if `second` is infinite."""
    return -math.inf if math.isinf(second) else first - second
