"""The layout of a release sheet; a field without a line says so.

The fields are from "How to DP-fy ML" (Ponomareva et al. 2023, arXiv:2303.00654, section 5.3), from
the evaluation pyramid of NIST SP 800-226 (2025), and from the registry of differential privacy
deployments (github.com/opendp/deployments-registry-data). This package adds the fields on the
verdict, the detectable violation, the checks, and the evidence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fl_audit.report.page import render

NOT_STATED = "not stated"
"""The text of a field that the operator left out."""

NOT_AUDITED = "not audited"
"""The text of a field without a measurement."""


@dataclass(frozen=True)
class Line:
    """A statement with its evidence, in a few words."""

    text: str
    evidence: str


@dataclass(frozen=True)
class ReleaseSheet:
    """A release sheet: the release's name, the sheet's origin and date, the lines by field key."""

    title: str
    subtitle: str
    lines: Mapping[str, Sequence[Line]]


LAYOUT: Mapping[str, Mapping[str, str]] = {
    "Evidence": {
        "verified": "Verification",
        "model": "Model",
        "chain": "Chain of the run",
        "commitment": "Commitment",
        "check": "Who may check it, and how",
    },
    "Release": {
        "released": "What is released",
        "released_to": "Released to",
        "data": "Whose data",
        "contact": "Contact",
    },
    "Protection": {
        "unit": "Unit of privacy",
        "adjacency": "Neighbouring data sets",
        "trust_model": "Trust model",
        "mechanism": "Mechanism",
        "participation": "Participation of a client",
    },
    "Guarantee": {
        "claim": "Claim",
        "guarantee": "Upper bound from accounting",
        "curve": "The same as a curve",
        "risk": "In plain risk",
        "accountant": "Accountant",
        "assumptions": "Assumptions, and who checked them",
    },
    "Every access to the data": {
        "accesses": "Noised, and accounted for",
        "unprotected": "Not noised",
        "earlier_runs": "Earlier runs and tuning",
        "selection": "Price of selection",
    },
    "Audit": {
        "verdict": "Verdict on the claim",
        "detectable": "Detectable violation",
        "bound": "Lower bound",
        "attack": "What the attack found",
        "arrival": "Canary check",
        "checks": "Checks of the mechanism",
        "edpb": "EDPB Opinion 28/2024",
    },
    "Residual risks": {"risks": "Known and not covered"},
    "Provenance": {
        "versions": "Versions",
        "sources": "Sources",
        "seed": "Seed",
    },
}
"""The sections, each with the labels of its fields by key."""

LABELS = {key: label for fields in LAYOUT.values() for key, label in fields.items()}

KEY_OF_STATED = {"metrics": "unprotected"}
"""Statements of [release] in a field with another key: the field's key by the statement's key."""

_AUDITED = frozenset({*LAYOUT["Audit"], "verified"})


def laid_out(title: str, subtitle: str, lines: Mapping[str, Sequence[Line]]) -> ReleaseSheet:
    """The sheet with every field of `LAYOUT`; fields that `lines`, by key, leaves out say so."""
    if unknown := lines.keys() - LABELS:
        raise ValueError(f"a release sheet has no field {', '.join(sorted(unknown))}")
    missing = {key: NOT_AUDITED if key in _AUDITED else NOT_STATED for key in LABELS}
    return ReleaseSheet(
        title, subtitle, {key: lines.get(key) or [Line(missing[key], "")] for key in LABELS}
    )


def render_sheet(sheet: ReleaseSheet) -> str:
    """A sheet as a self-contained page that prints on two sheets of A4."""
    context = {"sheet": sheet, "layout": LAYOUT, "silent": (NOT_STATED, NOT_AUDITED)}
    return render("fl_audit.release_sheet", "sheet.html", context)
