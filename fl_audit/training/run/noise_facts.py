"""What accounting has to know of a mechanism beside its noise multipliers."""

from dataclasses import dataclass

from fl_audit.accounting.tree_nodes import Trees
from fl_audit.config import (
    Distributed,
    FixedZeroing,
    Mechanism,
    TreeAggregation,
)
from fl_audit.formats.run_folder import NoiseLaw, ZeroingKind
from fl_audit.participation import Schedule
from fl_audit.participation.sensitivity import squared_sensitivity


@dataclass(frozen=True)
class NoiseFacts:
    """Fields of the `RunRecord`, which says what they are."""

    noise_law: NoiseLaw
    zeroing: ZeroingKind
    client_squared_sensitivity: int | None
    canary_squared_sensitivity: int | None


def noise_facts(mechanism: Mechanism, schedule: Schedule) -> NoiseFacts:
    """The facts of a run.

    Args:
      mechanism: the table of its config.
      schedule: who takes part when.
    """
    client = canary = None
    if isinstance(mechanism, TreeAggregation):
        trees = Trees(schedule.num_rounds, mechanism.restart_every)
        client = squared_sensitivity(schedule.client_attendance, trees)
        canary = squared_sensitivity(schedule.canary_attendance, trees)
    return NoiseFacts(_law(mechanism), _zeroing(mechanism), client, canary)


def _law(mechanism: Mechanism) -> NoiseLaw:
    match mechanism:
        case TreeAggregation():
            return "tree"
        case Distributed():
            return "skellam"
        case _:
            return "gaussian"


def _zeroing(mechanism: Mechanism) -> ZeroingKind:
    if mechanism.zeroing is None:
        return "none"
    return "fixed" if isinstance(mechanism.zeroing, FixedZeroing) else "adaptive"
