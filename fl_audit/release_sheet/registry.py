"""A release sheet as an entry of a registry of differential privacy deployments: one JSON object.

The keys below `deployment` are those of the registry's YAML (github.com/opendp/
deployments-registry-data, entries of 2025); what is not known is null there. Beside them stand the
sheet's fields with their evidence, which the registry does not have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fl_audit.accounting import FullGuarantee
from fl_audit.config import ReleaseStatement
from fl_audit.json_records import to_json
from fl_audit.release_sheet.sheet import NOT_AUDITED, NOT_STATED, ReleaseSheet
from fl_audit.report.report import Report


@dataclass(frozen=True)
class Parameters:
    """The numbers of a guarantee; None where not known.

    Attributes:
      epsilon: The epsilon.
      delta: Its delta.
      mu: The mu of Gaussian differential privacy.
      rho: The rho of zero-concentrated differential privacy.
    """

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    rho: float | None = None

    @property
    def flavor(self) -> str | None:
        """The notion of privacy by its name in the registry; None where nothing is known."""
        if self.rho is not None:
            return "Zero-concentrated DP"
        return None if self.epsilon is None else "Approximate DP"


def parameters_of(report: Report) -> Parameters:
    """The numbers of the guarantee to a client of a run, against any attacker."""
    analytical = report.analytical
    if analytical is None:
        return Parameters()
    against = report.attackers.get("knows_rounds")
    full: FullGuarantee | None = None
    if against is not None and against.in_full is not None:
        full = against.in_full.client
    return Parameters(
        epsilon=analytical.client.epsilon,
        delta=analytical.delta,
        mu=None if full is None else full.mu,
        rho=None if full is None else full.rho,
    )


@dataclass(frozen=True)
class Product:
    """What the registry asks of a product that no field of the sheet has; None is not known."""

    curators: Sequence[str] = ()
    intended_use: str | None = None
    region: str | None = None
    sector: str | None = None
    publication_date: str | None = None


def registry_entry(
    sheet: ReleaseSheet,
    statement: ReleaseStatement,
    parameters: Parameters,
    product: Product | None = None,
) -> dict[str, Any]:
    """The JSON object of an entry.

    Args:
      sheet: The sheet.
      statement: What its operator states.
      parameters: The numbers of the guarantee.
      product: What else the registry asks; None where nothing of it is known.
    """
    of_product = product or Product()
    entry: Mapping[str, Any] = {
        "status": "Draft",
        "deployment": {
            "product": {
                "name": sheet.title,
                "data_curators": list(of_product.curators),
                "intended_use": of_product.intended_use,
                "data_product_type": "Machine learning model",
                "data_product_region": of_product.region,
                "description": _text(sheet, "released"),
                "publication_date": of_product.publication_date,
                "data_product_sector": of_product.sector,
            },
            "dp_flavor": {
                "name": parameters.flavor,
                "input_metric": _text(sheet, "adjacency"),
                "data_domain": statement.data,
                "unprotected_quantities": _text(sheet, "unprotected"),
            },
            "privacy_loss": {
                "privacy_unit": statement.unit,
                "privacy_unit_description": _text(sheet, "unit"),
                "privacy_parameters": parameters,
            },
            "model": {
                "model_name": statement.trust_model,
                "actors": statement.released_to,
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": None,
                "composition": _text(sheet, "accountant"),
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": _text(sheet, "earlier_runs"),
                "mechanisms": _text(sheet, "mechanism"),
            },
            "resources": {"sources": _text(sheet, "digests"), "contact": statement.contact},
        },
        "fields": {
            field.key: field.lines for section in sheet.sections for field in section.fields
        },
    }
    written: dict[str, Any] = to_json(entry)
    return written


def _text(sheet: ReleaseSheet, key: str) -> str | None:
    """The lines of a field as one text; None where nobody said anything."""
    texts = [line.text for line in sheet.lines(key) if line.text not in (NOT_STATED, NOT_AUDITED)]
    return " ".join(texts) or None
