"""The report of an audit, as one record that is built, rendered, written and read back.

It combines the records of other packages: estimates and ROC curves of `estimators`, checks and the
canary check of `checks`, upper bounds of `accounting`, the verdict of `verdict`, and the run's
record. Infinities are floats in memory and words in JSON (`json_records`).

`Report` has defaults for the fields that are missing in a report of scores alone.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from fl_audit.accounting import Accounting, Guarantees
from fl_audit.accounting.upper_bounds import Attacker
from fl_audit.checks import FALSE_ALARM, CanaryCheck, Check
from fl_audit.checks.training_faults import TrainingFault
from fl_audit.config import Config
from fl_audit.config.file import recorded_config
from fl_audit.estimators import AndersonDarling, AuditResult, Estimate
from fl_audit.estimators.result import Record
from fl_audit.estimators.roc import RocSummary
from fl_audit.estimators.roc.summary import DetectionRate
from fl_audit.formats.run_record import RunRecord
from fl_audit.json_records import (
    UNWRITTEN,
    WRITTEN_IF_SET,
    fields_from_json,
    fields_to_json,
    json_key,
    to_json,
)
from fl_audit.report.arms import ReportedArms
from fl_audit.verdict import Verdict


@dataclass(frozen=True)
class NormalityTests:
    """Anderson-Darling tests of both groups; None for fewer than four scores, or equal ones."""

    included: AndersonDarling | None
    excluded: AndersonDarling | None


@dataclass(frozen=True)
class NullCheck:
    """Moments of the excluded scores, and those expected under the null distribution N(0, 1/dim).

    Standard errors are under the null distribution; the variance of the scores has ddof=1.
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
    """The estimates on one statistic, and checks of the methods' assumptions on its scores.

    Attributes:
      roc: How well scores separate included from excluded canaries; None if a group is empty.
      left_out: Why each missing method was left out.
      threat_model: Name of the threat model; empty for unknown statistics.
      null: Null distribution of published estimators: "closed_form" or "empirical".
      bounds_null: Null distribution of the bounds that hold for any mechanism or for Gaussian ones:
        "closed_form" if it is known exactly, or if its tail has a known bound (which one:
        `null_law` in an estimate's details); else "empirical".
      null_check: None if the null distribution has no closed form, or with fewer than two excluded
        scores.
      found: True positive rates at the false positive rates at which attacks are commonly reported,
        with thresholds from the null distribution; empty if the design does not determine this
        distribution, or without included canaries.
      knows: Rank of the attacker's knowledge, written for a run with plugins, as a reader of the
        report may lack them; else None.
      turned_round: The lower bound on epsilon of the negated scores, if included canaries score
        significantly below excluded ones.
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
    turned_round: float | None = field(default=None, metadata=WRITTEN_IF_SET)

    def estimate_by(self, method: str) -> Estimate | None:
        """The estimate by a method; None if it was left out."""
        return next((estimate for estimate in self.estimates if estimate.method == method), None)


@dataclass(frozen=True)
class SeenByAttacker:
    """The view of one attacker.

    Attributes:
      title: A few words for a heading.
      sees: The attacker's view, in words that follow "the attacker has".
      first_round: First attacked round, from 1; None unless the report is of a run.
      last_round: Last attacked round, from 1; None unless the report is of a run.
      num_included_in_rounds: Number of included canaries that participated in any attacked round;
        None unless the report is of a run.
    """

    title: str
    sees: str
    first_round: int | None = None
    last_round: int | None = None
    num_included_in_rounds: int | None = None


NOT_KNOWN = SeenByAttacker("Not known", "what these scores are made from")


@dataclass(frozen=True)
class Checks:
    """The mechanism checks.

    Attributes:
      false_alarm: Upper bound on the probability that a check of a correct mechanism fails.
      not_checked: Why some or all aggregates are not checked, in words; None if all are checked.
    """

    JSON_COMPUTED: ClassVar = ("passed",)

    false_alarm: float = FALSE_ALARM
    not_checked: str | None = None
    results: tuple[Check, ...] = ()

    @property
    def passed(self) -> bool | None:
        """Whether no check failed; None if none was made."""
        if any(check.failed for check in self.results):
            return False
        return True if any(check.was_made for check in self.results) else None

    @property
    def is_complete(self) -> bool:
        """Whether every check was made, on all aggregates."""
        is_made = all(check.was_made for check in self.results)
        return bool(self.results) and is_made and self.not_checked is None


@dataclass(frozen=True)
class GaussianEfficiency:
    """The efficiency of bounds that hold for Gaussian mechanisms only.

    Attributes:
      lower_bound: The largest lower bound that holds for Gaussian mechanisms; None without any.
      reachable: As `Efficiency.reachable`, for bounds that assume a Gaussian mechanism.
    """

    lower_bound: float | None = field(metadata=json_key("proven"))
    lower_bound_by: str | None = field(metadata=json_key("proven_by"))
    reachable: float = field(metadata=json_key("provable"))


@dataclass(frozen=True)
class Efficiency:
    """The lower bound on a statistic, the largest within reach, and the upper bound.

    Attributes:
      lower_bound: The largest lower bound that assumes no distribution of scores, at the run's
        confidence; None without any.
      reachable: The median bound of the best single threshold, chosen in advance, with these
        included canaries at this confidence; None if unknown.
      upper_bound: The accounted epsilon of a canary against the statistic's attacker, possibly
        infinite; None if unknown.
      upper_bound_by: The accountant of the upper bound.
      knows_rounds: Whether the attacker knows the rounds of a canary.
      gaussian: The efficiency of bounds that assume a Gaussian mechanism; None if the attacker's
        view is not Gaussian.
      sees_uploads: True if the attacker sees single uploads, else None.
    """

    lower_bound: float | None = field(metadata=json_key("proven"))
    lower_bound_by: str | None = field(metadata=json_key("proven_by"))
    reachable: float | None = field(metadata=json_key("provable"))
    upper_bound: float | None = field(metadata=json_key("guaranteed"))
    upper_bound_by: str | None = field(metadata=json_key("guaranteed_by"))
    knows_rounds: bool
    gaussian: GaussianEfficiency | None
    sees_uploads: bool | None = field(default=None, metadata=WRITTEN_IF_SET)

    @property
    def attacker(self) -> Attacker:
        """The attacker's key in `Report.attackers`."""
        if self.sees_uploads:
            return Attacker.SEES_UPLOADS
        return Attacker.KNOWS_ROUNDS if self.knows_rounds else Attacker.DOES_NOT_KNOW_ROUNDS


