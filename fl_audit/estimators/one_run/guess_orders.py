"""Orders in which canaries are guessed about, by how it was decided which of them take part.

With fair coins there are two: from both ends of the scores, or from the top alone.

Guesses from both ends are best where excluded canaries score low. Where the scores of included
canaries spread far, the lowest scores are theirs too, or tell nothing: on 800 included scores from
N(1, 16) and 1,000 excluded ones from N(0, 1), guesses from both ends prove an epsilon of 0.4 at
best, and guesses from the top 4.3.

Which order is better shows in the scores, to `one_run_valid` before any coin is looked at
(plan.py). `one_run_fdp` tests both, each at a fixed share of the failure probability: under f-DP,
what the output may decide is whose coins are guessed, but neither how many nor the level, which the
proof takes as fixed (Mahloujifar et al. 2024, Theorem 3.2).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from fl_audit.array_types import IntArray
from fl_audit.estimators.one_run.guesses import Guesses, correct_among_bottom, correct_among_top
from fl_audit.estimators.one_run.pair_scores import PairScores, right_among_surest
from fl_audit.estimators.scores import CanaryScores


@dataclass(frozen=True)
class GuessOrder:
    """An order of guesses, and the share of the failure probability for it.

    Attributes:
      where: The scores that are guessed about: the largest, that their canaries are included
        (`top`); the smallest, that theirs are excluded (`bottom`); a half of each (`both_ends`); or
        the pairs whose scores are farthest apart, that the larger one is included (`pairs`).
      share: The share of the failure probability, in (0, 1].
      log_odds_at_0: The log odds of a right guess that knows nothing.
      coin_epsilons: How many epsilons of one client more or less the outcome of a coin changes: 2
        for a pair, as one client leaves and one comes.
    """

    where: Literal["both_ends", "top", "bottom", "pairs"]
    share: float
    log_odds_at_0: float = 0.0
    coin_epsilons: int = 1

    @property
    def is_from_top(self) -> bool:
        """Whether all guesses are at the largest scores."""
        return self.where == "top"

    def log_odds(self, epsilon: float) -> float:
        """The largest log odds of a right guess, given all before, under epsilon-DP.

        They are epsilon for fair coins (Steinke et al. 2023, Proposition 5.1), plus or minus
        log(pi / (1 - pi)) for coins of probability pi (Proposition 5.7; see `inclusion.py` among
        the papers on its sign), and 2 epsilon for pairs (appendix A).
        """
        return self.log_odds_at_0 + self.coin_epsilons * epsilon

    def epsilon(self, log_odds: float) -> float:
        """The epsilon whose `log_odds` these are; negative below those of who knows nothing."""
        return (log_odds - self.log_odds_at_0) / self.coin_epsilons

    def coin_delta(self, log_odds: float, delta: float) -> float:
        """The delta with which a coin is hidden where these are the largest log odds.

        (epsilon, delta)-DP for one client more or less is (2 epsilon, (e^epsilon + 1) delta)-DP for
        replacing one (Steinke et al. 2023, appendix A, footnote 5).
        """
        if self.coin_epsilons == 1 or delta == 0:
            return delta
        return delta * (math.exp(min(self.epsilon(log_odds), 700.0)) + 1)

    def correct(self, scores: CanaryScores, totals: IntArray) -> IntArray:
        """The right guesses of each number of guesses, int64 of shape (n,).

        Guesses from the top would all be right if everybody were included, whatever the scores. So
        the share of included canaries beyond two deviations of fair coins is taken off them. A
        bound holds with fewer right guesses than there were, and hardly any are taken off where
        coins are fair.
        """
        if self.where == "pairs":
            pairs = PairScores(scores.included, scores.excluded)
            return np.asarray(right_among_surest(pairs)[totals])
        top = self.at_top(totals)
        right = correct_among_top(scores)[top] + correct_among_bottom(scores)[totals - top]
        if not self.is_from_top or scores.inclusion != "coins":
            return np.asarray(right)
        m = scores.num_included + scores.num_excluded
        excess = max(scores.num_included - scores.num_excluded - 2 * math.sqrt(m), 0.0) / m
        return np.asarray(np.maximum(right - np.ceil(excess * totals).astype(np.int64), 0))

    def most_guesses(self, m: int) -> int:
        """The largest number of guesses about m coins: all, or from one end half of them."""
        return m // 2 if self.where in ("top", "bottom") else m

    def guesses(self, total: int, correct: int) -> Guesses:
        """So many guesses in this order."""
        top = int(self.at_top(np.array([total]))[0])
        return Guesses(top, total - top, correct)

    def at_top(self, totals: IntArray) -> IntArray:
        """How many of each number of guesses say that a canary is included; of pairs, each does."""
        if self.where == "bottom":
            return np.zeros_like(totals)
        return np.asarray(totals - totals // 2) if self.where == "both_ends" else totals


GUESS_ORDERS = (GuessOrder("both_ends", 0.7), GuessOrder("top", 0.3))
"""Both orders of fair coins; their shares add up to 1. Those from both ends get more, as they are
the better for Gaussian scores, and where tails are heavy enough for the others, these have plenty
to prove."""


def orders_of(scores: CanaryScores) -> tuple[GuessOrder, ...]:
    """The orders in which canaries are guessed about, by how they were included.

    With unequal coins a guess "included" is not as likely to be right as a guess "excluded", so
    that they are tested apart, each end with half of the failure probability.

    Raises:
      ValueError: The scores are of a fixed half, whose coins are not independent.
    """
    match scores.inclusion:
        case "coins":
            return GUESS_ORDERS
        case "unequal_coins":
            odds = float(special.logit(scores.inclusion_probability))
            return GuessOrder("top", 0.5, odds), GuessOrder("bottom", 0.5, -odds)
        case "pairs":
            return (GuessOrder("pairs", 1.0, coin_epsilons=2),)
        case "fixed_half":
            raise ValueError("a fixed half has no independent coins to guess about")
