"""The orders in which canaries are guessed, for each way of including them.

Fair coins, coins of another probability and pairs differ in the odds of a correct guess at a given
epsilon, and in how many clients a coin changes.

With fair coins there are two orders: from both ends of the scores, or from the top alone. If the
scores of included canaries spread far, the lowest scores belong to included canaries too, or are
uninformative: for 800 included scores from N(1, 16) and 1,000 excluded ones from N(0, 1), guesses
from both ends give a lower bound of 0.4 at best, and guesses from the top 4.3.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.one_run.guesses import (
    Guesses,
    correct_among_bottom,
    correct_among_top,
    right_among_surest,
)
from fl_audit.estimators.scores import CanaryScores


@dataclass(frozen=True)
class GuessOrder:
    """An order of guesses, and its share of the failure probability.

    `top` are the largest scores, guessed to be included, `bottom` the smallest, guessed to be
    excluded, `both_ends` half of the guesses at each end, `pairs` the pairs whose scores are
    farthest apart.
    """

    where: Literal["both_ends", "top", "bottom", "pairs"]
    share: float  # in (0, 1]
    log_odds_at_0: float = 0.0  # log odds of a correct guess at epsilon 0
    coin_epsilons: int = (
        1  # clients changed by a flipped coin; 2 for a pair, where one is removed and one added
    )

    def log_odds(self, epsilon: float) -> float:
        """The largest log odds of a correct guess, given all before, under epsilon-DP.

        They are epsilon for fair coins (Steinke et al. 2023, Proposition 5.1), plus or minus log(pi
        / (1 - pi)) for coins of probability pi (Proposition 5.7, with e^epsilon instead of the
        printed e^-epsilon), and 2 epsilon for pairs (appendix A).
        """
        return self.log_odds_at_0 + self.coin_epsilons * epsilon

    def epsilon(self, log_odds: float) -> float:
        """Inverse of `log_odds`; negative if below the log odds at epsilon 0."""
        return (log_odds - self.log_odds_at_0) / self.coin_epsilons

    def coin_delta(self, log_odds: FloatArray, delta: float) -> FloatArray:
        """The delta of each coin if its log odds are bounded by `log_odds`.

        (epsilon, delta)-DP for one client more or less is (2 epsilon, (e^epsilon + 1) delta)-DP for
        replacing one (Steinke et al. 2023, appendix A, footnote 5).
        """
        if self.coin_epsilons == 1 or delta == 0:
            return np.full_like(log_odds, delta)
        epsilons = (log_odds - self.log_odds_at_0) / self.coin_epsilons
        return np.asarray(delta * (np.exp(np.minimum(epsilons, 700.0)) + 1))

    def correct(self, scores: CanaryScores, totals: IntArray) -> IntArray:
        """The correct guesses among each number of guesses.

        Guesses from the top would all be right if every canary were included. So the correct ones
        of r such guesses are reduced by r times a surplus: by how much included canaries outnumber
        excluded ones beyond two standard deviations of fair coins, as a share of all canaries.
        Counting fewer correct guesses keeps a bound valid, and with fair coins the surplus is
        mostly 0.
        """
        if self.where == "pairs":
            return np.asarray(right_among_surest(scores)[totals])
        top = self.at_top(totals)
        right = correct_among_top(scores)[top] + correct_among_bottom(scores)[totals - top]
        if self.where != "top" or scores.inclusion != "coins":
            return np.asarray(right)
        m, surplus = scores.num_coins, scores.num_included - scores.num_excluded
        excess = max(surplus - 2 * math.sqrt(m), 0.0) / m
        return np.asarray(np.maximum(right - np.ceil(excess * totals).astype(np.int64), 0))

    def most_guesses(self, m: int) -> int:
        """The largest number of guesses about m coins: m, or half as many from one end only."""
        return m // 2 if self.where in ("top", "bottom") else m

    def guesses(self, total: int, correct: int) -> Guesses:
        top = int(self.at_top(np.array([total]))[0])
        return Guesses(top, total - top, correct)

    def at_top(self, totals: IntArray) -> IntArray:
        """How many guesses of each total are "included"; for pairs, every guess is."""
        if self.where == "bottom":
            return np.zeros_like(totals)
        return np.asarray(totals - totals // 2) if self.where == "both_ends" else totals


GUESS_ORDERS = (GuessOrder("both_ends", 0.7), GuessOrder("top", 0.3))
"""Both orders for fair coins; shares add up to 1. Guesses from both ends get more: they are better
for Gaussian scores, and if tails are heavy enough for guesses from the top, a small share suffices.
"""


def orders_of(scores: CanaryScores) -> tuple[GuessOrder, ...]:
    """The orders of guesses for a way of including canaries.

    With unequal coins guesses "included" and "excluded" are not equally likely to be right, so they
    are tested separately, each end with half of the failure probability. Raises ValueError for a
    fixed half, whose coins are not independent.
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
