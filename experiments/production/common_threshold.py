"""Whether a threshold loses by canaries of late rounds, and what a canary's own threshold wins.

Usage: python -m experiments.production.common_threshold [SEEDS, 40 by default]

Under a matrix the mean shift m_i of an included canary's standardised score z_i depends on its
round, and is known beforehand. Scores are drawn as N(m_i, 1) and N(0, 1), the same coins and
normals for each strategy, at the noise whose largest shift is 2.5. `threshold_valid` is made of
z_i, and of the log-likelihood ratios m_i z_i - m_i^2 / 2, which Neyman and Pearson prefer; their
null distribution is the mean over canaries of N(-m_i^2 / 2, m_i^2), exactly known.
"""

import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.accounting.buffered_toeplitz import optimise
from fl_audit.accounting.toeplitz import sqrt_column
from fl_audit.array_types import FloatArray
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.null import Null

ROUNDS, CANARIES, LARGEST_SHIFT, DELTA = 100, 500, 2.5, 1.9e-3

COLUMNS = {
    "independent": sqrt_column(1),
    "banded_sqrt 4": sqrt_column(4),
    "banded_sqrt 32": sqrt_column(32),
    "sqrt": sqrt_column(ROUNDS),
    "blt 3": optimise(3, ROUNDS).column(ROUNDS),
}
"""The first columns of the strategies, zeros left out."""


@dataclass(frozen=True, eq=False)
class MixtureNull:
    """The mean of normal distributions, one for each canary."""

    means: FloatArray
    deviations: FloatArray
    description: str = "a mixture of normal distributions"

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        """Log of the probability that a score is at least a threshold."""
        standard = (np.asarray(thresholds)[..., None] - self.means) / self.deviations
        tails = special.logsumexp(special.log_ndtr(-standard), axis=-1)
        return np.minimum(tails - np.log(len(self.means)), 0.0)

    def p_value(self, excluded: FloatArray) -> float:
        """1: scores are drawn from it."""
        return 1.0


def lower_bound(shifts: FloatArray, seed: int, by_likelihood: bool) -> float:
    """`threshold_valid` of one seed."""
    random = np.random.default_rng(seed)
    included = random.random(CANARIES) < 0.5
    standard = random.standard_normal(CANARIES) + shifts * included
    scale = shifts if by_likelihood else np.ones(CANARIES)
    offset = -np.square(shifts) / 2 if by_likelihood else np.zeros(CANARIES)
    scores = scale * standard + offset
    split = CanaryScores(scores[included], scores[~included])
    null = Null("empirical", MixtureNull(offset, scale))
    return METHODS["threshold_valid"](AuditSetting(split, DELTA, 0.95, null)).epsilon


def main() -> None:
    """Prints medians and ranges over seeds, of canaries in all rounds and in the first half."""
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
    print(
        "| strategy | canaries in rounds | accounting at the mean shift | by the score "
        "| by its log-likelihood ratio |\n|---|---|---|---|---|"
    )
    for name, column in COLUMNS.items():
        squares = np.cumsum(np.square(np.pad(column, (0, ROUNDS - len(column)))))
        by_round = LARGEST_SHIFT * np.sqrt(squares[::-1] / squares[-1])
        for rounds in (ROUNDS, ROUNDS // 2):
            shifts = by_round[np.arange(CANARIES) % rounds]
            cells = [f"{epsilon_of_mu(float(shifts.mean()), DELTA):.2f}"]
            for by_likelihood in (False, True):
                found = [lower_bound(shifts, seed, by_likelihood) for seed in seeds]
                cells.append(f"{np.median(found):.2f} ({min(found):.2f} to {max(found):.2f})")
            print(f"| {name} | 1 to {rounds} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
