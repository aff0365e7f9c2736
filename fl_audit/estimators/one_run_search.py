"""The one-run bound with the best numbers of guesses, as its authors report it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.estimators.one_run import binomial_tail, epsilon_lower_bound, p_value, p_values
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

Counts = npt.NDArray[np.int64]

EXHAUSTIVE_UP_TO = 5000
"""With more canaries than this, k+ and k- come from a grid instead of all pairs."""

_DENSE_UP_TO = 200
_GRID_RATIO = 1.05


@dataclass(frozen=True)
class Guesses:
    """Numbers of guesses and how many of them were right.

    Attributes:
        k_plus: canaries with the largest scores, guessed to be included.
        k_minus: canaries with the smallest scores, guessed to be excluded.
        correct: right guesses among the k_plus + k_minus.
    """

    k_plus: int
    k_minus: int
    correct: int

    @property
    def total(self) -> int:
        """Number of guesses, r."""
        return self.k_plus + self.k_minus


def one_run(setting: AuditSetting) -> Estimate:
    """The largest one-run bound over k+ and k-, as Steinke et al. report it in section 6.

    The k+ canaries with the largest scores are guessed to be included, the k- with the smallest
    excluded; on the rest the auditor abstains. All pairs are tried for up to EXHAUSTIVE_UP_TO
    canaries; for more, k+ and k- take all values up to 200 and then grow by 5 % a step.

    Raises:
        NotApplicableError: without included or without excluded scores.
    """
    setting.require(included=1, excluded=1)
    m = setting.scores.num_included + setting.scores.num_excluded
    guesses = best_guesses(setting.scores, setting.delta, setting.confidence)
    counts = (m, guesses.total, guesses.correct)
    epsilon = epsilon_lower_bound(*counts, setting.delta, setting.confidence)
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
            "m": m,
            "guesses": guesses.total,
            "correct": guesses.correct,
            "k_plus": guesses.k_plus,
            "k_minus": guesses.k_minus,
            "p_value_at_epsilon_0": p_value(*counts, 0.0, setting.delta),
        },
    )


def best_guesses(
    scores: CanaryScores,
    delta: float,
    confidence: float,
    exhaustive_up_to: int = EXHAUSTIVE_UP_TO,
) -> Guesses:
    """The numbers of guesses that give the largest one-run bound; no guesses if none exceeds 0.

    >>> scores = CanaryScores(included=np.arange(5, 50), excluded=-np.arange(50))
    >>> best_guesses(scores, delta=0, confidence=0.95)
    Guesses(k_plus=45, k_minus=50, correct=95)
    """
    m = scores.num_included + scores.num_excluded
    plus, minus = _correct_among_top(scores), _correct_among_bottom(scores)
    cuts = np.arange(m + 1) if m <= exhaustive_up_to else _growing_cuts(m)
    correct = _most_correct(plus, minus, cuts)
    total = _best_total(m, correct, delta, confidence)
    k_plus = cuts[cuts <= total]
    k_plus = k_plus[np.isin(total - k_plus, cuts)]
    best = int(k_plus[np.argmax(plus[k_plus] + minus[total - k_plus])])
    return Guesses(best, total - best, int(correct[total]))


def _correct_among_top(scores: CanaryScores) -> Counts:
    """[m + 1] right guesses if the k largest scores are guessed to be included.

    The order of guesses may depend on the scores only. Among equal scores any fixed order would do;
    taking the wrong guesses first counts no more right ones than any of them, so the bound holds.
    """
    values = np.concatenate([scores.excluded, scores.included])
    is_included = np.repeat([0, 1], [scores.num_excluded, scores.num_included])
    order = np.lexsort((is_included, -values))
    return np.concatenate([[0], np.cumsum(is_included[order])])


def _correct_among_bottom(scores: CanaryScores) -> Counts:
    """[m + 1] right guesses if the k smallest scores are guessed to be excluded."""
    # The same question with scores negated and the two groups exchanged.
    return _correct_among_top(CanaryScores(-scores.excluded, -scores.included))


def _growing_cuts(m: int) -> Counts:
    """0 to _DENSE_UP_TO, then a geometric grid up to m."""
    steps = int(np.log(m / _DENSE_UP_TO) / np.log(_GRID_RATIO)) + 1
    sparse = (_DENSE_UP_TO * _GRID_RATIO ** np.arange(1, steps + 1)).astype(np.int64)
    return np.concatenate([np.arange(_DENSE_UP_TO + 1), sparse[sparse < m], [m]])


def _most_correct(plus: Counts, minus: Counts, cuts: Counts) -> Counts:
    """[m + 1] the most right guesses over all splits k+ + k- = r of cuts; -1 where there is none.

    The bound grows with the right guesses, so for each r no other split can be better.
    """
    m = len(plus) - 1
    best = np.full(m + 1, -1)
    for k_plus in cuts:
        k_minus = cuts[: np.searchsorted(cuts, m - k_plus, side="right")]
        totals = k_plus + k_minus
        best[totals] = np.maximum(best[totals], plus[k_plus] + minus[k_minus])
    return best


def _best_total(m: int, correct: Counts, delta: float, confidence: float) -> int:
    """The number of guesses r with the largest bound, given the right guesses for each r.

    A rival has a larger bound exactly if it rejects the best epsilon so far, which is one p-value
    instead of a bisection; and the binomial tail, which is at most the p-value, comes first.
    """
    alpha = 1 - confidence
    rivals = np.flatnonzero(2 * correct > np.arange(m + 1))
    best, epsilon = 0, 0.0
    while len(rivals):
        rivals = rivals[binomial_tail(rivals, correct[rivals], epsilon) < alpha]
        p = p_values(m, rivals, correct[rivals], epsilon, delta)
        rivals, p = rivals[p < alpha], p[p < alpha]
        if len(rivals) == 0:
            break
        best = int(rivals[np.argmin(p)])
        epsilon = epsilon_lower_bound(m, best, int(correct[best]), delta, confidence)
        rivals = rivals[rivals != best]
    return best
