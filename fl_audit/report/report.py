"""The report of an audit: the one record that is built, rendered, written and read back.

It is made of the records of those who found its facts: estimates and ROC curves of `estimators`,
checks and the canary check of `checks`, guarantees of `accounting`, the verdict of `verdict`, and
what the run did. Only what nobody else has is defined here. Infinities are floats in memory and
words in JSON (`json_records`).

A field has a default where an older report, which `fl-audit compare` still reads, lacks its key,
and where scores alone do not say it.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from fl_audit.accounting import Accounting, FullGuarantee, Guarantee
from fl_audit.checks import FALSE_ALARM, CanaryCheck, Check
from fl_audit.checks.training_faults import TrainingFault
from fl_audit.config import Config
from fl_audit.config.file import recorded_config
from fl_audit.estimators import AndersonDarling, AuditResult, Estimate
from fl_audit.estimators.result import Record, data_frame
from fl_audit.estimators.roc import RocSummary
from fl_audit.estimators.roc.summary import DetectionRate
from fl_audit.formats.run_record import RunRecord
from fl_audit.json_records import (
    UNWRITTEN,
    WRITTEN_IF_SET,
    fields_from_json,
    fields_to_json,
    to_json,
)
from fl_audit.report.arms import ReportedArms
from fl_audit.verdict import Verdict


@dataclass(frozen=True)
class NormalityTests:
    """The Anderson-Darling tests of the two groups of canaries.

    Attributes:
      included: Test of the included canaries' scores; None where it is not defined.
      excluded: Test of the excluded canaries' scores; None where it is not defined.
    """

    included: AndersonDarling | None
    excluded: AndersonDarling | None


@dataclass(frozen=True)
class NullCheck:
    """Mean and variance of the excluded scores beside those of the null distribution N(0, 1/dim).

    Attributes:
      num_excluded: Number of excluded scores.
      mean: Mean of the excluded scores.
      mean_expected: Mean of the null distribution.
      mean_standard_error: Standard error of the mean under the null distribution.
      variance: Variance of the excluded scores (ddof=1).
      variance_expected: Variance of the null distribution.
      variance_standard_error: Standard error of the variance under the null distribution.
    """

    num_excluded: int
    mean: float
    mean_expected: float
    mean_standard_error: float
    variance: float
    variance_expected: float
    variance_standard_error: float


@dataclass(frozen=True, kw_only=True)
class StatisticReport(AuditResult):
    """The estimates on one statistic, and how well its scores fit what the methods assume.

    Attributes:
      roc: How well scores separate included from excluded canaries; None where a group is empty.
      left_out: The reason, in words, for each method that is left out.
      threat_model: Name of what the attacker sees; empty for scores of a kind that is not known,
        and in reports older than threat models.
      null: Null distribution of a score, as published estimators take it: "closed_form" or
        "empirical".
      bounds_null: Null distribution behind the bounds that hold for any mechanism or for Gaussian
        ones: "closed_form" where it is known, exactly or by a bound on its tail, which an
        estimate's detail `null_law` names; else "empirical". Empty in older reports.
      anderson_darling: Tests of normality.
      null_check: Check of the null distribution; None where it has no closed form.
      found: The share of included canaries found at the false positive rates that attacks are
        reported at, by thresholds of the null distribution; nothing where that is not known by
        design.
      knows: How much the attacker knows, by which threat models are ordered; only in a run with
        plugins, whose threat models the reader of its folder may not have.
    """

    roc: RocSummary | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    threat_model: str = ""
    null: str
    bounds_null: str = field(default="", metadata=WRITTEN_IF_SET)
    anderson_darling: NormalityTests
    null_check: NullCheck | None
    found: tuple[DetectionRate, ...] = field(default=(), metadata=WRITTEN_IF_SET)
    knows: int | None = field(default=None, metadata=WRITTEN_IF_SET)

    def estimate_by(self, method: str) -> Estimate | None:
        """The estimate by a method; None where it was left out."""
        return next((estimate for estimate in self.estimates if estimate.method == method), None)

    def epsilon_by(self, method: str) -> float | None:
        """Epsilon by a method; None where it was left out."""
        estimate = self.estimate_by(method)
        return None if estimate is None else estimate.epsilon


@dataclass(frozen=True)
class SeenByAttacker:
    """What one attacker sees.

    Attributes:
      title: A few words for a heading.
      sees: What the attacker sees, in words that follow "an attacker who sees".
      first_round: First round, from 1, whose participants the attacker may find; None where the
        rounds of canaries are not known, as for the numbers that follow.
      last_round: Last round, from 1, whose participants the attacker may find.
      num_included_in_rounds: Included canaries that took part in any of these rounds.
    """

    title: str
    sees: str
    first_round: int | None = None
    last_round: int | None = None
    num_included_in_rounds: int | None = None


NOT_KNOWN = SeenByAttacker("Not known", "what these scores are made from")


@dataclass(frozen=True)
class Checks:
    """The checks of the mechanism.

    Attributes:
      false_alarm: How likely a check of a correct mechanism fails, at most.
      not_checked: Why the aggregates, or some of them, are not checked, in words; None where they
        are.
      results: The checks that were made.
    """

    JSON_COMPUTED: ClassVar = ("passed",)

    false_alarm: float = FALSE_ALARM
    not_checked: str | None = None
    results: tuple[Check, ...] = ()

    @property
    def passed(self) -> bool | None:
        """Whether no check failed; None where none was made."""
        if any(check.failed for check in self.results):
            return False
        return True if any(check.was_made for check in self.results) else None

    @property
    def is_complete(self) -> bool:
        """Whether every check was made, and on all that there is to check."""
        is_made = all(check.was_made for check in self.results)
        return bool(self.results) and is_made and self.not_checked is None


@dataclass(frozen=True)
class FullGuarantees:
    """The curves behind both guarantees against one kind of attacker.

    Attributes:
      client: Guarantee to a real client in full.
      canary: Guarantee to an included canary in full.
    """

    client: FullGuarantee
    canary: FullGuarantee


@dataclass(frozen=True)
class Guarantees:
    """What the noise guarantees against one kind of attacker who sees every round.

    Attributes:
      client: Guarantee to a real client.
      canary: Guarantee to an included canary.
      in_full: Both guarantees in full; None in reports from before they were.
    """

    client: Guarantee
    canary: Guarantee
    in_full: FullGuarantees | None = field(default=None, metadata=WRITTEN_IF_SET)


@dataclass(frozen=True)
class GaussianEfficiency:
    """What bounds that hold for Gaussian mechanisms alone have proven and could have.

    Attributes:
      lower_bound: The largest lower bound that holds for Gaussian mechanisms; None without any.
      lower_bound_by: The method that proved it.
      reachable: The most that such a test could have proven, in the median.
    """

    lower_bound: float | None
    lower_bound_by: str | None
    reachable: float


@dataclass(frozen=True)
class Efficiency:
    """What was proven on a statistic, what could have been, and what the noise guarantees.

    Attributes:
      lower_bound: The largest of the lower bounds that hold for any mechanism, each at the run's
        confidence; None without any.
      lower_bound_by: The method that proved it.
      reachable: What the best single threshold, had it been known beforehand, would have proven with
        these included canaries at this confidence, in the median; None where that is not known.
      upper_bound: The epsilon that the noise guarantees a canary against the statistic's attacker,
        possibly infinite; None where none is known.
      upper_bound_by: The accountant of the guarantee.
      knows_rounds: Whether the attacker knows in which rounds a canary is online.
      gaussian: The same by bounds for Gaussian mechanisms; None where what the attacker sees is
        not one, so that these bounds are about a stronger attacker.
      sees_uploads: True where the attacker sees single uploads; None elsewhere.
    """

    lower_bound: float | None
    lower_bound_by: str | None
    reachable: float | None
    upper_bound: float | None
    upper_bound_by: str | None
    knows_rounds: bool
    gaussian: GaussianEfficiency | None
    sees_uploads: bool | None = field(default=None, metadata=WRITTEN_IF_SET)

    @property
    def attacker(self) -> str:
        """The attacker's key in `Report.attackers`."""
        if self.sees_uploads:
            return "sees_uploads"
        return "knows_rounds" if self.knows_rounds else "does_not_know_rounds"


