"""The one-run bound, valid although the best of several numbers of guesses is chosen on the data.

The numbers are fixed before the scores are seen, and a union bound (Bonferroni) pays for all.
"""

import numpy as np

from fl_audit.estimators.one_run.bound import epsilon_lower_bound
from fl_audit.estimators.one_run.guesses import (
    Counts,
    Guesses,
    best_total,
    correct_among_bottom,
    correct_among_top,
)
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

_FEWEST = 8
"""Fewer guesses, even if all right, reject nothing at 95 % beside six choices (2^-7 > 0.05 / 7).

Whatever the confidence: with fewer choices at a higher one, the bound might grow with it.
"""


def one_run_valid(setting: AuditSetting) -> Estimate:
    """The largest one-run bound over numbers of guesses fixed in advance, each corrected for.

    The numbers are r = m, m // 2, m // 4, ... for m canaries. For each, the k+ = ceil(r / 2)
    canaries with the largest scores are guessed to be included and the k- = floor(r / 2) with the
    smallest excluded, at confidence 1 - alpha / J for J numbers. Steinke et al. (2023),
    Corollary 5.4.

    Raises:
        NotApplicableError: without included or without excluded scores.
    """
    setting.require(included=1, excluded=1)
    m = setting.scores.num_included + setting.scores.num_excluded
    totals = numbers_of_guesses(m)
    confidence = 1 - (1 - setting.confidence) / len(totals)
    guesses = _best_of(totals, setting.scores, setting.delta, confidence)
    epsilon = _bound(m, guesses, setting.delta, confidence)
    return Estimate(
        method="one_run_valid",
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        assumes="Each canary was included by an independent fair coin, not in fixed numbers.",
        guarantee=(
            f"True epsilon is at least this with {100 * setting.confidence:g} % confidence; valid "
            "although the number of guesses is chosen on the data, since the candidates were "
            "fixed in advance and corrected for."
        ),
        source=(
            "Steinke, Nasr & Jagielski (2023), arXiv:2305.08846, Corollary 5.4, with a Bonferroni "
            "correction"
        ),
        details={
            **guesses.details(m, setting.delta),
            "num_choices": len(totals),
            "corrected_confidence": confidence,
        },
    )


def _bound(m: int, guesses: Guesses, delta: float, confidence: float) -> float:
    # No guesses, no bound; and the corrected confidence may have rounded to 1.
    if guesses.total == 0:
        return 0.0
    return epsilon_lower_bound(m, guesses.total, guesses.correct, delta, confidence)


def numbers_of_guesses(m: int) -> Counts:
    """The numbers of guesses for m canaries: m, m // 2, m // 4, ... while at least 8.

    >>> numbers_of_guesses(100).tolist(), numbers_of_guesses(5).tolist()
    ([100, 50, 25, 12], [5])
    """
    halved = m >> np.arange(m.bit_length())
    return np.asarray(halved[(halved >= _FEWEST) | (halved == m)])


def _best_of(totals: Counts, scores: CanaryScores, delta: float, confidence: float) -> Guesses:
    """The guesses with the largest bound; none if no bound exceeds 0."""
    plus, minus = correct_among_top(scores), correct_among_bottom(scores)
    m = len(plus) - 1
    correct = np.full(m + 1, -1)
    k_minus = totals // 2
    correct[totals] = plus[totals - k_minus] + minus[k_minus]
    total = best_total(m, correct, delta, confidence)
    return Guesses(total - total // 2, total // 2, max(int(correct[total]), 0))
