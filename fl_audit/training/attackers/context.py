"""The context of attackers in a run that trains."""

from dataclasses import dataclass

from fl_audit.attacks.context import AttackContext
from fl_audit.training.run.prepare import PreparedRun


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingContext(AttackContext):
    """The context of attackers that train canaries themselves.

    Attributes:
      run: The prepared run.
    """

    run: PreparedRun


def run_of(context: AttackContext) -> PreparedRun:
    """The prepared run of a context.

    Raises:
      TypeError: The context is not that of a run that trains.
    """
    if not isinstance(context, TrainingContext):
        raise TypeError("attackers on canaries that hold examples need a run that trains")
    return context.run
