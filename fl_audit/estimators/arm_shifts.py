"""Differences in leakage between participation patterns, from canaries in random arms of one run.

An arm is the canaries with one participation pattern. Each included canary has a deviate: its score
in standard deviations of the null distribution. The mean deviate of an arm is the shift mu of its
canaries, as in Gaussian differential privacy. All arms went through the same training, so their
differences are free of the variation between runs. All intervals for differences hold
simultaneously: each is Welch's (1947), with Bonferroni's correction. All intervals for shifts also
hold simultaneously: each is Student's, with Bonferroni's correction.

>>> import numpy as np
>>> random = np.random.default_rng(1)
>>> once, twice = random.normal(1, 1, 200), random.normal(1.4, 1, 200)
>>> comparison = compare_arms({"once": once, "twice": twice}, confidence=0.95)
>>> [f"{d.second} - {d.first}: {d.lower:.2f} to {d.upper:.2f}" for d in comparison.differences]
['twice - once: 0.20 to 0.56']
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from scipy import special

from fl_audit.array_types import FloatArray

LEAST_CANARIES = 10
"""With this many included canaries or more, an arm's mean is nearly normal."""


@dataclass(frozen=True)
class ArmShift:
    """The mean deviate of one arm's canaries; the interval is simultaneous for all arms."""

    arm: str
    num_included: int
    mu: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ArmDifference:
    """The second arm's shift minus the first's; its interval is simultaneous for all pairs."""

    first: str
    second: str
    mu: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ArmComparison:
    """All arms in the order given, and all differences; both sets of intervals at `confidence`."""

    confidence: float
    arms: tuple[ArmShift, ...]
    differences: tuple[ArmDifference, ...]


def compare_arms(deviates: Mapping[str, FloatArray], confidence: float) -> ArmComparison:
    """Simultaneous intervals for the shifts of two or more arms and for all their differences."""
    if len(deviates) < 2 or min(map(len, deviates.values())) < 2:
        raise ValueError("two arms or more are needed, with two canaries or more in each")
    means = {name: float(values.mean()) for name, values in deviates.items()}
    squares = {name: float(values.var(ddof=1)) / len(values) for name, values in deviates.items()}
    freedom = {name: len(values) - 1 for name, values in deviates.items()}
    pairs = list(itertools.combinations(deviates, 2))
    arm_alpha = (1 - confidence) / len(deviates)
    pair_alpha = (1 - confidence) / len(pairs)
    arms = []
    for name, values in deviates.items():
        reach = _reach(squares[name], freedom[name], arm_alpha)
        mean = means[name]
        arms.append(ArmShift(name, len(values), mean, mean - reach, mean + reach))
    differences = []
    for first, second in pairs:
        a, b = squares[first], squares[second]
        welch = (a + b) ** 2 / max(a**2 / freedom[first] + b**2 / freedom[second], 1e-300)
        reach = _reach(a + b, welch, pair_alpha)
        mean = means[second] - means[first]
        differences.append(ArmDifference(first, second, mean, mean - reach, mean + reach))
    return ArmComparison(confidence, tuple(arms), tuple(differences))


def _reach(square: float, freedom: float, level: float) -> float:
    """Half the width of Student's interval, which fails with probability `level`."""
    return math.sqrt(square) * float(-special.stdtrit(max(freedom, 1.0), level / 2))
