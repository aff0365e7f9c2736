"""A release sheet as an entry of a registry of differential privacy deployments: one JSON object.

The keys are defined by the registry's schema of July 2026 (github.com/opendp/
deployments-registry-data). The schema allows neither null nor further keys: unknown values are left
out, and an unknown required text is "not stated".
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from fl_audit.accounting.upper_bounds import Attacker
from fl_audit.config import ReleaseStatement
from fl_audit.number_words import upper_bound_text
from fl_audit.release_sheet.sheet import NOT_AUDITED, NOT_STATED, ReleaseSheet
from fl_audit.report.report import Report


@dataclass(frozen=True)
class Parameters:
    """The privacy parameters of a guarantee, each None if unknown."""

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    rho: float | None = None

    @property
    def variant(self) -> str | None:
        """The registry's name for the definition of privacy; None if no guarantee is known."""
        if self.rho is not None:
            return "Zero-concentrated DP"
        return None if self.epsilon in (None, math.inf) else "Approximate DP"


def parameters_of(report: Report) -> Parameters:
    """The privacy parameters for a run's client, all against the same attackers.

    Epsilon counts on sampling if accounting does. Mu and rho never do, so they are left out if an
    attacker who knows the rounds has another epsilon.
    """
    analytical = report.analytical
    if analytical is None:
        return Parameters()
    of = {
        against.in_full.client
        for name in (Attacker.DOES_NOT_KNOW_ROUNDS, Attacker.KNOWS_ROUNDS)
        if (against := report.attackers.get(name)) is not None and against.in_full is not None
    }
    full = of.pop() if len(of) == 1 else None
    return Parameters(
        epsilon=analytical.client.epsilon,
        delta=analytical.delta,
        mu=None if full is None else full.mu,
        rho=None if full is None else full.rho,
    )


def registry_entry(
    sheet: ReleaseSheet, statement: ReleaseStatement, parameters: Parameters, finished: str
) -> dict[str, Any]:
    """The JSON object of an entry.

    `finished` is the last day of training, the entry's date if no day of publication is stated.
    """
    deployment = {
        "basic": {
            "name": sheet.title,
            "data_curators": list(statement.curators or [NOT_STATED]),
            "intended_use": statement.intended_use or NOT_STATED,
            "data_product_type": "Machine learning model",
            "data_product_region": statement.region or NOT_STATED,
            "description": _text(sheet, "released") or NOT_STATED,
            "publication_date": statement.published or finished,
            "data_product_sector": statement.sector,
        },
        "dp_variant": {
            "variant_name": parameters.variant,
            "data_domain": statement.data,
            "unprotected_quantities": _text(sheet, "unprotected"),
        },
        "privacy_loss": {
            "privacy_unit": statement.unit,
            "privacy_unit_details": _text(sheet, "unit", "adjacency", "participation"),
            "privacy_parameters": {
                "epsilon": parameters.epsilon,
                "delta": parameters.delta,
                "rho": parameters.rho,
            },
            "privacy_parameters_details": _in_full(parameters),
        },
        "deployment_model": {
            "model_name": "Federated",
            "model_name_details": statement.trust_model,
            "actors": statement.released_to,
            "access_type": "Non-interactive",
        },
        "accounting": {"composition": _text(sheet, "accountant", "assumptions")},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _text(sheet, "earlier_runs", "selection"),
            "mechanisms": _text(sheet, "mechanism", "versions"),
        },
        "administrative": {
            "sources": _text(sheet, "sources"),
            "notes": _notes(sheet, statement),
            "registry_authors": [statement.contact or "fl-audit, from the records of a run"],
        },
    }
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "_", sheet.title.lower()).strip("_") or "release",
        "status": "Draft",
        "tier": _tier(statement, parameters),
        "deployment": _known(deployment),
    }


def _tier(statement: ReleaseStatement, parameters: Parameters) -> int:
    """The registry's tier of completeness, 1 to 3, by the optional fields that are known."""
    is_unknown = parameters.epsilon in (None, math.inf)
    if is_unknown or statement.unit is None or statement.trust_model is None:
        return 1
    stated = (statement.data, statement.released_to, statement.earlier_runs)
    return 2 if None in stated else 3


def _known(value: Any) -> Any:
    """Leaves out null, infinity and empty objects, which the schema does not allow."""
    if not isinstance(value, dict):
        return value
    known = {key: _known(item) for key, item in value.items()}
    unknown: tuple[Any, ...] = (None, {}, math.inf)
    return {key: item for key, item in known.items() if item not in unknown}


def _in_full(parameters: Parameters) -> str | None:
    """An infinite epsilon or a finite mu as text, for which the schema has no key; else None."""
    if parameters.epsilon == math.inf:
        return "Epsilon is infinite: no noise is added."
    if parameters.mu is None or parameters.mu == math.inf:
        return None
    return f"μ {upper_bound_text(parameters.mu)} (Gaussian DP)."


def _notes(sheet: ReleaseSheet, statement: ReleaseStatement) -> str | None:
    """The results of the audit, and a note if the day of publication is not stated."""
    audit = ("verified", "model", "chain", "commitment", "verdict", "detectable", "bound", "checks")
    notes = [] if statement.published else ["The publication date is the day training ended."]
    return " ".join([*notes, *filter(None, [_text(sheet, *audit)])]) or None


def _text(sheet: ReleaseSheet, *keys: str) -> str | None:
    """The lines of some fields as one text; None if nothing is stated or audited in any."""
    lines = (line.text for key in keys for line in sheet.lines[key])
    return " ".join(text for text in lines if text not in (NOT_STATED, NOT_AUDITED)) or None