AS_THE_LOG_STATES = "as the log states"
"""What upper bounds rest on that are of a log."""


@dataclass(frozen=True)
class ScoreSource:
    """Where scores come from whose training is not known.

    Attributes:
      name: The name of the folder or file.
      family: The canaries' family; None where it is not known.
      num_rounds: The number of rounds that were scored; None where it is not known.
    """

    name: str
    family: str | None = None
    num_rounds: int | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """The report of a finished run, or of scores whose training is not known.

    Attributes:
      statistics: What was estimated, by statistic, in the order to show them.
      threat_models: What attackers see, by name, from the weakest on.
      verdict: What became of the claim; None where none was made.
      canary_check: What became of the included canaries; None for a file of scores, and in a report from
        before it was there.
      checks: Checks of the mechanism; None where there are scores alone.
      faults: What went wrong in the training itself.
      analytical: What the noise guarantees, at the run's delta; None for scores alone.
      attackers: The guarantees against an attacker who "knows_rounds", each client's and canary's,
        and against one who "does_not_know_rounds", and where clients add the noise against one who
        "sees_uploads"; empty in a report from before it was there.
      efficiency: What was proven of what could have been, and of what is guaranteed, by statistic.
      run: What the run did; None for scores alone.
      config: What was asked for; None for scores alone.
      source: Where scores come from; None for a run.
      why_not_accounted: Why accounting says nothing, where it does not, in words.
      is_stated_by_log: Whether what accounting says is of noise and rounds as a log states them.
      arms: What arms of canaries show of patterns; None where there is one way for all.
      fl_audit_version: Version that made the report.
    """

    statistics: Mapping[str, StatisticReport]
    threat_models: Mapping[str, SeenByAttacker] = field(default_factory=dict)
    verdict: Verdict | None
    canary_check: CanaryCheck | None = None
    checks: Checks | None = None
    faults: tuple[TrainingFault, ...] = ()
    analytical: Accounting | None = None
    attackers: Mapping[str, Guarantees] = field(default_factory=dict)
    efficiency: Mapping[str, Efficiency] = field(default_factory=dict)
    run: RunRecord | None = None
    config: Config | None = None
    source: ScoreSource | None = field(default=None, metadata=UNWRITTEN)
    why_not_accounted: str = field(
        default="scores alone do not state the noise", metadata=UNWRITTEN
    )
    is_stated_by_log: bool = field(default=False, metadata=UNWRITTEN)
    arms: ReportedArms | None = field(default=None, metadata=WRITTEN_IF_SET)
    fl_audit_version: str

    def upper_bounds_against(self, statistic: str) -> Guarantees | None:
        """The guarantees against a statistic's attacker; those against any in an older report.

        None where no accounting is known.
        """
        efficiency, analytical = self.efficiency.get(statistic), self.analytical
        if analytical is None:
            return None
        if efficiency is None or not self.attackers:
            return Guarantees(analytical.client, analytical.canary)
        return self.attackers.get(efficiency.attacker)

    @property
    def is_sampled(self) -> bool:
        """Whether a run's sampling decides in which rounds a canary takes part."""
        if self.is_stated_by_log or self.analytical is None:
            return False
        return self.analytical.canary.participations is None

    @property
    def delta(self) -> float:
        """The delta of all estimates."""
        return self._any.delta if self.run is None else self.run.delta

    @property
    def confidence(self) -> float:
        """Confidence of each bound and interval."""
        return self._any.confidence if self.config is None else self.config.audit.confidence

    @property
    def dim(self) -> int | None:
        """The number of trainable parameters; None where it is not known."""
        return self._any.dim if self.run is None else self.run.dim

    @property
    def num_included(self) -> int:
        """The number of canaries that took part in training."""
        return self._any.num_included if self.run is None else self.run.num_included

    @property
    def num_canaries(self) -> int:
        """The number of canaries that were scored."""
        if self.run is not None:
            return self.run.num_canaries
        return self._any.num_included + self._any.num_excluded

    @property
    def num_rounds(self) -> int | None:
        """The number of rounds; None where it is not known."""
        if self.run is not None:
            return self.run.rounds
        return None if self.source is None else self.source.num_rounds

    @property
    def _any(self) -> StatisticReport:
        """One of the statistics, which scores have at least one of, all with the same canaries."""
        return next(iter(self.statistics.values()))

    def records(self) -> list[Record]:
        """A row for each statistic and method, as `pandas.DataFrame` takes them, without words."""
        words = ("assumes", "guarantee", "source")
        return [
            {"statistic": name, "threat_model": statistic.threat_model}
            | {key: value for key, value in row.items() if key not in words}
            for name, statistic in self.statistics.items()
            for row in statistic.records()
        ]

    def to_pandas(self) -> Any:
        """The rows of `records` as a `pandas.DataFrame`.

        Raises:
          InputError: pandas is not installed.
        """
        return data_frame(self.records())

    def _repr_html_(self) -> str | None:
        """The answer of the audit as a notebook shows it; None where no module renders it."""
        return next((render(self) for render in _html), None)


