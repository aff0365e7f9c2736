"""A lower bound that stays valid although the best of several thresholds is chosen on the data.

The thresholds are fixed without the included scores, and a union bound (Bonferroni) pays for all
of them. Every confidence bound is exact (Clopper & Pearson 1934).
"""

from dataclasses import dataclass

import numpy as np

from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import FloatArray
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.error_rate_bounds import (
    LogRates,
    clopper_pearson_upper,
    false_positive_rates,
)
from fl_audit.estimators.threshold.proven_threshold import strongest_threshold

_HALVINGS = np.unique(np.geomspace(1, 990, 45).astype(np.int64))
"""Thresholds of the closed-form null have tails 2^-k: all k to 8, then steps of a fifth at most.

Epsilon is at most about k log 2 where the tail is 2^-k, so a step costs at most a fifth of it, and
a few thresholds reach an epsilon of 680, where the tail nears the smallest float.
"""


@dataclass(frozen=True)
class Candidates:
    """Thresholds fixed without the included scores: a score above one is guessed included.

    Attributes:
        thresholds: [t] float64, ascending.
        positives: [t] bounds on the false positive rates, or these rates where they are known.
        confidence: of each single bound, so that all of them hold at once at the one asked for.
    """

    thresholds: FloatArray
    positives: LogRates
    confidence: float


def threshold_valid(setting: AuditSetting) -> Estimate:
    """The largest epsilon that any of some thresholds proves, valid after that choice.

    max over t of max(log((1 - delta - FNR) / FPR), log((1 - delta - FPR) / FNR)), where a score
    above t means included. All bounds on FNR and FPR hold at once with probability at least
    `confidence`; then so does the maximum.

    Closed-form null: FPR is exact, t takes fixed tail probabilities of the null, and FNR has a
    Clopper-Pearson upper bound at 1 - alpha / J for J thresholds.

    Empirical null: t is the j-th largest of the n excluded scores, for fixed ranks j. Write each
    score as a quantile of its law at a uniform variable, X = F^-1(V): then F(X) >= V, and as F^-1
    does not decrease the j-th largest X belongs to the j-th largest V. So FPR(t) = 1 - F(t) is at
    most 1 minus the j-th largest V, which is Beta(j, n - j + 1), whatever the law and with ties
    too (Wilks 1941; Scheffe & Tukey 1945). Given the excluded scores t is fixed, and the false
    negatives, which include ties with t, are binomial. J thresholds make 2 J bounds, each at
    1 - alpha / (2 J).

    Raises:
        NotApplicableError: without included scores, or with fewer than 2 excluded scores under
            the empirical null.
    """
    setting.require(included=1)
    setting.require_null_scores()
    candidates = _null_tails(setting) if setting.null == "closed_form" else _null_ranks(setting)
    included = np.sort(setting.scores.included)
    false_negatives = np.searchsorted(included, candidates.thresholds, side="right")
    best = strongest_threshold(
        candidates.thresholds,
        false_negatives,
        clopper_pearson_upper(false_negatives, len(included), candidates.confidence),
        candidates.positives,
        setting.delta,
    )
    return Estimate(
        method="threshold_valid",
        kind="lower_bound",
        epsilon=best.epsilon,
        lower=best.epsilon,
        assumes=_assumptions(setting),
        guarantee=(
            f"True epsilon is at least this with {100 * setting.confidence:g} % confidence; valid "
            "although the threshold is chosen on the data, since the candidates were fixed without "
            "the included scores and corrected for."
        ),
        source=(
            "Andrew et al. (2023), arXiv:2302.03098, section 5, with Clopper-Pearson intervals "
            "and a Bonferroni correction; at ranks of excluded scores after Wilks (1941)"
        ),
        details={
            "null": setting.null,
            **best.details(),
            "num_thresholds": len(candidates.thresholds),
            "corrected_confidence": candidates.confidence,
        },
    )


def _null_tails(setting: AuditSetting) -> Candidates:
    """Thresholds with upper tails 2^-k of the closed-form null, and with such lower tails.

    A lower tail below 1 / (included scores) is left out: it has to exceed the bound on FNR, which
    never is that small.
    """
    law = setting.closed_form_null()
    tails = 2.0**-_HALVINGS
    lower = tails[(tails < 0.5) & (tails * setting.scores.num_included >= 1)]
    thresholds = np.unique(np.concatenate([law.ppf(lower), law.isf(tails)]))
    # In a small dimension the far tails round to a cosine of 1, which no score exceeds.
    thresholds = thresholds[np.abs(thresholds) < 1]
    confidence = _corrected(setting.confidence, len(thresholds))
    return Candidates(thresholds, false_positive_rates(law, thresholds), confidence)


def _null_ranks(setting: AuditSetting) -> Candidates:
    """Thresholds at the excluded scores of rank 1, 2, 4, ... from the top and from the bottom."""
    n = setting.scores.num_excluded
    powers = 2 ** np.arange(n.bit_length())
    from_top = np.unique(np.concatenate([powers, n + 1 - powers]))[::-1]
    confidence = _corrected(setting.confidence, 2 * len(from_top))
    # Beta(j, n - j + 1) is also the Clopper-Pearson bound for j - 1 errors in n trials.
    positives = clopper_pearson_upper(from_top - 1, n, confidence)
    return Candidates(np.sort(setting.scores.excluded)[n - from_top], positives, confidence)


def _corrected(confidence: float, bounds: int) -> float:
    """The confidence of each of so many bounds that makes all hold at once (Bonferroni)."""
    return 1 - (1 - confidence) / bounds


def _assumptions(setting: AuditSetting) -> str:
    shared = (
        "Canaries' scores are independent given inclusion, with one law for included canaries and "
        "one for excluded ones"
    )
    if setting.null == "empirical":
        return f"{shared}."
    return (
        f"{shared}; the latter is the closed-form law (for Rademacher canaries, its Gaussian "
        "limit is an approximation)."
    )
