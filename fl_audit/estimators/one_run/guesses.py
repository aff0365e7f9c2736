"""Guesses at who was included, from the largest and the smallest scores, and how many are right."""

from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import IntArray
from fl_audit.estimators.bisection import supremum
from fl_audit.estimators.one_run.bound import binomial_tail, p_value, p_values
from fl_audit.estimators.result import Detail
from fl_audit.estimators.scores import CanaryScores


@dataclass(frozen=True)
class Guesses:
    """Numbers of guesses and how many of them were right.

    Attributes:
      k_plus: Number of canaries with the largest scores, guessed to be included.
      k_minus: Number of canaries with the smallest scores, guessed to be excluded.
      correct: Number of right guesses among the k_plus + k_minus.
    """

    k_plus: int
    k_minus: int
    correct: int

    @property
    def total(self) -> int:
        """Number of guesses, r."""
        return self.k_plus + self.k_minus

    def details(self, m: int, delta: float) -> dict[str, Detail]:
        """The details of an estimate from m canaries that tell of its guesses."""
        return {
            "m": m,
            "guesses": self.total,
            "correct": self.correct,
            "k_plus": self.k_plus,
            "k_minus": self.k_minus,
            "p_value_at_epsilon_0": p_value(m, self.total, self.correct, 0.0, delta),
        }


def correct_among_top(scores: CanaryScores) -> IntArray:
    """Right guesses if the k largest are guessed included, by k, int64 of shape (m + 1,).

    The order of guesses may depend on the scores only. Among equal scores any fixed order would do;
    taking the wrong guesses first counts no more right ones than any of them, so the bound holds.
    """
    values = np.concatenate([scores.excluded, scores.included])
    is_included = np.repeat([0, 1], [scores.num_excluded, scores.num_included])
    order = np.lexsort((is_included, -values))
    return np.concatenate([[0], np.cumsum(is_included[order])])


def correct_among_bottom(scores: CanaryScores) -> IntArray:
    """Right guesses if the k smallest are guessed excluded, by k, int64 of shape (m + 1,)."""
    # The same question with scores negated and the two groups exchanged.
    return correct_among_top(CanaryScores(-scores.excluded, -scores.included))


def best_total(m: int, correct: IntArray, delta: float, confidence: float) -> int:
    """The number of guesses r with the largest one-run bound; 0 if none exceeds 0.

    One bisection for all: a bound is at least epsilon exactly if its p-value rejects epsilon, so
    where any rejects, only those that do can be the largest.

    Args:
      m: Number of canaries.
      correct: Right guesses for each r, negative for no candidate, int64 of shape (m + 1,).
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of each bound, in (0, 1).
    """
    alpha = 1 - confidence
    rivals, best = np.flatnonzero(2 * correct > np.arange(m + 1)), 0

    def any_rejects(epsilon: float) -> bool:
        nonlocal rivals, best
        if len(rivals) == 1 and best == rivals[0]:
            return False  # the best is known; its bound is not asked for
        # The binomial tail, at most the p-value, is quicker and rules out most of them.
        left = rivals[binomial_tail(rivals, correct[rivals], epsilon) < alpha]
        p = p_values(m, left, correct[left], epsilon, delta)
        if not np.any(p < alpha):
            return False
        rivals, best = left[p < alpha], int(left[np.argmin(p)])
        return True

    supremum(any_rejects)
    return best
