"""How differently patterns of participation leak, by canaries that were dealt to arms of one run.

Each arm's included canaries have deviates, scores in standard deviations of the null distribution.
The mean of an arm is the shift mu that its canaries show, as in Gaussian differential privacy. All
arms went through the same training, so that their differences are free of what differs from run to
run. The intervals for all differences hold at once: each is Welch's (1947), at the confidence that
Bonferroni's correction leaves it; so are those for the shifts themselves.

>>> import numpy as np
>>> random = np.random.default_rng(1)
>>> once, twice = random.normal(1, 1, 200), random.normal(1.4, 1, 200)
>>> made = compare_arms({"once": once, "twice": twice}, confidence=0.95)
>>> [f"{d.second} - {d.first}: {d.lower:.2f} to {d.upper:.2f}" for d in made.differences]
['twice - once: 0.20 to 0.56']
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from scipy import special

from fl_audit.array_types import FloatArray

LEAST_CANARIES = 10
"""The included canaries expected to participate that an arm needs for a nearly normal mean."""


@dataclass(frozen=True)
class ArmShift:
    """What the canaries of one arm show.

    Attributes:
      arm: The name of the arm.
      num_included: The number of its included canaries.
      mu: The mean of their deviates.
      lower: The lower end of an interval for it, at once with all other arms'.
      upper: The upper end.
    """

    arm: str
    num_included: int
    mu: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ArmDifference:
    """The difference of two arms' shifts, the second less the first.

    Attributes:
      first: The name of one arm.
      second: The name of the other one.
      mu: The difference.
      lower: The lower end of an interval for it, at once with all other differences'.
      upper: The upper end.
    """

    first: str
    second: str
    mu: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ArmComparison:
    """All arms and all differences between them.

    Attributes:
      confidence: The confidence that all intervals for differences hold at once, and all those for
        shifts.
      arms: The arms, in the order in which they were given.
      differences: A difference for each pair of them.
    """

    confidence: float
    arms: tuple[ArmShift, ...]
    differences: tuple[ArmDifference, ...]


def compare_arms(deviates: Mapping[str, FloatArray], confidence: float) -> ArmComparison:
    """Intervals for the shifts of arms and for all their differences.

    Args:
      deviates: The deviates of each arm's included canaries, float64 of shape (n,), n at least 2.
      confidence: The confidence of all intervals at once, in (0, 1).

    Raises:
      ValueError: There are fewer than two arms, or fewer than two canaries in one.
    """
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
    """Half the width of Student's interval at a level."""
    return math.sqrt(square) * float(-special.stdtrit(max(freedom, 1.0), level / 2))
