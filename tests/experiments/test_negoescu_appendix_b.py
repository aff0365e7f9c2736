"""The simulation of Negoescu et al. (2024), appendix B, 8.1: Gamma losses, n = 10^3 to 10^5.

Their figures 4 and 5 are pictures, so that only their words can be held against ours. Losses of
members are Gamma(2, 5), of others Gamma(2 + d, 5), d = 0, 1, 2, 3. They do not say which delta
they used nor over which rates the truth was taken; delta is 1e-5 here, and the truth is taken
over all thresholds, over rates in (delta, 1 - delta) as the parametric value is, and over rates in
(0.001, 0.999) as the empirical one is. Means are of more than their 10 runs, and every comparison
leaves five standard errors, so that each fails by chance with probability below 1e-6.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators import AuditSetting, CanaryScores
from fl_audit.estimators.epsilon_star import epsilon_star, epsilon_star_empirical

DELTA = 1e-5
RUNS = {1_000: 200, 10_000: 60, 100_000: 20}
METHODS = {"empirical": epsilon_star_empirical, "parametric": epsilon_star}


@dataclass(frozen=True)
class Mean:
    """Of Epsilon* over runs, with its standard error."""

    value: float
    error: float

    def below(self, other: float) -> bool:
        return self.value + 5 * self.error < other

    def above(self, other: float) -> bool:
        return self.value - 5 * self.error > other


def truth(d: float, trimmed_below: float) -> float:
    """Epsilon* from the Gamma CDFs, at log-spaced thresholds far beyond all that matter."""
    members, others = stats.gamma(2, scale=5), stats.gamma(2 + d, scale=5)
    tau = np.geomspace(1e-6, 400, 400_001)
    tpr, fpr, fnr, tnr = members.cdf(tau), others.cdf(tau), members.sf(tau), others.sf(tau)
    kept = (np.minimum(fpr, fnr) > trimmed_below) & (np.minimum(tpr, tnr) > trimmed_below)
    pairs = ((tpr, fpr), (tnr, fnr), (fnr, tnr), (fpr, tpr))
    return math.log(max(1.0, *(float(np.max((p[kept] - DELTA) / q[kept])) for p, q in pairs)))


@functools.cache
def simulated(method: str, d: float, n: int) -> Mean:
    rng = np.random.default_rng([d, n])
    found = []
    for _ in range(RUNS[n]):
        losses = rng.gamma(2, 5, n), rng.gamma(2 + d, 5, n)
        scores = CanaryScores(-losses[0], -losses[1])
        found.append(METHODS[method](AuditSetting(scores, DELTA, 0.95)).epsilon)
    return Mean(float(np.mean(found)), float(np.std(found, ddof=1)) / math.sqrt(len(found)))


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3])
def test_larger_samples_do_not_mitigate_either_bias(d):
    # "Just as in Figure 4, this bias is exacerbated for smaller sample sizes but can be mitigated
    # by increasing loss set sample sizes": hardly. What the empirical value misses is left out by
    # its trimming; it agrees with the truth over rates in (0.001, 0.999) to 0.1 from n = 10^4 on,
    # and that is 1.5 to 2.9 below the truth over (delta, 1 - delta), whatever n.
    for n in (10_000, 100_000):
        empirical = simulated("empirical", d, n)
        assert empirical.below(truth(d, 0.001) + 0.2)
        assert empirical.above(truth(d, 0.001) - 0.2)
        assert empirical.below(truth(d, DELTA) - 1.3)
    # The parametric value's bias is that of the Gaussian shape: at n = 10^5 it is within 0.25 of
    # what it is at n = 10^3.
    small, large = simulated("parametric", d, 1_000), simulated("parametric", d, 100_000)
    assert abs(large.value - small.value) < 0.25
    assert large.above(truth(d, DELTA) + 0.3)
