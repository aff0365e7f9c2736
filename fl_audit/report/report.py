"""The report of an audit: the one record that is built, rendered, written and read back.

Fields are named as the keys of report.json and stand in their order. The JSON repeats delta,
confidence, dim, accuracy and the counts of canaries for programs that read a part of it alone; here
they stand once, and `report_json` writes them wherever the JSON has them. Infinities are floats.

A field has a default where an older report, which `fl-audit compare` still reads, lacks its key.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from fl_audit.checks.aggregates import FALSE_ALARM
from fl_audit.config import Config
from fl_audit.estimators.result import Record, data_frame
from fl_audit.formats.folders import RunRecord
from fl_audit.verdict.live import shared_confidence


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
      knows: How much the attacker knows, by which threat models are ordered; only in a run with
        plugins, whose threat models the reader of its folder may not have.
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
    knows: int | msgspec.UnsetType = msgspec.UNSET

    def estimate_by(self, method: str) -> EstimateReport | None:
        """The estimate by a method; None where it was left out."""
        return next((made for made in self.estimates if made.method == method), None)

    def epsilon_by(self, method: str) -> float | None:
        """Epsilon by a method; None where it was left out."""
        made = self.estimate_by(method)
        return None if made is None else made.epsilon


class GaussianEfficiencyReport(msgspec.Struct, frozen=True):
    """The same by bounds that hold for Gaussian mechanisms alone.

    Attributes:
      proven: The largest lower bound that holds for Gaussian mechanisms; None without any.
      proven_by: The method that proved it.
      provable: The most that such a test could have proven, in the median.
    """

    proven: float | None
    proven_by: str | None
    provable: float


class EfficiencyReport(msgspec.Struct, frozen=True):
    """What was proven on a statistic, what could have been, and what the noise guarantees.

    Attributes:
      proven: The largest of the lower bounds that hold for any mechanism, each at the run's
        confidence; None without any.
      proven_by: The method that proved it.
      provable: What the best single threshold, had it been known beforehand, would have proven with
        these included canaries at this confidence, in the median; None where that is not known.
      guaranteed: The epsilon that the noise guarantees a canary against the statistic's attacker,
        possibly infinite; None where none is known.
      guaranteed_by: The accountant of the guarantee.
      knows_rounds: Whether the attacker knows in which rounds a canary is online.
      gaussian: The same by bounds for Gaussian mechanisms; None where what the attacker sees is
        not one, so that these bounds are about a stronger attacker.
    """

    proven: float | None
    proven_by: str | None
    provable: float | None
    guaranteed: float | None
    guaranteed_by: str | None
    knows_rounds: bool
    gaussian: GaussianEfficiencyReport | None


class ThreatModelReport(msgspec.Struct, frozen=True):
    """What one attacker sees of the run.

    Attributes:
      title: A few words for a heading.
      sees: What the attacker sees, in words that follow "an attacker who sees".
      first_round: First round, from 1, whose participants the attacker may find.
      last_round: Last round, from 1, whose participants the attacker may find.
      num_included_in_rounds: Included canaries that took part in any of these rounds.
    """

    title: str
    sees: str
    first_round: int
    last_round: int
    num_included_in_rounds: int


class VerdictReport(msgspec.Struct, frozen=True):
    """The verdict on the claim that a client has (claimed_epsilon, delta)-privacy.

    Attributes:
      outcome: "contradicted", "consistent" or "inconclusive".
      reason: The reason for the outcome, as a clause in which the claim is "it".
      claimed_epsilon: The epsilon that the config claims, at the run's delta.
      epsilon_lower: The largest of the lower bounds that were made; 0 without any.
      method: The method that proved it; None where the scores allow none.
      statistic: The statistic that it was proved on.
      assumes: What has to hold for the bound, in words.
      num_looks: Number of lower bounds that were made.
      p_value: The smallest 1 - confidence at which the claim would be contradicted; None where
        the canaries do not bear on it.
      simulated_epsilon: Epsilon of the mechanism whose audits are simulated.
      power: Share of the simulated audits that contradict the claim; None if not simulated.
      canaries_needed: About how many canaries give enough power; None where that is not known.
      detectable_epsilon: The smallest true epsilon that the audit would have contradicted with
        enough power; None where there is none, and in reports of older versions.
    """

    outcome: str
    reason: str
    claimed_epsilon: float
    epsilon_lower: float
    method: str | None
    statistic: str | None
    assumes: str | None
    num_looks: int
    p_value: float | None
    simulated_epsilon: float
    power: float | None
    canaries_needed: int | None
    detectable_epsilon: float | None = None


class ArrivalReport(msgspec.Struct, frozen=True):
    """What became of the included canaries.

    Attributes:
      state: "arrived", "not_arrived" or "cannot_tell".
      ratio: How long they were in the aggregates, over what the mechanism lets a client send; None
        where that is not known.
      reason: The reason for the state, as a clause.
      fault: A significant shortfall or excess with its likely causes; None where there is none.
      signal: The lower end of the share of a client's signal that they show; None where not known.
      num_scored: The number of included canaries with a scored round; None where rounds are not
        known, as for the number of all that follows.
      num_included: The number of included canaries.
    """

    state: str
    ratio: float | None
    reason: str
    fault: str | None = None
    signal: float | None = None
    num_scored: int | None = None
    num_included: int | None = None


class CheckReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one check of the mechanism.

    Attributes:
      name: Name of the check.
      meaning: What a correct mechanism does, in a sentence.
      passed: Whether a correct mechanism may well look like this.
      p_value: Bound on how likely a correct mechanism looks as bad; 0 where a float is too coarse.
      num_tests: Number of rounds and variables, or of lags, that were looked at.
      round: Round, from 1, with the worst finding; None where no round stands out.
      variable: Variable of the model, from 1, with the worst finding; None for the whole model.
      ratio: The worst finding divided by what is expected of a correct mechanism.
      measured: The finding in words, of a replay; not there for other checks.
      told: Whether the question could be answered; not there where it could.
      detectable_ratio: The largest noise, over what it should be, that a check of its length would
        have seen to be too short with a probability of 95 %; 0 where it would not have seen that
        there is none. Not there for other checks.
    """

    name: str
    meaning: str
    passed: bool
    p_value: float
    num_tests: int
    round: int | None
    variable: int | None
    ratio: float
    measured: str | None = None
    told: bool = True
    detectable_ratio: float | None = None


