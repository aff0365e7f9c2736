"""From a run that trains to its attackers."""

from fl_audit.attacks.attacker import Attacker
from fl_audit.attacks.make import make_attackers as make_attackers_of
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.registry import register_attacker
from fl_audit.attacks.statistics import statistics_of
from fl_audit.canaries.tables import family_of
from fl_audit.formats.run_folder import RunFolder
from fl_audit.training.algorithm.round import flatten_weights
from fl_audit.training.attackers.context import TrainingContext
from fl_audit.training.attackers.examples import (
    FinalLossAttacker,
    LossDifferenceAttacker,
    UpdateAttacker,
)
from fl_audit.training.run.prepare import PreparedRun

register_attacker(FinalLossAttacker)
register_attacker(LossDifferenceAttacker)
register_attacker(UpdateAttacker)


def make_attackers(run: PreparedRun, folder: RunFolder, completed: int) -> tuple[Attacker, ...]:
    """The attackers whose statistics a run logs.

    Args:
      run: of `prepare`.
      folder: that holds this run's identity.
      completed: rounds that are done; their logs are opened where it is not 0.

    Raises:
      InputError: a log that should be there is not, or a statistic has no attacker.
    """
    context = TrainingContext(
        canaries=run.family,
        num_canaries=len(run.included),
        num_rounds=run.schedule.num_rounds,
        audit=run.config.audit,
        initial=flatten_weights(run.task.classifier.initial_weights),
        folder=folder,
        completed=completed,
        run=run,
        family=family_of(run.config.canaries),
        canary_rounds=OwnRounds(tuple(run.schedule.rounds_of_canaries(run.num_canaries))),
    )
    return make_attackers_of(context, statistics_of(run.config.canaries, run.config.audit))
