"""What report.json holds."""

import dataclasses
import importlib.metadata
from typing import Any

import msgspec

from fl_audit.accounting.analytical import Accounting, Guarantee, NoisyRounds, account
from fl_audit.attacks.threat_model import ThreatModel
from fl_audit.attacks.threat_models import threat_models_of
from fl_audit.errors import InputError
from fl_audit.estimators.result import json_value
from fl_audit.formats.run_folder import RunRecord
from fl_audit.report.checks import checks_report, failed_checks
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.run_verdict import run_verdict
from fl_audit.report.statistic import statistic_report


def build_report(run: FinishedRun) -> dict[str, Any]:
    """The report of a run as one JSON object.

    Raises:
      InputError: the record's noise does not add up, or no method can be applied to the scores.
    """
    accounting = _account(run)
    checks = checks_report(run)
    verdict = run_verdict(run, failed_checks(checks))
    return {
        "statistics": {s.name: statistic_report(run, s) for s in run.statistics},
        "threat_models": {
            m.name: _threat_model(run, m) for m in threat_models_of(run.config.audit)
        },
        "analytical_epsilon": json_value(accounting.epsilon),
        "accuracy": json_value(run.record.accuracy),
        "verdict": verdict and verdict.to_json(),
        "checks": checks,
        "analytical": _analytical(accounting),
        "run": _run(run.record),
        "config": msgspec.json.decode(msgspec.json.encode(run.config)),
        "fl_audit_version": importlib.metadata.version("fl-audit"),
    }


def _run(record: RunRecord) -> dict[str, Any]:
    """The record as JSON reads it again."""
    return {**dataclasses.asdict(record), "variable_sizes": list(record.variable_sizes)}


def _threat_model(run: FinishedRun, model: ThreatModel) -> dict[str, Any]:
    rounds = model.rounds(run.config.audit, run.record.rounds)
    return {
        "title": model.title,
        "sees": model.sees(run.config.audit),
        "first_round": rounds.start + 1,
        "last_round": rounds.stop,
        "num_included_in_rounds": run.included_in(rounds),
    }


def _account(run: FinishedRun) -> Accounting:
    try:
        return account(NoisyRounds.of(run.record))
    except ValueError as error:
        raise InputError(f"{run.folder.record}: {error}") from error


def _analytical(accounting: Accounting) -> dict[str, Any]:
    return {
        "epsilon": json_value(accounting.epsilon),
        "delta": accounting.delta,
        "neighbours": accounting.neighbours,
        "assumes": list(accounting.assumes),
        "client": _guarantee(accounting.client),
        "canary": _guarantee(accounting.canary),
    }


def _guarantee(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "epsilon": json_value(guarantee.epsilon),
        "participations": guarantee.participations,
        "by_accountant": [
            {"accountant": by.accountant, "epsilon": json_value(by.epsilon), "reason": by.reason}
            for by in guarantee.by_accountant
        ],
    }
