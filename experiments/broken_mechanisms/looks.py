"""What an audit of a run finds: the verdict, each look by itself, and the estimates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fl_audit.estimators import METHODS, valid_methods
from fl_audit.verdict import ClaimTests, ScoredStatistic

ESTIMATES = ("gaussian_fit", "gdp_fit")


@dataclass(frozen=True)
class Found:
    """What was found.

    Attributes:
      together: the largest bound of all looks together at 95 %, on which the verdict rests.
      by: the look that it is by, `statistic/method`.
      alone: by `statistic/method`, the bound at 95 % of who asks for nothing else.
      estimates: by `statistic/method`; they guarantee nothing.
    """

    together: float
    by: str
    alone: Mapping[str, float]
    estimates: Mapping[str, float]


def look_at(statistics: Sequence[ScoredStatistic], delta: float) -> Found:
    """All looks together, and each alone.

    Args:
      statistics: of a run.
      delta: of the claim.
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
