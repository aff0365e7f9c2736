"""The making of the attackers of a run that trains."""

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
    """Makes the attackers whose statistics a run logs.

    Args:
      run: The prepared run.
      folder: The folder with this run's config and canaries.
      completed: Number of completed rounds; above 0 their logs are opened.

    Raises:
      InputError: A log of completed rounds is missing or damaged, or a statistic has no attacker.
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
        seed=run.config.seed,
    )
    return make_attackers_of(context, statistics_of(run.config.canaries, run.config.audit))
