"""Guesses at inclusion from the largest and the smallest scores, and the published bound.

`one_run` selects the best numbers of guesses on the data, as its authors do, and its bound is
therefore not valid; `one_run_valid` (valid_guesses.py) corrects for the choice.
"""

from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.distributions import supremum
from fl_audit.estimators.one_run.bound import binomial_tail, epsilon_lower_bound, p_value, p_values
from fl_audit.estimators.result import Detail, Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting


@dataclass(frozen=True)
class Guesses:
    """Numbers of guesses, and of correct guesses.

    Attributes:
      k_plus: Number of canaries with the largest scores, guessed to be included.
      k_minus: Number of canaries with the smallest scores, guessed to be excluded.
      correct: Number of correct guesses among the k_plus + k_minus.
    """

    k_plus: int
    k_minus: int
    correct: int

    @property
    def total(self) -> int:
        """Number of guesses, r."""
        return self.k_plus + self.k_minus

    def details(self, m: int) -> dict[str, Detail]:
        """An estimate's details on these guesses about m canaries."""
        return {
            "m": m,
            "guesses": self.total,
            "correct": self.correct,
            "k_plus": self.k_plus,
            "k_minus": self.k_minus,
        }


def correct_among_top(scores: CanaryScores) -> IntArray:
    """Correct guesses if the k largest are guessed included, by k = 0..m.

    The order of guesses may depend on the scores only. Among equal scores any order that is fixed
    without the coins would do; wrong guesses come first here, which counts no more correct ones
    than such an order, so the bound is valid.
    """
    return _right_from_top(scores.excluded, scores.included)


def correct_among_bottom(scores: CanaryScores) -> IntArray:
    """Correct guesses if the k smallest are guessed excluded, by k = 0..m."""
    # The same with scores negated and the two groups exchanged.
    return _right_from_top(-scores.included, -scores.excluded)


def _right_from_top(wrong: FloatArray, right: FloatArray) -> IntArray:
    """The number of `right` scores among the k largest, by k; in ties, wrong ones come first."""
    order = np.argsort(-np.concatenate([wrong, right]), kind="stable")
    return np.concatenate([[0], np.cumsum(order >= len(wrong))])


def best_total(m: int, correct: IntArray, delta: float, confidence: float) -> int:
    """The number of guesses r with the largest one-run bound; 0 if none exceeds 0.

    `correct` are the correct guesses by r = 0..m, negative where r is no candidate.

    One bisection serves all r: the bound of r is at least epsilon exactly if its p-value rejects
    epsilon, so once some r reject an epsilon, only these remain candidates.
    """
    alpha = 1 - confidence
    rivals, best = np.flatnonzero(2 * correct > np.arange(m + 1)), 0

    def any_rejects(epsilon: float) -> bool:
        nonlocal rivals, best
        if len(rivals) == 1 and best == rivals[0]:
            return False  # only one is left, and its bound is not needed
        # The binomial tail, a lower bound on the p-value, is faster and rules out most candidates.
        left = rivals[binomial_tail(rivals, correct[rivals], epsilon) < alpha]
        p = p_values(m, left, correct[left], epsilon, delta)
        if not np.any(p < alpha):
            return False
        rivals, best = left[p < alpha], int(left[np.argmin(p)])
        return True

    supremum(any_rejects)
    return best


# Pairs with one included example, and guesses about which it is (Steinke et al. 2023, appendix A).


def right_among_surest(scores: CanaryScores) -> IntArray:
    """The correct guesses among the r surest pairs, for r = 0..m.

    For a pair the example with the larger score is guessed; the guess is surer if the scores are
    further apart, which does not depend on the coins. Equal scores count as a wrong guess, and
    among pairs equally far apart wrong guesses come first, which gives the fewest correct ones.

    >>> right_among_surest(CanaryScores([3.0, 1.0, 5.0], [1.0, 2.0, 5.0], "pairs")).tolist()
    [0, 1, 1, 1]
    """
    gap = scores.included - scores.excluded
    right = gap > 0
    order = np.lexsort((right, -np.abs(gap)))
    return np.concatenate([[0], np.cumsum(right[order])])


