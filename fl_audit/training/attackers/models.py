"""The attackers who see the final model, and maybe know the initial one."""

import abc
from collections.abc import Mapping

from fl_audit.attacks.statistics import FINAL, FINAL_MINUS_INITIAL
from fl_audit.training.algorithm.round import flatten_weights
from fl_audit.training.attackers.attacker import Attacker, FloatArray, SeenRound, Weights
from fl_audit.training.run.prepare import PreparedRun


class ModelAttacker(Attacker):
    """Sees no round, and scores by the final model."""

    def __init__(self, run: PreparedRun) -> None:
        """Attacks a run's canaries."""
        self._run = run

    def see_round(self, seen: SeenRound) -> None:
        """Does not look."""

    def flush(self) -> None:
        """Has nothing to remember."""

    @abc.abstractmethod
    def scores(self, final: Weights) -> Mapping[str, FloatArray]:
        """See `Attacker.scores`."""


class FinalModelAttacker(ModelAttacker):
    """Sees the final model alone."""

    def scores(self, final: Weights) -> Mapping[str, FloatArray]:
        """Cosines with the final model."""
        return {FINAL.name: self._run.family.cosines(flatten_weights(final))}


class FinalAndInitialAttacker(ModelAttacker):
    """Sees the final model and knows the initial one."""

    def scores(self, final: Weights) -> Mapping[str, FloatArray]:
        """Cosines with the final minus the initial model."""
        moved = flatten_weights(final)
        moved -= flatten_weights(self._run.task.classifier.initial_weights)
        return {FINAL_MINUS_INITIAL.name: self._run.family.cosines(moved)}
