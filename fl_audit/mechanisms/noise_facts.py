"""Facts of a mechanism that accounting needs beside its noise multipliers."""

from dataclasses import dataclass

from fl_audit.formats.folders import ZeroingKind
from fl_audit.mechanisms import MECHANISMS, Mechanism, zeroing_kind
from fl_audit.participation import Schedule
from fl_audit.participation.sensitivity import squared_sensitivity


@dataclass(frozen=True)
class NoiseFacts:
    """Facts of a mechanism, which are fields of the `RunRecord` and documented there."""

    noise_law: str
    zeroing: ZeroingKind
    client_squared_sensitivity: int | None
    canary_squared_sensitivity: int | None


def noise_facts(mechanism: Mechanism, schedule: Schedule) -> NoiseFacts:
    """The facts of a run's mechanism.

    Args:
      mechanism: The mechanism table of the run's config.
      schedule: The schedule of who takes part in which rounds.
    """
    kind = MECHANISMS.of(mechanism)
    trees = kind.trees(mechanism, schedule.num_rounds)
    client = canary = None
    if trees is not None:
        client = squared_sensitivity(schedule.client_attendance, trees)
        canary = squared_sensitivity(schedule.canary_attendance, trees)
    return NoiseFacts(kind.noise_law.name, zeroing_kind(mechanism.zeroing), client, canary)
