"""The attackers of a run that trains, among them those on canaries that hold examples.

Scores on examples follow Steinke et al. 2023, Algorithm 3. Each is a function of what the run
released, of the canary's examples and of the seed. It depends on nothing else that the canary's
coin decides: the same code scores included and excluded canaries. So, given what was released, only
the coins have to be guessed, as one-run bounds need it. If the run leaks nothing, the scores of
included and excluded canaries are exchangeable, because coins are fair and independent of examples;
the empirical null needs this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import tensorflow as tf

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.aggregates import over_rounds
from fl_audit.attacks.arrays import unflatten
from fl_audit.attacks.attacker import AttackContext, Attacker, ModelAttacker, SeenRound
from fl_audit.attacks.own_rounds import OwnRounds, sums_in_own_rounds
from fl_audit.attacks.round_cosines import numbered_rows
from fl_audit.attacks.statistics import (
    FINAL_LOSS,
    LOSS_DIFFERENCE,
    WHITE_BOX,
    WHITE_BOX_MAX,
    WHITE_BOX_OWN,
)
from fl_audit.attacks.threat_models import make_attackers as make_attackers_of
from fl_audit.attacks.threat_models import register_attacker, statistics_of
from fl_audit.canaries.tables import family_of
from fl_audit.engines.cohort import CohortData
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.blocks import (
    BlockTrainer,
    NotVectorizedError,
    as_leaves,
    default_clients_per_block,
    pad_block,
)
from fl_audit.engines.tff.local import block_trainer
from fl_audit.engines.tff.measures import MeanLosses
from fl_audit.engines.tff.rounds import flatten_weights
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_logs import CosineLog
from fl_audit.tasks.classifier import as_classifier


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


class LossAttacker(ModelAttacker):
    """An attacker that can query models for losses."""

    def __init__(self, run: PreparedRun) -> None:
        """Attacks the canaries of a prepared run."""
        self._run = run

    @classmethod
    def of(cls, context: AttackContext) -> Self:
        """See `Attacker.of`."""
        return cls(run_of(context))

    def _losses(self) -> MeanLosses:
        return MeanLosses(as_classifier(self._run.task.classifier), self._run.canary_examples)


class FinalLossAttacker(LossAttacker):
    """An attacker that can query the final model for losses, and nothing else."""

    statistics = (FINAL_LOSS,)

    def scores_of_model(self, final: Float32Array) -> Mapping[str, FloatArray]:
        """The negated losses of the final model on the canaries."""
        weights = unflatten(final, self._run.task.classifier.initial_weights)
        return {FINAL_LOSS.name: -self._losses().of(weights).attacked}


class LossDifferenceAttacker(LossAttacker):
    """An attacker that can query both end models for losses (Algorithm 3, black box)."""

    statistics = (LOSS_DIFFERENCE,)

    def scores_of_model(self, final: Float32Array) -> Mapping[str, FloatArray]:
        """The losses of the initial model minus those of the final model (line 9)."""
        losses, initial = self._losses(), self._run.task.classifier.initial_weights
        before, after = (losses.of(w).attacked for w in (initial, unflatten(final, initial)))
        return {LOSS_DIFFERENCE.name: before - after}


class UpdateAttacker(Attacker):
    """An attacker that sees every round and knows what each canary would send (white box).

    In every round, every canary trains as a client does, from the model that the round began with,
    and its update is clipped to the round's clip norm. The inner product of the clipped update with
    the round's noised aggregate is logged (Algorithm 3, lines 13 to 17, with the update in place of
    the gradient and the aggregate in place of the difference of models). This is done for all
    canaries in all rounds, whether they took part or not. The score in a canary's own rounds
    belongs to a stronger threat model (`known_rounds`), in which the attacker knows these rounds
    and an analytical epsilon must not count on sampling.
    """

    statistics = (WHITE_BOX, WHITE_BOX_MAX, WHITE_BOX_OWN)

    def __init__(
        self,
        run: PreparedRun,
        trainer: BlockTrainer,
        clients_per_block: int,
        log: CosineLog,
        own: OwnRounds,
    ) -> None:
        """Attacks the canaries of a prepared run.

        Args:
          run: The prepared run.
          trainer: The trainer of blocks of this run's clients.
          clients_per_block: Number of canaries that train at once, at least 1.
          log: The log of inner products, with a row for each round.
          own: The rounds of each canary.
        """
        self._run = run
        self._trainer = trainer
        self._clients_per_block = clients_per_block
        self._log = log
        self._own = own
        examples = run.canary_examples
        self._data = CohortData(run.task, run.config.client, run.config.seed, examples)
        # Canaries with similar numbers of examples share a block, so that little of it is padding.
        self._order = np.argsort([len(canary) for canary in examples], kind="stable")

    @classmethod
    def of(cls, context: AttackContext) -> Self:
        """See `Attacker.of`.

        Raises:
          InputError: The model does not train in blocks of clients, or the log of completed rounds
            is missing or damaged.
        """
        run = run_of(context)
        size = run.config.clients_per_block or default_clients_per_block(run.task.classifier.dim)
        try:
            trainer = block_trainer(run)
        except NotVectorizedError as error:
            raise InputError(
                "audit.threat_models: 'all_iterates' for canaries.kind 'examples' needs a model "
                f"that trains in blocks of clients, and must be left out for this one: {error}"
            ) from error
        path, shape = context.run_folder.round_products, (context.num_rounds, context.num_canaries)
        log = CosineLog.at_round(context.completed, path, *shape)
        return cls(run, trainer, size, log, context.own_rounds)

    def see_round(self, seen: SeenRound) -> None:
        """Logs the inner product of each canary's clipped update with the aggregate."""
        initial = self._run.task.classifier.initial_weights
        weights = [tf.constant(array) for array in unflatten(seen.before, initial)]
        # With the sign of TFF's updates: initial minus trained weights.
        shapes = [array.shape for array in initial]
        aggregate = [tf.constant(leaf) for leaf in as_leaves(-seen.aggregate, shapes)]
        products = np.empty(len(self._order))
        for start in range(0, len(self._order), self._clients_per_block):
            members = self._order[start : start + self._clients_per_block]
            block = pad_block(
                [self._data.of_canary(int(canary), seen.index) for canary in members],
                self._run.config.client.batch_size,
                self._run.task.classifier.padding_label,
            )
            update = self._trainer.train(weights, block).update
            products[members] = _clipped_products(
                tuple(update), tuple(aggregate), tf.constant(seen.clip_norm, tf.float32)
            )
        self._log.write_round(seen.index, products)

    def flush(self) -> None:
        """Writes the log to the disk."""
        self._log.flush()

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """The sum (line 18) and maximum over rounds, and the score in the canary's own rounds."""
        del final
        seen = over_rounds(self._log.rows(), self._log.num_canaries)
        return {
            WHITE_BOX.name: seen.total,
            WHITE_BOX_MAX.name: seen.maximum,
            WHITE_BOX_OWN.name: sums_in_own_rounds(
                numbered_rows(self._log), self._own
            ).over_roots(),
        }


@tf.function(reduce_retracing=True)
def _clipped_products(
    updates: Sequence[tf.Tensor], vector: Sequence[tf.Tensor], clip_norm: tf.Tensor
) -> tf.Tensor:
    """The inner product of each clipped update with one vector.

    Args:
      updates: The updates in leaves of float32, whose first axis is the client.
      vector: The vector in leaves of the same shapes without that axis, float32.
      clip_norm: Norm that updates are clipped to, a float32 scalar; may be infinite.

    Returns:
      The inner products, float64 of shape (clients,).
    """
    rows = [
        tf.cast(tf.reshape(update, [tf.shape(update)[0], -1]), tf.float64) for update in updates
    ]
    leaves = [tf.cast(tf.reshape(leaf, [-1]), tf.float64) for leaf in vector]
    products = tf.add_n(list(map(tf.linalg.matvec, rows, leaves)))
    norms = tf.sqrt(tf.add_n([tf.reduce_sum(row * row, axis=1) for row in rows]))
    return products * tf.minimum(
        tf.constant(1.0, tf.float64), tf.math.divide_no_nan(tf.cast(clip_norm, tf.float64), norms)
    )


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
