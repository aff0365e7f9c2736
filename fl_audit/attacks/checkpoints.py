"""Threat model `checkpoints`: the attacker sees a model every few rounds."""

from collections.abc import Mapping
from typing import Self

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.all_iterates import LargestAndSumAttacker
from fl_audit.attacks.attacker import AttackContext, SeenRound
from fl_audit.attacks.checkpointed_array import CheckpointedArray
from fl_audit.attacks.statistics import Statistic
from fl_audit.attacks.threat_models import Knowledge, ThreatModel
from fl_audit.config_tables.audit import Audit
from fl_audit.errors import InputError

CHECKPOINTS_MAX = Statistic(
    name="checkpoints_max",
    title="Largest step",
    meaning=(
        "Largest cosine with the difference of two models released one after the other: the "
        "attacker sees a model now and then, and looks for a canary that appears once."
    ),
    threat_model="checkpoints",
    canaries="vectors",
    needs=frozenset({"rounds"}),
)

CHECKPOINTS_SUM = Statistic(
    name="checkpoints_sum",
    title="Sum of steps",
    meaning=(
        "Sum of the cosines with the differences of models released one after the other: the "
        "attacker sees a model now and then, and looks for a canary that appears often."
    ),
    threat_model="checkpoints",
    canaries="vectors",
    needs=frozenset({"rounds"}),
)


class CheckpointAttacker(LargestAndSumAttacker):
    """An attacker who sees the models after 0, n, 2n and so on rounds, and the final model.

    Canaries are scored by the differences of consecutive models; the last difference may span fewer
    than n (`release_every`) rounds. Memory is one model, and a second one while two are compared.

    The state on disk is that of the base class, with differences instead of aggregates; if the
    run's checkpoint is between two released models, the earlier of these models is kept too.
    """

    statistics = (CHECKPOINTS_MAX, CHECKPOINTS_SUM)

    def __init__(self, context: AttackContext, every: int) -> None:
        folder = context.run_folder
        self._every = every
        self._num_rounds = context.num_rounds
        self._completed = completed = context.completed
        steps = -(-self._num_rounds // every)
        log = context.round_log(folder.release_cosines, folder.release_concentrations, steps)
        seen = steps if completed == self._num_rounds else completed // every
        super().__init__(context, log, seen)
        self._file = CheckpointedArray(
            folder.released_model, folder.released_models, self._release(completed)
        )
        self._released: Float32Array | None = None
        if self._is_between(completed):
            dim = len(context.initial_model)
            self._released = self._file.read("a released model", np.float32, dim)

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        if context.audit.release_every is None:
            raise ValueError("threat model 'checkpoints' needs audit.release_every")
        return cls(context, context.audit.release_every)

    def see_round(self, seen: SeenRound) -> None:
        if seen.index % self._every == 0:
            self._released = seen.before
        self._completed = seen.index + 1
        if self._released is not None and not self._is_between(self._completed):
            self._see(seen.index // self._every, seen.after - self._released)
            self._released = None

    def flush(self) -> None:
        super().flush()
        self._file.write(self._release(self._completed), self._released)

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        self._file.keep()
        return super().scores(final)

    def _is_between(self, completed: int) -> bool:
        """Whether the model after `completed` rounds is not released."""
        return completed % self._every != 0 and completed != self._num_rounds

    def _release(self, completed: int) -> int:
        """The last round, up to `completed`, with a released model."""
        return completed - completed % self._every


def _sees(audit: Audit) -> str:
    every = "round" if audit.release_every == 1 else f"{audit.release_every} rounds"
    return f"the initial model, the one after every {every} and the final one"


def _check_rounds(audit: Audit, num_rounds: int) -> None:
    every = audit.release_every
    if every is not None and every >= num_rounds:
        raise InputError(
            f"key `audit.release_every`: is {every}, must be less than the number of rounds, "
            f"{num_rounds}; if no model is released in between, use 'final_and_initial'"
        )


CHECKPOINTS = ThreatModel(
    name="checkpoints",
    title="Checkpoints",
    sees=_sees,
    attackers=(CheckpointAttacker,),
    knows=Knowledge.SOME_MODELS,
    keys=("release_every",),
    check_rounds=_check_rounds,
)
