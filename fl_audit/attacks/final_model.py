"""Threat models `final` and `final_and_initial`: the attacker sees no round."""

from collections.abc import Mapping
from typing import Self

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.attacker import AttackContext, ModelAttacker
from fl_audit.attacks.compared_vectors import ComparedVectors, one_vector
from fl_audit.attacks.statistics import Statistic, named, null_of_one_vector
from fl_audit.attacks.threat_models import Knowledge, ThreatModel
from fl_audit.attacks.uploads import ScoredCanaries

FINAL = Statistic(
    name="final",
    title="Final model",
    meaning="Cosine of the canary with the final model: the attacker sees nothing else.",
    threat_model="final",
    canaries="vectors",
    needs=frozenset({"final_model"}),
    null_of=null_of_one_vector,
)

FINAL_MINUS_INITIAL = Statistic(
    name="final_minus_initial",
    title="Final − initial",
    meaning=(
        "Cosine with the final minus the initial model: the attacker knows where training began."
    ),
    threat_model="final_and_initial",
    canaries="vectors",
    needs=frozenset({"initial_model", "final_model"}),
    null_of=null_of_one_vector,
)


class FinalModelAttacker(ModelAttacker):
    """An attacker who sees the final model alone."""

    statistics = (FINAL,)

    def __init__(self, canaries: ScoredCanaries, family: str | None = None) -> None:
        """Attacks a pool of canaries.

        Args:
          canaries: The pool.
          family: The canaries' family, as in `AttackContext`.
        """
        self._canaries = canaries
        self._family = family

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        """See `Attacker.from_context`."""
        return cls(context.canaries, context.family)

    def scores_of_model(self, final: Float32Array) -> Mapping[str, FloatArray]:
        """The cosines with the final model."""
        return {FINAL.name: self._canaries.cosines(final)}

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        """The final model as the compared vector."""
        return {} if final is None else named({FINAL: one_vector(self._family, final)})


class FinalAndInitialAttacker(ModelAttacker):
    """An attacker who sees the final model and knows the initial one."""

    statistics = (FINAL_MINUS_INITIAL,)

    def __init__(
        self, canaries: ScoredCanaries, initial: Float32Array, family: str | None = None
    ) -> None:
        """Attacks a pool of canaries.

        Args:
          canaries: The pool.
          initial: The model before the first round, float32 of shape (dim,).
          family: The canaries' family, as in `AttackContext`.
        """
        self._canaries = canaries
        self._initial = initial
        self._family = family

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        """See `Attacker.from_context`."""
        return cls(context.canaries, context.initial_model, context.family)

    def scores_of_model(self, final: Float32Array) -> Mapping[str, FloatArray]:
        """The cosines with the final minus the initial model."""
        return {FINAL_MINUS_INITIAL.name: self._canaries.cosines(final - self._initial)}

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        """The final minus the initial model as the compared vector."""
        if final is None:
            return {}
        return named({FINAL_MINUS_INITIAL: one_vector(self._family, final - self._initial)})


FINAL_MODEL = ThreatModel(
    name="final",
    title="Final model",
    sees=lambda audit: "the final model alone",
    attackers=(FinalModelAttacker,),
    knows=Knowledge.FINAL_MODEL,
)

FINAL_AND_INITIAL = ThreatModel(
    name="final_and_initial",
    title="Final and initial model",
    sees=lambda audit: "the initial and the final model",
    attackers=(FinalAndInitialAttacker,),
    knows=Knowledge.FIRST_AND_FINAL_MODEL,
)
