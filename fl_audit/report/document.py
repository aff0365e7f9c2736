"""The report of a run, built from what its folder holds."""

import importlib.metadata

import msgspec

from fl_audit.accounting import Accounting, NoisyRounds, account
from fl_audit.attacks.statistics import statistics_of
from fl_audit.attacks.threat_models import ThreatModel, threat_models_of
from fl_audit.errors import InputError
from fl_audit.report.checks import checks_report, failed_checks
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.model import AnalyticalReport, Report, ThreatModelReport
from fl_audit.report.report_json import verdict_from_json
from fl_audit.report.run_verdict import run_verdict
from fl_audit.report.statistic import statistic_report


def build_report(run: FinishedRun) -> Report:
    """The report of a run.

    Raises:
      InputError: the record's noise does not add up, or no method can be applied to the scores.
    """
    accounting = _account(run)
    checks = checks_report(run)
    verdict = run_verdict(run, failed_checks(checks))
    return Report(
        statistics={s.name: statistic_report(run, s) for s in statistics_of(run.config)},
        threat_models={m.name: _threat_model(run, m) for m in threat_models_of(run.config)},
        verdict=None if verdict is None else verdict_from_json(verdict.to_json()),
        checks=checks,
        analytical=msgspec.convert(accounting, AnalyticalReport, from_attributes=True),
        run=run.record,
        config=run.config,
        fl_audit_version=importlib.metadata.version("fl-audit"),
    )


def _threat_model(run: FinishedRun, model: ThreatModel) -> ThreatModelReport:
    first, last = model.rounds or (1, run.record.rounds)
    return ThreatModelReport(
        title=model.title,
        sees=model.sees,
        first_round=first,
        last_round=last,
        num_included_in_rounds=run.included_in(first, last),
    )


def _account(run: FinishedRun) -> Accounting:
    try:
        return account(NoisyRounds.of(run.record))
    except ValueError as error:
        raise InputError(f"{run.folder.record}: {error}") from error
