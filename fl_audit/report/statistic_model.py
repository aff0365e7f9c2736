"""The typed structure of one statistic's part of report.json; see `model`."""

from collections.abc import Mapping
from typing import Any

import msgspec


class EstimateDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of an estimate and the numbers behind it.

    Attributes:
      numbers: The method's own numbers by name, such as its threshold; the JSON has them beside
        the words below.
      valid_for: Mechanisms on which a lower bound holds at its confidence, choices made on the
        data included; None if the method claims no such thing.
      assumes: What has to hold for the value to mean anything, in words.
      guarantee: What the value guarantees, and what it does not, in words.
      source: Paper, section and equation of the method.
    """

    numbers: Mapping[str, Any]
    valid_for: str | None
    assumes: str
    guarantee: str
    source: str


class EstimateReport(msgspec.Struct, frozen=True):
    """The result of one method on one statistic.

    Attributes:
      method: Name of the method.
      kind: "estimate", "lower_bound" or "interval".
      epsilon: The value to report first, possibly infinite.
      lower: Lower end of a bound or interval; None for a point estimate.
      upper: Upper end of an interval; None for other kinds.
      details: The meaning of the value and the numbers behind it.
    """

    method: str
    kind: str
    epsilon: float
    lower: float | None
    upper: float | None
    details: EstimateDetails


class OperatingPointReport(msgspec.Struct, frozen=True):
    """The best true positive rate at a false positive rate.

    Attributes:
      false_positive_rate: The rate that is allowed at most.
      false_positives: Number of excluded canaries that this rate allows.
      true_positive_rate: The largest true positive rate of a threshold within that rate.
      interval: Lower and upper end of the true positive rate's interval; None with too few false
        positives for one.
    """

    false_positive_rate: float
    false_positives: int
    true_positive_rate: float
    interval: tuple[float, float] | None


class RocReport(msgspec.Struct, frozen=True):
    """How well scores separate included from excluded canaries.

    Attributes:
      auc: Area under the ROC curve.
      auc_interval: Lower and upper end of the area's confidence interval.
      operating_points: The true positive rate at each reported false positive rate.
      balanced_accuracy: Balanced accuracy of the best threshold, which is chosen on the same
        scores.
    """

    auc: float
    auc_interval: tuple[float, float]
    operating_points: tuple[OperatingPointReport, ...]
    balanced_accuracy: float


class NormalityReport(msgspec.Struct, frozen=True):
    """An Anderson-Darling test of normality.

    Attributes:
      statistic: The test statistic A²; larger is further from Gaussian.
      critical_values: Values that A² exceeds for Gaussian scores with the probability that is their
        key, such as "0.15".
    """

    statistic: float
    critical_values: Mapping[str, float]


class AndersonDarlingReport(msgspec.Struct, frozen=True):
    """The tests of normality of the two groups of canaries.

    Attributes:
      included: Test of the included canaries' scores; None where it is not defined.
      excluded: Test of the excluded canaries' scores; None where it is not defined.
    """

    included: NormalityReport | None
    excluded: NormalityReport | None


class NullCheckReport(msgspec.Struct, frozen=True):
    """Mean and variance of the excluded scores beside those of the null law N(0, 1/dim).

    Attributes:
      mean: Mean of the excluded scores.
      mean_expected: Mean of the null law.
      mean_standard_error: Standard error of the mean under the null law.
      variance: Variance of the excluded scores (ddof=1).
      variance_expected: Variance of the null law.
      variance_standard_error: Standard error of the variance under the null law.
    """

    mean: float
    mean_expected: float
    mean_standard_error: float
    variance: float
    variance_expected: float
    variance_standard_error: float


class StatisticReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results on one statistic, and how well its scores fit what the methods assume.

    Attributes:
      num_included: Number of scores of included canaries.
      num_excluded: Number of scores of excluded canaries.
      roc: How well scores separate included from excluded canaries; None where a group is empty.
      estimates: The results of the methods, in the order of the methods.
      threat_model: Name of what the attacker sees; empty in reports older than threat models.
      null: Law of an excluded canary's score, as published estimators take it: "closed_form" or
        "empirical".
      bounds_null: Null law behind the bounds that hold for any mechanism or for Gaussian ones:
        "closed_form" where it is known, exactly or by a bound on its tail, which an estimate's
        detail `null_law` names; else "empirical". Empty in older reports.
      left_out: The reason, in words, for each method that is left out.
      anderson_darling: Tests of normality.
      null_check: Check of the null law; None where it has no closed form.
    """

    num_included: int
    num_excluded: int
    roc: RocReport | None = None
    estimates: tuple[EstimateReport, ...]
    threat_model: str = ""
    null: str
    bounds_null: str = ""
    left_out: Mapping[str, str]
    anderson_darling: AndersonDarlingReport
    null_check: NullCheckReport | None

    def estimate_by(self, method: str) -> EstimateReport | None:
        """The estimate by a method; None where it was left out."""
        return next((made for made in self.estimates if made.method == method), None)

    def epsilon_by(self, method: str) -> float | None:
        """Epsilon by a method; None where it was left out."""
        made = self.estimate_by(method)
        return None if made is None else made.epsilon
