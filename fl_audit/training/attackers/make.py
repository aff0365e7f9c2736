"""From a run's threat models to its attackers."""

from fl_audit.config import ExampleCanaries
from fl_audit.errors import InputError
from fl_audit.formats.cosine_log import CosineLog
from fl_audit.formats.run_folder import RunFolder
from fl_audit.training.attackers.aggregates import AggregateAttacker, views_of
from fl_audit.training.attackers.attacker import Attacker
from fl_audit.training.attackers.checkpoints import CheckpointAttacker
from fl_audit.training.attackers.examples import (
    FinalLossAttacker,
    LossDifferenceAttacker,
    UpdateAttacker,
)
from fl_audit.training.attackers.models import FinalAndInitialAttacker, FinalModelAttacker
from fl_audit.training.run.prepare import PreparedRun
from fl_audit.training.runtimes.block_size import default_clients_per_block
from fl_audit.training.runtimes.blocks import NotVectorizedError
from fl_audit.training.runtimes.local import block_trainer


def make_attackers(run: PreparedRun, folder: RunFolder, completed: int) -> tuple[Attacker, ...]:
    """The attackers whose statistics a run logs.

    Args:
      run: of `prepare`.
      folder: that holds this run's identity.
      completed: rounds that are done; their logs are opened where it is not 0.

    Raises:
      InputError: a log that should be there is not.
    """
    of = _of_examples if isinstance(run.config.canaries, ExampleCanaries) else _of_vectors
    return tuple(of(run, folder, completed))


def _of_examples(run: PreparedRun, folder: RunFolder, completed: int) -> list[Attacker]:
    """Those who look for clients that trained on the canaries' examples."""
    audit = run.config.audit
    attackers: list[Attacker] = []
    if "final" in audit.threat_models:
        attackers.append(FinalLossAttacker(run))
    if "final_and_initial" in audit.threat_models:
        attackers.append(LossDifferenceAttacker(run))
    if "all_iterates" in audit.threat_models:
        attackers.append(_update_attacker(run, folder, completed))
    return attackers


def _update_attacker(run: PreparedRun, folder: RunFolder, completed: int) -> UpdateAttacker:
    size = run.config.clients_per_block or default_clients_per_block(run.task.classifier.dim)
    try:
        trainer = block_trainer(run)
    except NotVectorizedError as error:
        raise InputError(
            "audit.threat_models: 'all_iterates' for canaries.kind 'examples' needs a model that "
            f"trains in blocks of clients, and must be left out for this one: {error}"
        ) from error
    rows, columns = run.schedule.num_rounds, len(run.included)
    log = CosineLog.at_round(completed, folder.round_products, rows, columns)
    return UpdateAttacker(run, trainer, size, log)


def _of_vectors(run: PreparedRun, folder: RunFolder, completed: int) -> list[Attacker]:
    """Those who look for vectors."""
    audit = run.config.audit
    attackers: list[Attacker] = []
    if "final" in audit.threat_models:
        attackers.append(FinalModelAttacker(run))
    if "final_and_initial" in audit.threat_models:
        attackers.append(FinalAndInitialAttacker(run))
    if views := views_of(run):
        rows, columns = run.schedule.num_rounds, len(run.included)
        log = CosineLog.at_round(completed, folder.round_cosines, rows, columns)
        attackers.append(AggregateAttacker(run, log, views))
    if audit.release_every is not None:
        attackers.append(CheckpointAttacker(run, folder, audit.release_every, completed))
    return attackers
