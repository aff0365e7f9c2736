"""The making of the attackers of a run that trains."""

from fl_audit.attacks.attacker import Attacker
from fl_audit.attacks.make import make_attackers as make_attackers_of
from fl_audit.attacks.registry import register_attacker
from fl_audit.attacks.statistics import statistics_of
from fl_audit.canaries.tables import family_of
from fl_audit.formats.folders import RunFolder
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


def attack_context(run: PreparedRun, folder: RunFolder, completed: int) -> TrainingContext:
    """What attackers need of a run.

    Args:
      run: The prepared run.
      folder: The folder with this run's config and canaries.
      completed: Number of completed rounds; above 0 their logs are opened.
    """
    return TrainingContext(
        canaries=run.family,
        num_canaries=len(run.included),
        num_rounds=run.schedule.num_rounds,
        audit=run.config.audit,
        initial=flatten_weights(run.task.classifier.initial_weights),
        folder=folder,
        completed=completed,
        run=run,
        family=family_of(run.config.canaries),
        canary_rounds=run.own_rounds,
        seed=run.config.seed,
    )


def make_attackers(context: TrainingContext) -> tuple[Attacker, ...]:
    """Makes the attackers whose statistics a run logs.

    Args:
      context: What they need of the run.

    Raises:
      InputError: A log of completed rounds is missing or damaged, or a statistic has no attacker.
    """
    run = context.run
    return make_attackers_of(context, statistics_of(run.config.canaries, run.config.audit))
