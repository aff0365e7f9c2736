"""What accounting has to know of a mechanism beside its noise multipliers."""

from dataclasses import dataclass

from fl_audit.formats.run_folder import ZeroingKind
from fl_audit.mechanisms import MECHANISMS, Mechanism, zeroing_kind
from fl_audit.participation import Schedule
from fl_audit.participation.sensitivity import squared_sensitivity


@dataclass(frozen=True)
class NoiseFacts:
    """Fields of the `RunRecord`, which says what they are."""

    noise_law: str
    zeroing: ZeroingKind
    client_squared_sensitivity: int | None
    canary_squared_sensitivity: int | None


def noise_facts(mechanism: Mechanism, schedule: Schedule) -> NoiseFacts:
    """The facts of a run.

    Args:
      mechanism: The table of its config.
      schedule: Who takes part when.
    """
    kind = MECHANISMS.of(mechanism)
    trees = kind.trees(mechanism, schedule.num_rounds)
    client = canary = None
    if trees is not None:
        client = squared_sensitivity(schedule.client_attendance, trees)
        canary = squared_sensitivity(schedule.canary_attendance, trees)
    return NoiseFacts(kind.noise_law.name, zeroing_kind(mechanism.zeroing), client, canary)
