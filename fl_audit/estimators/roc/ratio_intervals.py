"""Epsilon from the confidence interval of a ratio of rates, as tensorflow-privacy offers it.

Its epsilon_lower_bound has five: KATZ_LOG, ADJUSTED_LOG, BAILEY, INV_SINH and CLOPPER_PEARSON. The
module is not in the installed release, 0.9.0, and it needs statsmodels, which is not installed
either. scipy has the first of them, which is called here, and `threshold_clopper_pearson` is the
last. The other three are in no installed library and are left out: they are approximate like
Katz's, and `threshold_valid` is exact.
"""

import math
from dataclasses import dataclass

from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_confidence
from fl_audit.estimators.counts.confusion import ConfusionCounts
from fl_audit.estimators.gaussian.best_threshold import Guess
from fl_audit.estimators.result import json_value
from fl_audit.estimators.setting import NotApplicableError


@dataclass(frozen=True)
class RatioBound:
    """An approximate lower bound on epsilon at delta 0, from a ratio of rates.

    Attributes:
      method: Name of the interval of the ratio.
      guess: The guess whose rates form the ratio: "included" for TPR / FPR, "excluded" for TNR /
        FNR.
      epsilon: Log of the ratio's lower end, in nats, at least 0.
      log_ratio: Log of the observed ratio; negative where the guesses are worse than chance.
      confidence: Confidence that epsilon is no more than the true one, in the limit of large
        counts.
      guarantee: What the bound guarantees, and what it does not, in words.
    """

    method: str
    guess: Guess
    epsilon: float
    log_ratio: float
    confidence: float
    guarantee: str

    def to_json(self) -> dict[str, object]:
        """The bound as a JSON object; infinities as words."""
        return {
            "method": self.method,
            "guess": self.guess,
            "epsilon": json_value(self.epsilon),
            "log_ratio": json_value(self.log_ratio),
            "confidence": self.confidence,
            "guarantee": self.guarantee,
        }


def katz_log_bound(counts: ConfusionCounts, guess: Guess, confidence: float) -> RatioBound:
    """The log of the lower end of Katz's interval for TPR / FPR or TNR / FNR.

    Katz, Baptista, Azen & Pike (1978), "Obtaining confidence intervals for the risk ratio in
    cohort studies", Biometrics 34, method C, one-sided, by scipy.stats.contingency.relative_risk.
    A mechanism that is (epsilon, 0)-private has both ratios at most e^epsilon; for an audit with
    it see Lu et al. (2022), "A general framework for auditing differentially private machine
    learning", arXiv:2210.08643.

    The exact law of the ratio tells how often the bound fails: at 95 % it exceeds log(TPR / FPR) in
    7.2 % of audits with 100 members, 10,000 others and rates of 0.002 and 0.001, in 6.1 % with
    rates of 0.05 and 0.01; with 100 of each and rates of 0.5 and 0.01 in none, but 37 % have no
    bound at all.

    Args:
      counts: Counts at one threshold, such as those of `counts_at`.
      guess: The guess whose rates form the ratio: "included" for TPR / FPR, "excluded" for TNR /
        FNR.
      confidence: Confidence of the bound, in [0.5, 1).

    Raises:
      InputError: If the confidence is out of range.
      NotApplicableError: If no guess is wrong, where the interval is not defined.

    >>> bound = katz_log_bound(ConfusionCounts(10, 1000, 10, 10000), "included", 0.95)
    >>> round(math.exp(bound.epsilon), 2), round(math.exp(bound.log_ratio), 2)
    (589.27, 991.09)
    """
    from scipy.stats import contingency  # here, for it takes half a second

    check_confidence(confidence)
    if confidence < 0.5:
        raise InputError(f"confidence of a ratio bound must be at least 0.5, got {confidence}")
    if guess == "included":
        right, of_right = counts.true_positives, counts.members
        wrong, of_wrong = counts.false_positives, counts.non_members
    else:
        right, of_right = counts.true_negatives, counts.non_members
        wrong, of_wrong = counts.false_negatives, counts.members
    if wrong == 0:
        name = "false positive" if guess == "included" else "false negative"
        raise NotApplicableError(f"the Katz log interval needs at least 1 {name}, got 0")
    risk = contingency.relative_risk(right, of_right, wrong, of_wrong)
    # Two-sided at 1 - 2 alpha, so that the lower end alone fails with alpha.
    lower = float(risk.confidence_interval(2 * confidence - 1).low)
    return RatioBound(
        method="katz_log",
        guess=guess,
        epsilon=math.log(max(lower, 1.0)),
        log_ratio=math.log(risk.relative_risk) if right else -math.inf,
        confidence=confidence,
        guarantee=(
            f"Approximate: in the limit of large counts and for one threshold fixed in advance, "
            f"true epsilon at delta 0 is at least this with {100 * confidence:g} % confidence. It "
            "is not valid for counts near 0 or for a threshold chosen on the same scores."
        ),
    )