class ChecksReport(msgspec.Struct, frozen=True):
    """The checks of the mechanism.

    Attributes:
      false_alarm: How likely a check of a correct mechanism fails, at most.
      not_checked: Why the aggregates, or some of them, are not checked, in words; None where they
        are.
      results: The checks that were made.
    """

    false_alarm: float
    not_checked: str | None
    results: tuple[CheckReport, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.passed for check in self.results)


class FaultReport(msgspec.Struct, frozen=True):
    """A fault of the training.

    Attributes:
      name: Its short name.
      words: What was seen, in a sentence.
    """

    name: str
    words: str


class AccountantReport(msgspec.Struct, frozen=True):
    """Epsilon by one accountant.

    Attributes:
      accountant: Name of the accountant.
      epsilon: Upper bound, possibly infinite; None where the accountant cannot tell.
      reason: Why the accountant cannot tell, in words; None where it can.
    """

    accountant: str
    epsilon: float | None
    reason: str | None


class GuaranteeReport(msgspec.Struct, frozen=True):
    """What the noise guarantees to one party.

    Attributes:
      epsilon: The tightest upper bound, possibly infinite; None where none is known.
      participations: Rounds that the party takes part in at most; None where sampling decides.
      by_accountant: An upper bound on the same epsilon by each accountant.
    """

    epsilon: float | None
    participations: int | None
    by_accountant: tuple[AccountantReport, ...]


class AttackerReport(msgspec.Struct, frozen=True):
    """What the noise guarantees against one kind of attacker who sees every round.

    Attributes:
      client: Guarantee to a real client.
      canary: Guarantee to an included canary.
    """

    client: GuaranteeReport
    canary: GuaranteeReport


class AnalyticalReport(msgspec.Struct, frozen=True):
    """What the noise guarantees against any attacker.

    Attributes:
      epsilon: The guarantee to whoever takes part most; None where either party's is not known.
      neighbours: Which two runs are compared, in words.
      assumes: What has to hold, in words.
      client: Guarantee to a real client.
      canary: Guarantee to an included canary.
      attackers: The guarantees against an attacker who "knows_rounds", each client's and canary's,
        and against one who "does_not_know_rounds".
    """

    epsilon: float | None
    neighbours: str
    assumes: tuple[str, ...]
    client: GuaranteeReport
    canary: GuaranteeReport
    attackers: Mapping[str, AttackerReport] = {}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a finished run: all of report.json.

    Attributes:
      statistics: What was estimated, by statistic, in the order to show them.
      threat_models: What attackers see, by name, from the weakest on.
      verdict: What became of the claim; None where the config makes none.
      arrival: What became of the included canaries; None in a report from before it was there.
      checks: Checks of the mechanism.
      faults: What went wrong in the training itself.
      analytical: What the noise guarantees, at the run's delta.
      efficiency: What was proven of what could have been, and of what is guaranteed, by statistic.
      run: What the run did; delta, dim, accuracy and the pool's counts are here.
      config: What was asked for; the confidence of all bounds is here.
      fl_audit_version: Version that wrote the report.
    """

    statistics: Mapping[str, StatisticReport]
    threat_models: Mapping[str, ThreatModelReport] = {}
    verdict: VerdictReport | None
    arrival: ArrivalReport | None = None
    checks: ChecksReport = ChecksReport(FALSE_ALARM, None, ())
    faults: tuple[FaultReport, ...] = ()
    analytical: AnalyticalReport
    efficiency: Mapping[str, EfficiencyReport] = {}
    run: RunRecord
    config: Config
    fl_audit_version: str

    def guaranteed_against(self, statistic: str) -> AttackerReport:
        """The guarantees against a statistic's attacker; those against any in an older report."""
        made, analytical = self.efficiency.get(statistic), self.analytical
        if made is None or not analytical.attackers:
            return AttackerReport(analytical.client, analytical.canary)
        return analytical.attackers["knows_rounds" if made.knows_rounds else "does_not_know_rounds"]

    def records(self) -> list[Record]:
        """A row for each statistic and method, as `pandas.DataFrame` takes them."""
        from fl_audit.report.terminal import report_records

        return report_records(self)

    def to_pandas(self) -> Any:
        """The rows of `records` as a `pandas.DataFrame`.

        Raises:
          InputError: pandas is not installed.
        """
        return data_frame(self.records())

    def _repr_html_(self) -> str:
        """The answer of the audit as a notebook shows it."""
        from fl_audit.report.terminal import report_html

        return report_html(self)

    @property
    def delta(self) -> float:
        """The delta of all estimates."""
        return self.run.delta

    @property
    def dim(self) -> int:
        """The number of trainable parameters."""
        return self.run.dim

    @property
    def num_canaries(self) -> int:
        """The number of canaries that were scored."""
        return self.run.num_canaries

    @property
    def confidence(self) -> float:
        """Confidence of each bound and interval."""
        return self.config.audit.confidence

    @property
    def verdict_confidence(self) -> float:
        """Confidence of the verdict; larger where a live test has a share of the level."""
        return shared_confidence(self.config.audit)
