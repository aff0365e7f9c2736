"""Mutual information of coins and output under differential privacy: Steinke et al., appendix C.

S are n independent coins and M(S) is the output of an (epsilon, delta)-DP mechanism. All values are
in nats.
"""

import math

from scipy import special

from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_delta, check_epsilon


def mutual_information_bound(
    n: int, *, epsilon: float, delta: float, inclusion: float = 0.5
) -> float:
    """The most nats that M(S) can tell about S (Proposition C.1), which some mechanism reaches.

    It is n delta h(p) + n (1 - delta) (h(p') - h(e^eps / (e^eps + 1))), where h is the entropy of a
    coin and p' = (p e^eps + 1 - p) / (e^eps + 1). It is reached by revealing each coin with
    probability delta and else giving randomised response.

    Args:
      n: Number of coins, at least 1.
      epsilon: The epsilon of differential privacy, finite and at least 0.
      delta: The delta of differential privacy, in [0, 1).
      inclusion: Probability p of a 1, in [0, 1].

    Raises:
      InputError: If an argument is out of range.

    >>> round(mutual_information_bound(1, epsilon=math.log(3), delta=0.0), 4)
    0.1308
    """
    _check(n, epsilon, delta)
    if not 0 <= inclusion <= 1:
        raise InputError(f"inclusion probability must be in [0, 1], got {inclusion}")
    right, wrong = float(special.expit(epsilon)), float(special.expit(-epsilon))
    said = _entropy(inclusion * right + (1 - inclusion) * wrong)
    told = max(said - _entropy(wrong), 0.0)
    return n * (delta * _entropy(inclusion) + (1 - delta) * told)


def simple_mutual_information_bound(n: int, *, epsilon: float, delta: float) -> float:
    """The bound n (epsilon^2 / 8 + delta log 2), for fair coins: equation 19.

    >>> round(simple_mutual_information_bound(1, epsilon=math.log(3), delta=0.0), 4)
    0.1509
    """
    _check(n, epsilon, delta)
    return n * (epsilon**2 / 8 + delta * math.log(2))


def steinke_zakynthinou_bound(n: int, *, epsilon: float, delta: float) -> float:
    """The bound n (e^epsilon - 1 + delta), for fair coins: equation 17, of earlier work."""
    _check(n, epsilon, delta)
    return n * (math.expm1(min(epsilon, 700.0)) + delta)


def product_law_bound(n: int, *, epsilon: float) -> float:
    """The bound n epsilon^2 / 2, at delta = 0, for independent inputs of any kind: equation 18."""
    _check(n, epsilon, 0.0)
    return n * epsilon**2 / 2


def _entropy(p: float) -> float:
    return float(special.entr(p) + special.entr(1 - p))


def _check(n: int, epsilon: float, delta: float) -> None:
    if n < 1:
        raise InputError(f"number of coins (n) must be at least 1, got {n}")
    check_epsilon(epsilon)
    check_delta(delta)