_html: list[Callable[[Report], str]] = []


def register_html(render: Callable[[Report], str]) -> None:
    """Sets what notebooks show of a report, so that records do not import what renders them."""
    _html[:] = [render]


def report_to_json(report: Report) -> dict[str, Any]:
    """The JSON object of report.json; of scores alone, what `fl-audit estimate FOLDER` prints.

    Raises:
      ValueError: A number is NaN.
    """
    if report.run is None or report.analytical is None:
        return _scores_to_json(report)
    attackers = {"attackers": report.attackers} if report.attackers else {}
    efficiency = {"efficiency": report.efficiency} if report.efficiency else {}
    arms = {"arms": report.arms} if report.arms else {}
    written: dict[str, Any] = to_json(
        {
            "statistics": report.statistics,
            "threat_models": report.threat_models,
            "analytical_epsilon": report.analytical.epsilon,
            "accuracy": report.run.accuracy,
            "verdict": report.verdict,
            "arrival": report.canary_check,
            "checks": report.checks,
            "faults": report.faults,
            "analytical": fields_to_json(report.analytical) | attackers,
            **efficiency,
            **arms,
            "run": report.run,
            "config": msgspec.json.decode(msgspec.json.encode(report.config)),
            "fl_audit_version": report.fl_audit_version,
        }
    )
    return written


