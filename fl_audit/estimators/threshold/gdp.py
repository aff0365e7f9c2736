"""A lower bound for Gaussian differentially private mechanisms, by the best threshold.

Nasr et al. (2023), "Tight Auditing of Differentially Private Machine Learning", arXiv:2302.07956,
section 4: where the shape of the trade-off between the error rates is known, one point of it
gives all of it, and epsilon at a small delta follows from error rates that can be measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.gaussian.gdp import epsilon_of_mu
from fl_audit.estimators.laws import NullTail
from fl_audit.estimators.result import Detail, Estimate
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.null_choice import ChosenNull, chosen_null
from fl_audit.estimators.threshold.uniform import bounded_thresholds, strongest_rejection


@dataclass(frozen=True)
class _ProvenMu:
    """The largest mu that a threshold proves, at least 0, and the details of the threshold."""

    mu: float
    threshold: Mapping[str, Detail]


def threshold_gdp(setting: AuditSetting) -> Estimate:
    """The epsilon of the largest mu that any threshold proves of a mu-GDP mechanism.

    A mu-GDP mechanism allows at most TPR = Phi(Phi^-1(FPR) + mu) (Dong, Roth & Su 2022), so every
    threshold proves mu >= Phi^-1(1 - FPR) - Phi^-1(FNR). The error rates are those of
    threshold_valid, for all thresholds at once: a band under a known null, tests at ranks of the
    excluded scores under the empirical one and where they refute the known one. Epsilon is
    that of the Gaussian mechanism with noise multiplier 1 / mu (Balle & Wang 2018); with delta 0 it
    is infinite if mu is above 0.

    Raises:
      NotApplicableError: If there are no included scores, or fewer than 2 excluded scores where the
        null is empirical or refuted.
    """
    setting.require(included=1)
    null = chosen_null(setting)
    proven = _by_ranks(setting) if null.tail is None else _by_band(setting, null, null.tail)
    epsilon = 0.0 if null.proves_nothing else epsilon_of_mu(proven.mu, setting.delta)
    return Estimate(
        method="threshold_gdp",
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        valid_for="Gaussian mechanisms",
        assumes=_assumptions(null),
        guarantee=(
            f"True epsilon is at least this with {100 * setting.confidence:g} % confidence if the "
            "mechanism is mu-GDP, and valid although the threshold is chosen on the data. Of any "
            "other mechanism it says nothing."
        ),
        source=(
            "Nasr et al. (2023), arXiv:2302.07956, section 4; Balle & Wang (2018), "
            "arXiv:1805.06530, theorem 8; error rates as threshold_valid"
        ),
        details={**null.details(), "mu": proven.mu, **proven.threshold},
    )


def largest_gaussian_rate(false_positive_rate: FloatArray, mu: float) -> FloatArray:
    """The largest true positive rate of a mu-GDP mechanism (Dong, Roth & Su 2022, definition 2.6).

    >>> largest_gaussian_rate(np.array([0.0, 0.5, 1.0]), 1.0).round(4).tolist()
    [0.0, 0.8413, 1.0]
    """
    return np.asarray(special.ndtr(special.ndtri(false_positive_rate) + mu))


def _by_band(setting: AuditSetting, null: ChosenNull, tail: NullTail) -> _ProvenMu:
    bounded = bounded_thresholds(setting.scores, null.confidence, tail)
    negatives, positives = bounded.negatives, bounded.positives
    proven = _normal_score(negatives.success, negatives.error) - _normal_score(
        positives.error, positives.success
    )
    best = int(np.argmax(proven))
    threshold = {
        "threshold": float(bounded.thresholds[best]),
        "false_negatives": int(bounded.false_negatives[best]),
        "fnr_upper": float(np.exp(negatives.error[best])),
        "log_fpr_upper": float(positives.error[best]),
        "local_level": float(bounded.levels[best]),
        "num_thresholds": len(bounded.thresholds),
    }
    return _ProvenMu(max(float(proven[best]), 0.0), threshold)


def _by_ranks(setting: AuditSetting) -> _ProvenMu:
    best = strongest_rejection(setting, largest_gaussian_rate)
    return _ProvenMu(best.claim, best.details())


def _normal_score(log_p: FloatArray, log_rest: FloatArray) -> FloatArray:
    """Phi^-1(p) from log p and log(1 - p), by the smaller of the two, which keeps its digits."""
    return np.where(
        log_p < log_rest, special.ndtri_exp(log_p), -np.asarray(special.ndtri_exp(log_rest))
    )


def _assumptions(null: ChosenNull) -> str:
    return (
        "The mechanism is mu-GDP for some mu, as the Gaussian mechanism is: its error rates trade "
        "off as those between N(0, 1) and N(mu, 1). Canaries' scores are independent given "
        "inclusion, with one law for included canaries and one for excluded ones."
        f"{null.assumption}"
    )
