"""The numbers of a run's audit: the verdict's bound, each bound by itself, and the estimates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fl_audit.estimators import METHODS, valid_methods
from fl_audit.verdict import ClaimTests, ScoredStatistic

ESTIMATES = ("gaussian_fit", "gdp_fit")


@dataclass(frozen=True)
class Found:
    """The bounds and estimates of an audit.

    Attributes:
      together: The largest of all bounds that hold together at 95 %, on which the verdict rests.
      by: The `statistic/method` of that bound.
      alone: The bound that each `statistic/method` gives by itself at 95 %.
      estimates: The estimates by `statistic/method`, which guarantee nothing.
    """

    together: float
    by: str
    alone: Mapping[str, float]
    estimates: Mapping[str, float]


def look_at(statistics: Sequence[ScoredStatistic], delta: float) -> Found:
    """The bounds of all tests together and of each by itself, and the estimates.

    Args:
      statistics: The scores of a run by statistic.
      delta: The delta of the claim.
    """
    best = ClaimTests(statistics, 0.95).bounds(delta)[0]
    alone: dict[str, float] = {}
    estimates: dict[str, float] = {}
    for statistic in statistics:
        setting = statistic.setting(delta, 0.95)
        for methods, results in ((valid_methods(), alone), (ESTIMATES, estimates)):
            results |= {f"{statistic.name}/{m}": METHODS[m](setting).epsilon for m in methods}
    by = f"{best.test.statistic.name}/{best.test.method}"
    return Found(best.estimate.epsilon, by, alone, estimates)