def _scores_to_json(report: Report) -> dict[str, Any]:
    """What is known of scores: the estimates as of score files, and what is there beside them."""
    keys = ("arrival", "checks", "verdict", "arms")
    beside = {key: to_json(value) for key in keys if (value := getattr(report, key)) is not None}
    statistics = {
        name: estimates_to_json(statistic) for name, statistic in report.statistics.items()
    }
    return {"statistics": statistics, **beside, **_stated_to_json(report)}


def _stated_to_json(report: Report) -> dict[str, Any]:
    """What accounting says of the noise that a log states, under the keys of a run's."""
    if not report.is_stated_by_log or report.analytical is None:
        return {}
    analytical = fields_to_json(report.analytical) | {
        "attackers": report.attackers,
        "basis": AS_THE_LOG_STATES,
    }
    return {"analytical": to_json(analytical), "efficiency": to_json(report.efficiency)}


def estimates_to_json(statistic: StatisticReport) -> dict[str, Any]:
    """The JSON object that `fl-audit estimate` prints of a score file."""
    names = {f.name for f in dataclasses.fields(AuditResult)} - {"left_out"}
    return {key: value for key, value in fields_to_json(statistic).items() if key in names}


def report_from_json(fields: Mapping[str, Any], name: str) -> Report:
    """The report of a run that report.json holds; unknown keys are ignored.

    Args:
      fields: The JSON object of the file.
      name: What to call the file in an error message.

    Raises:
      InputError: The config in the report does not describe a run.
      ValueError: A key is missing, or a value is of the wrong type.
    """
    read = dict(fields)
    for key in ("run", "config", "analytical"):
        if not isinstance(read.get(key), Mapping):
            raise ValueError(f"lacks the object `{key}` - at `$`")
    read["attackers"] = read["analytical"].get("attackers", {})
    if "accuracy" in fields:
        read["run"] = {**read["run"], "accuracy": fields["accuracy"]}
    read.setdefault("checks", to_json(Checks()))
    return fields_from_json(Report, read, config=recorded_config(read["config"], f"{name}, config"))