EXHAUSTIVE_UP_TO = 5000
"""Up to this number of canaries all combinations of k+ and k- are tried instead of a grid."""

_DENSE_UP_TO = 200
_GRID_RATIO = 1.05


def one_run(setting: AuditSetting) -> Estimate:
    """The largest one-run bound over k+ and k-, as Steinke et al. report it in section 6.

    The k+ canaries with the largest scores are guessed to be included, the k- with the smallest
    excluded; on all others the auditor abstains. For up to EXHAUSTIVE_UP_TO canaries all
    combinations are tried; for more, k+ and k- take all values up to 200 and then grow by 5 % a
    step.
    """
    setting.require(included=1, excluded=1)
    m = setting.scores.num_included + setting.scores.num_excluded
    guesses = best_guesses(setting.scores, setting.delta, setting.confidence)
    epsilon = epsilon_lower_bound(
        m, guesses.total, guesses.correct, setting.delta, setting.confidence
    )
    return Estimate(
        method="one_run",
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        assumes="Each canary was included by an independent fair coin, not in fixed numbers.",
        guarantee=(
            f"True epsilon would be at least this with {100 * setting.confidence:g} % confidence "
            "for numbers of guesses k+ and k- fixed in advance. Here the best pair is chosen on "
            "the same data, and the bound is not valid after selection: its real confidence is "
            "lower."
        ),
        source=(
            "Steinke, Nasr & Jagielski (2023), arXiv:2305.08846, Corollary 5.4 and appendix D; "
            "best k+ and k- as in section 6"
        ),
        details={
            **guesses.details(m),
            "p_value_at_epsilon_0": p_value(m, guesses.total, guesses.correct, 0.0, setting.delta),
        },
    )


def best_guesses(
    scores: CanaryScores, delta: float, confidence: float, exhaustive_up_to: int = EXHAUSTIVE_UP_TO
) -> Guesses:
    """The numbers of guesses that give the largest one-run bound; no guesses if none exceeds 0.

    >>> scores = CanaryScores(included=np.arange(5, 50), excluded=-np.arange(50))
    >>> best_guesses(scores, delta=0, confidence=0.95)
    Guesses(k_plus=45, k_minus=50, correct=95)
    """
    m = scores.num_included + scores.num_excluded
    plus, minus = correct_among_top(scores), correct_among_bottom(scores)
    cuts = np.arange(m + 1) if m <= exhaustive_up_to else _growing_cuts(m)
    correct = _most_correct(plus, minus, cuts)
    total = best_total(m, correct, delta, confidence)
    k_plus = cuts[cuts <= total]
    k_plus = k_plus[np.isin(total - k_plus, cuts)]
    best = int(k_plus[np.argmax(plus[k_plus] + minus[total - k_plus])])
    return Guesses(best, total - best, int(correct[total]))


def _growing_cuts(m: int) -> IntArray:
    """The numbers from 0 to _DENSE_UP_TO, then a geometric grid up to m."""
    steps = int(np.log(m / _DENSE_UP_TO) / np.log(_GRID_RATIO)) + 1
    sparse = (_DENSE_UP_TO * _GRID_RATIO ** np.arange(1, steps + 1)).astype(np.int64)
    return np.concatenate([np.arange(_DENSE_UP_TO + 1), sparse[sparse < m], [m]])


def _most_correct(plus: IntArray, minus: IntArray, cuts: IntArray) -> IntArray:
    """The most correct guesses over all cuts k+ and k- that add up to r, by r; -1 if none do."""
    m = len(plus) - 1
    best = np.full(m + 1, -1)
    for k_plus in cuts:
        k_minus = cuts[: np.searchsorted(cuts, m - k_plus, side="right")]
        totals = k_plus + k_minus
        best[totals] = np.maximum(best[totals], plus[k_plus] + minus[k_minus])
    return best
