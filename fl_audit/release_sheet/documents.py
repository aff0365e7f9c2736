"""A verified run for other programs: a section of a model card, and an in-toto statement.

The statement has two subjects, the model and the last link of the run's chain, and contains the
claim, the verdict and the upper bounds. It is not signed: the pipeline that runs `fl-audit verify`
signs and dates it (in-toto Statement v1, github.com/in-toto/attestation).
"""

import json
from collections.abc import Mapping
from typing import Any

from fl_audit.errors import InputError
from fl_audit.json_records import to_json
from fl_audit.release_sheet.registry_entry import parameters_of
from fl_audit.release_sheet.sheet import LABELS, ReleaseSheet
from fl_audit.report.report import Report, report_to_json
from fl_audit.verification import Verified

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:fl-audit:verification:v1"
"""The type of the predicate, defined by this program."""


_OF_VERDICT = ("outcome", "epsilon_lower", "detectable_epsilon", "confidence")


def in_toto_statement(link: str, verified: Verified) -> dict[str, Any]:
    """The JSON object of a statement about a verified run whose chain ends with `link`."""
    report = verified.report
    if report is None or report.run is None or not report.run.model_sha256:
        raise InputError("a statement needs the report of a run that fits and names its model")
    run, verdict = report.run, report_to_json(report)["verdict"]
    known: Mapping[str, Any] = {
        "verification": verified,
        "claim": verdict and verdict["claim"],
        "verdict": verdict and {key: verdict[key] for key in _OF_VERDICT},
        "guarantees": parameters_of(report),
        "fl_audit_version": report.fl_audit_version,
    }
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": "model", "digest": {"sha256": run.model_sha256}},
            {"name": "chain.jsonl", "digest": {"sha256": link}},
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": to_json(known),
    }


_CARD_FIELDS = (
    "claim",
    "guarantee",
    "curve",
    "unit",
    "adjacency",
    "trust_model",
    "mechanism",
    "accountant",
    "verdict",
    "detectable",
    "bound",
    "unprotected",
    "risks",
    "verified",
    "model",
    "chain",
    "check",
)
"""The keys of a sheet's fields that a model card shows."""


def model_card(sheet: ReleaseSheet, report: Report) -> str:
    """The privacy section of a model card, in Markdown with YAML metadata."""
    metadata = {
        "tags": ["differential-privacy", "federated-learning"],
        "differential_privacy": {
            **to_json(parameters_of(report)),
            "verdict": None if report.verdict is None else report.verdict.outcome,
            "model_sha256": None if report.run is None else report.run.model_sha256,
        },
    }
    lines = ["---", *_yaml(metadata), "---", "", "## Differential privacy", ""]
    lines += ["| | | evidence |", "|---|---|---|"]
    for key in _CARD_FIELDS:
        for number, line in enumerate(sheet.lines[key]):
            label = "" if number else LABELS[key]
            lines.append(f"| {label} | {_cell(line.text)} | {_cell(line.evidence)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _yaml(values: Mapping[str, Any], indent: str = "") -> list[str]:
    """A mapping of plain values as YAML, with scalars as in JSON."""
    lines = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{key}:", *_yaml(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}")
    return lines
