"""Conversion of a report to the JSON object of report.json and back.

Infinities are the words "inf" and "-inf" in the JSON, and floats in memory; there is no NaN.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from fl_audit.config.file import recorded_config
from fl_audit.estimators.result import json_value
from fl_audit.formats.folders import RunRecord
from fl_audit.report.report import (
    AnalyticalReport,
    ChecksReport,
    EstimateDetails,
    EstimateReport,
    Report,
    StatisticReport,
    VerdictReport,
)
from fl_audit.verdict import Verdict

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}

_WORDS = tuple(name for name in EstimateDetails.__struct_fields__ if name != "numbers")


def report_to_json(report: Report) -> dict[str, Any]:
    """The JSON object of report.json, with infinities as words.

    Raises:
      ValueError: A number is NaN.
    """
    return {
        "statistics": {
            name: _worded(_statistic(report, made)) for name, made in report.statistics.items()
        },
        "threat_models": msgspec.to_builtins(report.threat_models),
        "analytical_epsilon": json_value(report.analytical.epsilon),
        "accuracy": json_value(report.run.accuracy),
        "verdict": report.verdict and _worded(_verdict(report, report.verdict)),
        "arrival": None if report.arrival is None else msgspec.to_builtins(report.arrival),
        "checks": _worded(checks_to_json(report.checks)),
        "faults": list(msgspec.to_builtins(report.faults)),
        "analytical": _worded(_analytical(report.analytical, report.run.delta)),
        **_efficiency(report),
        "run": _run(report.run),
        "config": msgspec.json.decode(msgspec.json.encode(report.config)),
        "fl_audit_version": report.fl_audit_version,
    }


def checks_to_json(checks: ChecksReport) -> dict[str, Any]:
    """The JSON object that report.json has under `checks`."""
    fields: dict[str, Any] = _worded(msgspec.to_builtins(checks))
    passed = checks.passed if checks.results else None  # nothing was looked at
    return {"passed": passed, **fields}


def _statistic(report: Report, statistic: StatisticReport) -> dict[str, Any]:
    fields = msgspec.to_builtins(statistic)
    included, excluded = statistic.num_included, statistic.num_excluded
    if statistic.roc is not None:
        counts = {"num_included": included, "num_excluded": excluded}
        fields["roc"] = {**counts, "confidence": report.confidence, **fields["roc"]}
    if statistic.null_check is not None:
        fields["null_check"] = {"num_excluded": excluded, **fields["null_check"]}
    if not statistic.bounds_null:
        del fields["bounds_null"]  # of a report from before it was there
    fields["estimates"] = [_estimate(made) for made in statistic.estimates]
    return {
        "delta": report.run.delta,
        "confidence": report.confidence,
        "dim": report.run.dim,
        **fields,
    }


def _estimate(estimate: EstimateReport) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(estimate)
    numbers = fields["details"].pop("numbers")
    return {**fields, "details": {**numbers, **fields["details"]}}


def _verdict(report: Report, verdict: VerdictReport) -> dict[str, Any]:
    fields = msgspec.to_builtins(verdict)
    start = {key: fields.pop(key) for key in ("outcome", "reason", "claimed_epsilon")}
    bound = {key: fields.pop(key) for key in ("epsilon_lower", "method", "statistic", "assumes")}
    return {
        **start,
        "claimed_delta": report.run.delta,
        "claimed_for": "client",
        **bound,
        "confidence": report.verdict_confidence,
        **fields,
    }


def _analytical(analytical: AnalyticalReport, delta: float) -> dict[str, Any]:
    fields = msgspec.to_builtins(analytical)
    if not analytical.attackers:
        del fields["attackers"]  # of a report from before it was there
    return {"epsilon": fields.pop("epsilon"), "delta": delta, **fields}


def _efficiency(report: Report) -> dict[str, Any]:
    """The entry `efficiency`; nothing for a report from before it was there."""
    efficiency = _worded(msgspec.to_builtins(report.efficiency))
    return {"efficiency": efficiency} if efficiency else {}


def _run(record: RunRecord) -> dict[str, Any]:
    """The record with lists for tuples, as a JSON parser returns it."""
    fields: dict[str, Any] = _listed(dataclasses.asdict(record))
    return fields


def _listed(value: Any) -> Any:
    """A value with lists for tuples."""
    if isinstance(value, Mapping):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def _worded(value: Any) -> Any:
    """A value of builtin types with its infinities as words."""
    if isinstance(value, Mapping):
        return {key: _worded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_worded(item) for item in value]
    return json_value(value)


def report_from_json(fields: Mapping[str, Any], name: str) -> Report:
    """The report that report.json holds; unknown keys are ignored.

    Args:
      fields: The JSON object of the file.
      name: What to call the file in an error message.

    Raises:
      InputError: The config in the report does not describe a run.
      ValueError: A key is missing, or a value is of the wrong type.
    """
    read = {key: value if key == "run" else _numbered(value) for key, value in fields.items()}
    if isinstance(read.get("config"), Mapping):
        read["config"] = recorded_config(fields["config"], f"{name}, config")
    if isinstance(read.get("run"), Mapping) and "accuracy" in fields:
        read["run"] = {**read["run"], "accuracy": fields["accuracy"]}
    return msgspec.convert(read, Report)


def verdict_from_json(fields: Mapping[str, Any]) -> VerdictReport:
    """The verdict that a JSON object holds, such as the one under report.json's `verdict`."""
    return msgspec.convert(_numbered(fields), VerdictReport)


def verdict_report(reached: Verdict | None) -> VerdictReport | None:
    """A verdict as reports hold it; None without a claim."""
    return None if reached is None else verdict_from_json(reached.to_json())


def _numbered(value: Any, key: str = "") -> Any:
    """A value of JSON with infinities as floats, and the numbers of `details` under one key.

    Raises:
      ValueError: An epsilon is not a number.
    """
    if isinstance(value, Mapping):
        entries = {name: _numbered(item, name) for name, item in value.items()}
        return _with_numbers_apart(entries) if key == "details" else entries
    if isinstance(value, list):
        return [_numbered(item) for item in value]
    if not isinstance(value, str):
        return value
    if key == "epsilon" and value != "inf":
        raise ValueError(f"an epsilon must be a number or 'inf', got {value!r}")
    return _INFINITIES.get(value, value)


def _with_numbers_apart(details: Mapping[str, Any]) -> dict[str, Any]:
    words = {key: value for key, value in details.items() if key in _WORDS}
    numbers = {key: value for key, value in details.items() if key not in _WORDS}
    return {**words, "numbers": numbers}
