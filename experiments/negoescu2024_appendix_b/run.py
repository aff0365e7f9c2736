"""Epsilon* of Gamma losses, as in appendix B of Negoescu et al. (2024); see README.md."""

import math
import sys

import numpy as np
from scipy import stats

from fl_audit.estimators.epsilon_star import epsilon_star, epsilon_star_empirical
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

SHAPE, SCALE = 2, 5
METHODS = (epsilon_star_empirical, epsilon_star)


def true_epsilon_star(d: float, delta: float, trimmed_below: float) -> float:
    """Epsilon* of the two Gamma distributions, at rates in (trimmed_below, 1 - trimmed_below)."""
    members, others = stats.gamma(SHAPE, scale=SCALE), stats.gamma(SHAPE + d, scale=SCALE)
    tau = np.geomspace(1e-6, 400, 1_000_001)
    tpr, fpr, fnr, tnr = members.cdf(tau), others.cdf(tau), members.sf(tau), others.sf(tau)
    kept = (np.minimum(fpr, fnr) > trimmed_below) & (np.minimum(tpr, tnr) > trimmed_below)
    pairs = ((tpr, fpr), (tnr, fnr), (fnr, tnr), (fpr, tpr))
    return math.log(max(1.0, *(float(np.max((p[kept] - delta) / q[kept])) for p, q in pairs)))


def estimates(d: float, n: int, delta: float, runs: int, seed: int) -> np.ndarray:
    """Empirical and parametric Epsilon* of n member and n other losses, of shape (runs, 2)."""
    rng = np.random.default_rng([seed, round(1000 * d), n])
    found = []
    for _ in range(runs):
        losses = rng.gamma(SHAPE, SCALE, n), rng.gamma(SHAPE + d, SCALE, n)
        scores = CanaryScores(-losses[0], -losses[1])
        setting = AuditSetting(scores, delta, 0.95)
        found.append([method(setting).epsilon for method in METHODS])
    return np.array(found)


def main(runs: int) -> None:
    """Prints the table, by rule for delta, d and n."""
    for rule in ("1e-5", "1 / (n log n)"):
        for d in (0, 1, 2, 3):
            for n in (10**3, 10**4, 10**5):
                delta = 1e-5 if rule == "1e-5" else 1 / (n * math.log(n))
                found = estimates(d, n, delta, runs, seed=2024)
                mean, std = found.mean(axis=0), found.std(axis=0)
                truths = [true_epsilon_star(d, delta, below) for below in (0, delta, 0.001)]
                columns = [rule, str(d), str(n), *(f"{value:.2f}" for value in truths)]
                columns += [f"{m:.2f} ± {s:.2f}" for m, s in zip(mean, std, strict=True)]
                sys.stdout.write(f"| {' | '.join(columns)} |\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
