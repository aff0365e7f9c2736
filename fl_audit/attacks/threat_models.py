"""The threat models of a run, which docs/threat_models.md defines."""

from typing import TYPE_CHECKING

from fl_audit.attacks.all_iterates import ALL_ITERATES
from fl_audit.attacks.checkpoints import CHECKPOINTS
from fl_audit.attacks.example_statistics import OF_EXAMPLES
from fl_audit.attacks.final_model import FINAL_AND_INITIAL, FINAL_MODEL
from fl_audit.attacks.known_rounds import KNOWN_ROUNDS
from fl_audit.attacks.registry import THREAT_MODELS, register_statistic, register_threat_model
from fl_audit.attacks.threat_model import ThreatModel
from fl_audit.attacks.window import WINDOW
from fl_audit.errors import InputError

if TYPE_CHECKING:
    from fl_audit.attacks.audit_table import Audit

for _model in (FINAL_MODEL, FINAL_AND_INITIAL, ALL_ITERATES, KNOWN_ROUNDS, CHECKPOINTS, WINDOW):
    register_threat_model(_model)
for _statistic in OF_EXAMPLES:
    register_statistic(_statistic)


def threat_models_of(audit: "Audit") -> tuple[ThreatModel, ...]:
    """The threat models that a run is audited under, from the weakest attacker on.

    Args:
      audit: The table [audit] of its config.
    """
    return tuple(model for model in THREAT_MODELS if model.name in audit.threat_models)


def check_rounds(audit: "Audit", num_rounds: int, name: str) -> None:
    """Checks that the threat models fit the number of rounds of a run.

    Args:
      audit: The table [audit] of the config.
      num_rounds: The number of rounds of training.
      name: The name of the config in an error message.

    Raises:
      InputError: A threat model does not fit, such as a window that ends after the run.
    """
    for model in threat_models_of(audit):
        try:
            model.check_rounds(audit, num_rounds)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
