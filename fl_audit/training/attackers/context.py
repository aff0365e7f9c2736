"""What attackers are made from where a run trains."""

from dataclasses import dataclass

from fl_audit.attacks.context import AttackContext
from fl_audit.training.run.prepare import PreparedRun


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingContext(AttackContext):
    """A run that trains, for attackers who train too.

    Attributes:
      run: Of `prepare`.
    """

    run: PreparedRun


def run_of(context: AttackContext) -> PreparedRun:
    """The run that trains.

    Raises:
      TypeError: None does.
    """
    if not isinstance(context, TrainingContext):
        raise TypeError("attackers on canaries that hold examples need a run that trains")
    return context.run