AS_THE_LOG_STATES = "as the log states"
"""Words for the source of a log's upper bounds."""


@dataclass(frozen=True)
class ScoreSource:
    """The origin of scores whose training is not shown."""

    name: str  # the name of the folder or file
    family: str | None = None
    num_rounds: int | None = None
    has_record: bool = False  # whether a run.json beside the scores says what was trained
    says_client_rounds: bool = False  # whether a run or a log says how often clients participate


@dataclass(frozen=True, kw_only=True)
class Report:
    """The report of a finished run, or of scores whose training is not known.

    Attributes:
      statistics: Estimates by statistic, in the order of display.
      threat_models: Attackers' views by name, in the order of display.
      verdict: The verdict on the claim, else on the configured noise; None if nothing was tested.
      canary_check: Result of the canary check; None for a file of scores without a claim.
      checks: Mechanism checks; None for scores alone.
      faults: Faults of the training itself.
      analytical: Accounting at `delta`; None if the noise is unknown, or for estimates at delta 0.
      attackers: Upper bounds for client and canary by `Attacker`, SEES_UPLOADS only if clients add
        the noise; empty without `analytical`.
      efficiency: Lower, reachable and upper bound by statistic; empty without `analytical`.
      run: The run's record; None unless the report is of a finished run.
      config: The run's config; None unless the report is of a finished run.
      source: The origin of the scores; None for a run.
      why_not_accounted: Why `analytical` is None, in words.
      is_stated_by_log: Whether accounting uses noise and rounds as stated by a log.
      arms: Comparison of the arms (groups of canaries with different participation patterns) by the
        shifts of their scores; None without arms.
      estimate_is_over: Words for how canaries differ in arms or in numbers of rounds. An estimate
        is then an average and no single canary's epsilon. None if all canaries are alike.
      fl_audit_version: Version that made the report.
    """

    statistics: Mapping[str, StatisticReport]
    threat_models: Mapping[str, SeenByAttacker] = field(default_factory=dict)
    verdict: Verdict | None
    canary_check: CanaryCheck | None = field(default=None, metadata=json_key("arrival"))
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
    estimate_is_over: str | None = field(default=None, metadata=WRITTEN_IF_SET)
    fl_audit_version: str

    def upper_bounds_against(self, statistic: str) -> Guarantees | None:
        """The upper bounds against a statistic's attacker; None without accounting."""
        efficiency = self.efficiency.get(statistic)
        return None if efficiency is None else self.attackers.get(efficiency.attacker)

    def view_of(self, threat_model: str) -> SeenByAttacker:
        """The view of a threat model."""
        return self.threat_models.get(threat_model, NOT_KNOWN)

    def partly_absent(self) -> dict[str, SeenByAttacker]:
        """The threat models, by name, in whose rounds some included canaries are absent."""
        return {
            name: view
            for name, view in self.threat_models.items()
            if view.num_included_in_rounds is not None
            and view.num_included_in_rounds < self.num_included
        }

    @property
    def are_client_rounds_known(self) -> bool:
        """Whether it is known how often clients participate, as of every run."""
        return self.source is None or self.source.says_client_rounds

    @property
    def is_sampled(self) -> bool:
        """Whether the rounds of a canary are sampled; False for a log."""
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
        """Number of trainable parameters, if known."""
        return self._any.dim if self.run is None else self.run.dim

    @property
    def num_included(self) -> int:
        """Number of included canaries."""
        return self._any.num_included if self.run is None else self.run.num_included

    @property
    def num_canaries(self) -> int:
        """Number of scored canaries."""
        if self.run is not None:
            return self.run.num_canaries
        return self._any.num_included + self._any.num_excluded

    @property
    def num_rounds(self) -> int | None:
        """Number of rounds, if known."""
        if self.run is not None:
            return self.run.rounds
        return None if self.source is None else self.source.num_rounds

    @property
    def _any(self) -> StatisticReport:
        """Any statistic: a report of scores has at least one, and all are of the same canaries."""
        return next(iter(self.statistics.values()))

    def records(self) -> list[Record]:
        """A row per statistic and method for `pandas.DataFrame`, without sentences."""
        words = ("assumes", "guarantee", "source")
        return [
            {"statistic": name, "threat_model": statistic.threat_model}
            | {key: value for key, value in row.items() if key not in words}
            for name, statistic in self.statistics.items()
            for row in statistic.records()
        ]

    def _repr_html_(self) -> str | None:
        """The answer of the audit in a notebook; None if no renderer is registered."""
        return next((render(self) for render in _html), None)


