"""Steinke, Nasr & Jagielski (2023), appendices B and C: generalisation and mutual information.

No audit needs them: they bound how far a statistic that an (epsilon, delta)-DP analyst chooses is
from its mean in the population, and how many nats its output shares with independent bits.
Equations 13 and 16 to 18 are earlier results that the paper compares with. The last part is
Proposition 4.6, a simple guarantee of DP-SGD.
"""

import math

import numpy as np
from scipy import optimize, stats

from fl_audit.array_types import FloatArray


def _tail_and_delta_term(n: int, epsilon: float, delta: float, least: float) -> tuple[float, float]:
    """P[W >= least], and max over i of 2 n delta / i P[least > W >= least - i].

    W is binomial with n trials of probability e^epsilon / (e^epsilon + 1).
    """
    of_successes = stats.binom(n, 1 / (1 + math.exp(-epsilon)))
    first = math.ceil(least)
    below = np.arange(1, n + 1)
    between: FloatArray = of_successes.cdf(first - 1) - of_successes.cdf(np.ceil(least - below) - 1)
    return float(of_successes.sf(first - 1)), float(np.max(2 * n * delta / below * between))


def proposition_b3(n: int, epsilon: float, delta: float, gamma: float, eta: float) -> float:
    """The probability that the query's mean on the sample exceeds that on a fresh one by gamma."""
    tail, by_delta = _tail_and_delta_term(n, epsilon, delta, (1 + gamma - eta) * n / 2)
    return tail + by_delta + math.exp(-n * eta**2 / 2)


def theorem_b1(n: int, epsilon: float, delta: float, gamma: float, eta: float) -> float:
    """The probability that the query's mean on the sample exceeds the population's by gamma.

    Raises:
      ValueError: Unless gamma >= 3/2 eta >= 0.
    """
    if not gamma >= 1.5 * eta >= 0:
        raise ValueError(f"gamma must be at least 3/2 eta and eta at least 0, got {gamma}, {eta}")
    tail, by_delta = _tail_and_delta_term(n, epsilon, delta, (1 + gamma - 1.5 * eta) * n / 2)
    return tail + by_delta + 2 * math.exp(-n * eta**2 / 2)


def error_by_corollary_b5(
    n: int, epsilon: float, delta: float, beta: float, failure: float
) -> float:
    """The least gamma of equation 14 at a failure probability, by the best eta.

    An estimate that is within alpha of the sample's mean, but with probability beta, is within
    alpha + gamma of the population's.
    """

    def least_gamma(eta: float) -> float:
        def excess(gamma: float) -> float:
            return beta + theorem_b1(n, epsilon, delta, gamma, eta) - failure

        low = 1.5 * eta
        if excess(1.0) > 0 or low >= 1:
            return 1.0
        return low if excess(low) <= 0 else float(optimize.brentq(excess, low, 1.0, xtol=1e-6))

    return min(least_gamma(eta) for eta in np.linspace(0.01, 0.2, 96).tolist())


def failure_by_equation_15(n: int, beta: float, c: float) -> float:
    """The failure probability of the error (e^epsilon - 1) / (e^epsilon + 1) + c at delta 0."""
    return beta + 3 * math.exp(-n * 2 / 25 * c**2)


def error_by_equation_13(epsilon: float, delta: float, beta: float, failure: float) -> float:
    """The least e^epsilon - 1 + c + 2 d with beta / c + delta / d at most the failure probability.

    Jung et al. 2019, theorem 3.5; equation 16 is delta = 0.
    """
    return math.expm1(epsilon) + (math.sqrt(beta) + math.sqrt(2 * delta)) ** 2 / failure


# Mutual information, in nats, with m bits.


def entropy(p: float) -> float:
    """The entropy h of a coin."""
    return -sum(share * math.log(share) for share in (p, 1 - p) if share > 0)


def information_by_proposition_c1(
    m: int, epsilon: float, delta: float = 0.0, p: float = 0.5
) -> float:
    """The bound for bits that are 1 with probability p."""
    odds = math.exp(epsilon)
    of_response = entropy((p * odds + 1 - p) / (odds + 1))
    certain = math.log1p(1 / odds) + epsilon / (odds + 1)
    return m * (delta * entropy(p) + (1 - delta) * (of_response - certain))


def information_by_equation_17(m: int, epsilon: float, delta: float) -> float:
    """Steinke & Zakynthinou 2020, of fair bits."""
    return m * (math.expm1(epsilon) + delta)


def information_by_equation_18(m: int, epsilon: float) -> float:
    """Dwork et al. 2015; Bun & Steinke 2016: of independent inputs at delta 0."""
    return m * epsilon**2 / 2


def information_by_equation_19(m: int, epsilon: float, delta: float) -> float:
    """The paper's simplification of proposition C.1 for fair bits."""
    return m * (epsilon**2 / 8 + delta * math.log(2))


# Proposition 4.6, and what it says of membership inference.


def renyi_2_of_dp_sgd(steps: int, rate: float, noise_multiplier: float) -> float:
    """The epsilon of (2, epsilon)-Renyi DP."""
    return steps * math.log1p(rate**2 * math.expm1(noise_multiplier**-2))


def accuracy_by_equation_4(epsilon: float) -> float:
    """The largest accuracy of balanced membership inference under (2, epsilon)-Renyi DP."""
    return (1 + math.sqrt(math.expm1(epsilon) / (math.exp(epsilon) + 3))) / 2
