"""The one-run bound for mechanisms whose trade-off is Gaussian (Mahloujifar et al. 2024)."""

import numpy as np

from fl_audit.estimators.bisection import supremum
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from fl_audit.estimators.one_run.f_dp import mu_rejected
from fl_audit.estimators.one_run.guesses import (
    Guesses,
    correct_among_bottom,
    correct_among_top,
)
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

_SHARES = (2, 4, 8, 16)
"""Of the canaries, a half, a quarter ... are guessed. All of them are never the best number."""


def one_run_fdp(setting: AuditSetting) -> Estimate:
    """The largest epsilon whose Gaussian trade-off the right guesses reject.

    For r = m / 2, m / 4, m / 8 and m / 16 of m canaries, the ceil(r / 2) largest scores are guessed
    to be included and the floor(r / 2) smallest to be excluded. Each tests mu-GDP at alpha / 4
    (`mu_rejected`); the largest mu that any rejects becomes epsilon at delta by the Gaussian
    mechanism with noise 1 / mu (Balle & Wang 2018).

    Mahloujifar, Melis & Chaudhuri (2024), arXiv:2410.22235, Algorithm 1 with r guesses of m.

    Raises:
        NotApplicableError: without included or without excluded scores.
    """
    setting.require(included=1, excluded=1)
    m = setting.scores.num_included + setting.scores.num_excluded
    candidates = _candidates(setting.scores)
    alpha = (1 - setting.confidence) / len(candidates)
    mu, best = 0.0, Guesses(0, 0, 0)
    for guesses in candidates:
        # Only what rejects the best so far can be better.
        if mu_rejected(mu, m, guesses.total, guesses.correct, alpha):
            mu, best = _largest_rejected(m, guesses, alpha), guesses
    epsilon = epsilon_of_sigma(1 / mu, setting.delta) if mu > 0 else 0.0
    return Estimate(
        method="one_run_fdp",
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        valid_for="Gaussian mechanisms",
        assumes=(
            "Each canary was included by an independent fair coin, not in fixed numbers; and the "
            "mechanism is mu-GDP for some mu, as one or many releases with Gaussian noise are "
            "(nearly)."
        ),
        guarantee=(
            f"If the mechanism is mu-GDP, its epsilon is at least this with "
            f"{100 * setting.confidence:g} % confidence: the numbers of guesses were fixed in "
            "advance and corrected for. Of other mechanisms it says nothing."
        ),
        source=(
            "Mahloujifar, Melis & Chaudhuri (2024), arXiv:2410.22235, with a Bonferroni correction"
        ),
        details={
            "mu": mu,
            "m": m,
            "guesses": best.total,
            "correct": best.correct,
            "k_plus": best.k_plus,
            "k_minus": best.k_minus,
            "num_choices": len(candidates),
        },
    )


def _candidates(scores: CanaryScores) -> list[Guesses]:
    """The guesses at each number fixed in advance."""
    top, bottom = correct_among_top(scores), correct_among_bottom(scores)
    m = len(top) - 1
    totals = np.unique([max(m // share, 1) for share in _SHARES])
    return [
        Guesses(int(r - r // 2), int(r // 2), int(top[r - r // 2] + bottom[r // 2])) for r in totals
    ]


def _largest_rejected(m: int, guesses: Guesses, alpha: float) -> float:
    return supremum(lambda mu: mu_rejected(mu, m, guesses.total, guesses.correct, alpha))
