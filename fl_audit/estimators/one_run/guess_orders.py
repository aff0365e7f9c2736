"""Orders in which canaries are guessed about: from both ends of the scores, or from the top alone.

Guesses from both ends are best where excluded canaries score low. Where the scores of included
canaries spread far, the lowest scores are theirs too, or tell nothing: on 800 included scores from
N(1, 16) and 1,000 excluded ones from N(0, 1), guesses from both ends prove an epsilon of 0.4 at
best, and guesses from the top 4.3.

Which order is better is not known beforehand, so both are tested, each at a fixed share of the
failure probability: a union bound, which holds whatever the mechanism.

The shares are the same for all scores. One could give the larger one to the order that the scores
favour before any coin is looked at. Under epsilon-DP that would cost nothing: given the output,
each guess is right with probability at most e^epsilon / (1 + e^epsilon) whatever came before
(Steinke et al. 2023, proof of Proposition 5.1), so a test may depend on the scores in any way. With
delta above 0, and under f-DP, no such bound holds for each output, only for their mean: what the
output may decide there is whose coins are guessed, but neither how many nor the level, which the
proofs take as fixed (sharp.py; Mahloujifar et al. 2024, Theorem 3.2).
"""

import math
from dataclasses import dataclass

import numpy as np

from fl_audit.estimators.one_run.guesses import (
    Counts,
    Guesses,
    correct_among_bottom,
    correct_among_top,
)
from fl_audit.estimators.scores import CanaryScores


@dataclass(frozen=True)
class GuessOrder:
    """An order of guesses, and the share of the failure probability for it.

    Attributes:
      is_from_top: Whether all guesses are at the largest scores, that their canaries are included;
        else the smaller half is at the smallest scores, that theirs are excluded.
      share: The share, in (0, 1).
    """

    is_from_top: bool
    share: float

    def correct(self, scores: CanaryScores, totals: Counts) -> Counts:
        """The right guesses of each number of guesses, int64 of shape (n,).

        Guesses from the top would all be right if everybody were included, whatever the scores. So
        the share of included canaries beyond two deviations of fair coins is taken off them. A
        bound holds with fewer right guesses than there were, and hardly any are taken off where
        coins are fair.
        """
        top = self._from_top(totals)
        right = correct_among_top(scores)[top] + correct_among_bottom(scores)[totals - top]
        if not self.is_from_top:
            return np.asarray(right)
        m = scores.num_included + scores.num_excluded
        excess = max(scores.num_included - scores.num_excluded - 2 * math.sqrt(m), 0.0) / m
        return np.asarray(np.maximum(right - np.ceil(excess * totals).astype(np.int64), 0))

    def most_guesses(self, m: int) -> int:
        """The largest number of guesses about m canaries: all, or from the top half of them."""
        return m // 2 if self.is_from_top else m

    def guesses(self, total: int, correct: int) -> Guesses:
        """So many guesses in this order."""
        top = int(self._from_top(np.array([total]))[0])
        return Guesses(top, total - top, correct)

    def _from_top(self, totals: Counts) -> Counts:
        return totals if self.is_from_top else np.asarray(totals - totals // 2)


GUESS_ORDERS = (GuessOrder(is_from_top=False, share=0.7), GuessOrder(is_from_top=True, share=0.3))
"""Both orders; their shares add up to 1. Those from both ends get more, as they are the better for
Gaussian scores, and where tails are heavy enough for the others, these have plenty to prove."""
