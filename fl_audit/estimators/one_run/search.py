"""The one-run bound with the best numbers of guesses, as its authors report it."""

import numpy as np

from fl_audit.array_types import IntArray
from fl_audit.estimators.one_run.bound import epsilon_lower_bound
from fl_audit.estimators.one_run.guesses import (
    Guesses,
    best_total,
    correct_among_bottom,
    correct_among_top,
)
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

EXHAUSTIVE_UP_TO = 5000
"""The largest number of canaries for which all pairs of k+ and k- are tried instead of a grid."""

_DENSE_UP_TO = 200
_GRID_RATIO = 1.05


def one_run(setting: AuditSetting) -> Estimate:
    """The largest one-run bound over k+ and k-, as Steinke et al. report it in section 6.

    The k+ canaries with the largest scores are guessed to be included, the k- with the smallest
    excluded; on the rest the auditor abstains. All pairs are tried for up to EXHAUSTIVE_UP_TO
    canaries; for more, k+ and k- take all values up to 200 and then grow by 5 % a step.

    Raises:
      NotApplicableError: If there are no included or no excluded scores.
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
        details=guesses.details(m, setting.delta),
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
    """The most right guesses over all splits k+ + k- = r of cuts, by r; -1 where there is none.

    The bound grows with the right guesses, so for each r no other split can be better.
    """
    m = len(plus) - 1
    best = np.full(m + 1, -1)
    for k_plus in cuts:
        k_minus = cuts[: np.searchsorted(cuts, m - k_plus, side="right")]
        totals = k_plus + k_minus
        best[totals] = np.maximum(best[totals], plus[k_plus] + minus[k_minus])
    return best
