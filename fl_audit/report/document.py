"""The report of a run, built from what its folder holds."""

from collections.abc import Iterable

import msgspec

from fl_audit.accounting import (
    AttackerBounds,
    NoisyRounds,
    account,
    attacker_bounds,
    noise_law_named,
)
from fl_audit.attacks.registry import THREAT_MODELS
from fl_audit.attacks.threat_model import ThreatModel
from fl_audit.attacks.threat_models import threat_models_of
from fl_audit.errors import InputError
from fl_audit.report.arrival import run_arrival
from fl_audit.report.checks import checks_report
from fl_audit.report.efficiency import attacker_reports, efficiency_reports
from fl_audit.report.faults import faults_of
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.folder_report import NOT_KNOWN, FolderReport
from fl_audit.report.model import AnalyticalReport, ArrivalReport, Report, ThreatModelReport
from fl_audit.report.report_json import verdict_report
from fl_audit.report.run_verdict import run_verdict
from fl_audit.report.statistic import statistic_report
from fl_audit.report.statistic_model import StatisticReport
from fl_audit.version import __version__


def build_report(run: FinishedRun, estimated: FolderReport | None = None) -> Report:
    """Builds the report of a run.

    Args:
      run: The finished run.
      estimated: The estimates and the verdict that were asked for apart from the run's config; None
        estimates as the config says.

    Raises:
      InputError: The record's noise does not add up, or no method can be applied to the scores.
    """
    rounds = _noisy_rounds(run)
    against_canary = attacker_bounds(rounds, rounds.canary)
    checks = checks_report(run)
    arrival = run_arrival(run)
    if estimated is None:
        reached = run_verdict(run, checks, arrival)
        statistics = {s.name: statistic_report(run, s) for s in run.statistics}
    else:
        reached, statistics = estimated.reached, dict(estimated.statistics)
    return Report(
        statistics=statistics,
        threat_models=_threat_models(run, statistics.values()),
        verdict=verdict_report(reached),
        arrival=msgspec.convert(arrival, ArrivalReport, from_attributes=True),
        checks=checks,
        faults=faults_of(run),
        analytical=_analytical(rounds, against_canary),
        efficiency=efficiency_reports(
            against_canary, statistics, rounds.delta, run.config.audit.confidence
        ),
        run=run.record,
        config=run.config,
        fl_audit_version=__version__,
    )


def _threat_models(
    run: FinishedRun, statistics: Iterable[StatisticReport]
) -> dict[str, ThreatModelReport]:
    """Those of the config, and those of further score files that the folder has."""
    of_config = threat_models_of(run.config.audit)
    found = {model.name: _threat_model(run, model) for model in of_config}
    for name in dict.fromkeys(made.threat_model for made in statistics):
        model = THREAT_MODELS.get(name)
        if model is None:
            rounds, included = run.record.rounds, run.record.num_included
            found[name] = ThreatModelReport(NOT_KNOWN.title, NOT_KNOWN.sees, 1, rounds, included)
        elif name not in found:
            found[name] = _threat_model(run, model)
    return found


def _threat_model(run: FinishedRun, model: ThreatModel) -> ThreatModelReport:
    rounds = model.rounds(run.config.audit, run.record.rounds)
    return ThreatModelReport(
        title=model.title,
        sees=model.sees(run.config.audit),
        first_round=rounds.start + 1,
        last_round=rounds.stop,
        num_included_in_rounds=run.included_in(rounds),
    )


def _noisy_rounds(run: FinishedRun) -> NoisyRounds:
    try:
        rounds = NoisyRounds.of(run.record)
        noise_law_named(rounds.noise_law)
    except ValueError as error:
        raise InputError(f"{run.folder.record}: {error}") from error
    return rounds


def _analytical(rounds: NoisyRounds, against_canary: AttackerBounds) -> AnalyticalReport:
    plain = msgspec.convert(account(rounds), AnalyticalReport, from_attributes=True)
    attackers = attacker_reports(attacker_bounds(rounds, rounds.client), against_canary)
    return msgspec.structs.replace(plain, attackers=attackers)