_html: list[Callable[[Report], str]] = []


def register_html(render: Callable[[Report], str]) -> None:
    """Sets the renderer of reports in notebooks, as this module does not import it."""
    _html[:] = [render]


def report_to_json(report: Report) -> dict[str, Any]:
    """The JSON object of report.json; without a run, the one of `fl-audit estimate FOLDER`."""
    if report.run is None or report.analytical is None:
        return _scores_to_json(report)
    attackers = {"attackers": report.attackers} if report.attackers else {}
    fields = {
        "statistics": report.statistics,
        "threat_models": report.threat_models,
        "analytical_epsilon": report.analytical.epsilon,
        "accuracy": report.run.accuracy,
        "model_sha256": report.run.model_sha256,
        "verdict": report.verdict,
        "arrival": report.canary_check,
        "checks": report.checks,
        "faults": report.faults,
        "analytical": fields_to_json(report.analytical) | attackers,
        "efficiency": report.efficiency,
        "arms": report.arms,
        "estimate_is_over": report.estimate_is_over,
        "run": report.run,
        "config": msgspec.json.decode(msgspec.json.encode(report.config)),
        "fl_audit_version": report.fl_audit_version,
    }
    lacking = ("model_sha256", "efficiency", "arms", "estimate_is_over")
    written = {key: value for key, value in fields.items() if value or key not in lacking}
    return {key: to_json(value) for key, value in written.items()}


def _scores_to_json(report: Report) -> dict[str, Any]:
    """The estimates, as for score files, with what else is known of the folder."""
    records = {
        "arrival": report.canary_check,
        "checks": report.checks,
        "verdict": report.verdict,
        "arms": report.arms,
        "estimate_is_over": report.estimate_is_over,
    }
    further = {key: to_json(value) for key, value in records.items() if value is not None}
    statistics = {
        name: estimates_to_json(statistic) for name, statistic in report.statistics.items()
    }
    return {"statistics": statistics, **further, **_stated_to_json(report)}


def _stated_to_json(report: Report) -> dict[str, Any]:
    """Accounting of the noise stated by a log, under the same keys as for a run."""
    if not report.is_stated_by_log or report.analytical is None:
        return {}
    analytical = fields_to_json(report.analytical) | {
        "attackers": report.attackers,
        "basis": AS_THE_LOG_STATES,
    }
    return {"analytical": to_json(analytical), "efficiency": to_json(report.efficiency)}


def estimates_to_json(statistic: StatisticReport) -> dict[str, Any]:
    """The JSON object that `fl-audit estimate` prints for a score file."""
    names = {f.name for f in dataclasses.fields(AuditResult)} - {"left_out"} | {"turned_round"}
    return {key: value for key, value in fields_to_json(statistic).items() if key in names}


def report_from_json(fields: Mapping[str, Any], name: str) -> Report:
    """Reads the report of a run from the object of report.json; ignores unknown keys."""
    read = dict(fields)
    for key in ("run", "config", "analytical"):
        if not isinstance(read.get(key), Mapping):
            raise ValueError(f"lacks the object `{key}` - at `$`")
    read["attackers"] = read["analytical"].get("attackers", {})
    if "accuracy" in fields:
        read["run"] = {**read["run"], "accuracy": fields["accuracy"]}
    return fields_from_json(Report, read, config=recorded_config(read["config"], f"{name}, config"))
