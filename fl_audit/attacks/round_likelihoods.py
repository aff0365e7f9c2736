"""Likelihood ratios for an attacker who knows the pattern, and not a canary's rounds.

The attacker has z_t, the standardized score of a canary in round t, which is N(m, 1) in a round of
an included canary and N(0, 1) in any other, independently over rounds. With w_t = m z_t - m^2 / 2
the likelihood ratio of inclusion is the mean of exp(sum of w_t over S) over the pattern's
distribution of the canary's rounds S. By Neyman and Pearson no score is better. The mean is
`Sampling.log_ratio`.
"""

from dataclasses import dataclass

import numpy as np

from fl_audit.accounting.sampling import Sampling
from fl_audit.array_types import FloatArray, IndexArray


@dataclass(frozen=True)
class KnownPattern:
    """What the attacker knows of a canary's rounds.

    Attributes:
      sampling: The distribution of its rounds, with `has_likelihood`.
      shift: The shift m of its score in such a round, in standard deviations, above 0.
    """

    sampling: Sampling
    shift: float
    rounds: int

    def log_ratios(self, scores: FloatArray, seen: IndexArray) -> FloatArray:
        """The log likelihood ratio of each canary.

        Args:
          scores: Standardized scores z, float64 of shape (n, canaries).
          seen: Their rounds from 0, int64 of shape (n,); others say nothing.
        """
        logs = np.zeros((self.rounds, scores.shape[1]))
        logs[seen] = self.shift * scores - self.shift**2 / 2
        return self.sampling.log_ratio(logs)

    def draw_scores(
        self, canaries: int, seen: IndexArray, random: np.random.Generator
    ) -> FloatArray:
        """Standardized scores of canaries, each included by a fair coin, as `log_ratios` takes."""
        present = self.sampling.draw(self.rounds, canaries, random)
        present &= random.random(canaries) < 0.5
        return random.standard_normal((len(seen), canaries)) + self.shift * present[seen]
