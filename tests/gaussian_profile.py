"""The privacy profile of the Gaussian mechanism, by nothing of the package."""

import math

from scipy import optimize, special


def delta_of_mu(mu: float, epsilon: float) -> float:
    """Delta of mu-GDP at an epsilon (Balle & Wang 2018, theorem 8), to its digits in the tail."""
    log_p = special.log_ndtr(mu / 2 - epsilon / mu)
    log_q = special.log_ndtr(-mu / 2 - epsilon / mu)
    return float(-math.exp(log_p) * math.expm1(epsilon + log_q - log_p))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Epsilon of mu-GDP at a delta."""
    if delta_of_mu(mu, 0.0) <= delta:
        return 0.0

    def excess(epsilon: float) -> float:
        return math.log(max(delta_of_mu(mu, epsilon), 1e-300)) - math.log(delta)

    return float(optimize.brentq(excess, 0, mu**2 + 50 * mu, xtol=1e-13, rtol=1e-14))
