"""Threat models `final` and `final_and_initial`: the attacker sees no round."""

from collections.abc import Mapping
from typing import ClassVar, Self

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.attacker import AttackContext, ModelAttacker
from fl_audit.attacks.compared_vectors import ComparedVectors, one_vector
from fl_audit.attacks.statistics import ONE_VECTOR, Statistic, named
from fl_audit.attacks.threat_models import Knowledge, ThreatModel

FINAL = Statistic(
    name="final",
    title="Final model",
    meaning="Cosine of the canary with the final model: the attacker sees nothing else.",
    threat_model="final",
    canaries="vectors",
    needs=frozenset({"final_model"}),
    null_of=lambda facts: ONE_VECTOR,
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
    null_of=lambda facts: ONE_VECTOR,
)


class FinalModelAttacker(ModelAttacker):
    """Scores by the cosine with the final model or, in a subclass, with what `_seen` returns."""

    statistics: ClassVar[tuple[Statistic, ...]] = (FINAL,)

    def __init__(self, context: AttackContext) -> None:
        self._context = context

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        return cls(context)

    def _seen(self, final: Float32Array) -> Float32Array:
        return final

    def scores_of_model(self, final: Float32Array) -> Mapping[str, FloatArray]:
        return {self.statistics[0].name: self._context.canaries.cosines(self._seen(final))}

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        if final is None:
            return {}
        return named({self.statistics[0]: one_vector(self._context.family, self._seen(final))})


class FinalAndInitialAttacker(FinalModelAttacker):
    statistics = (FINAL_MINUS_INITIAL,)

    def _seen(self, final: Float32Array) -> Float32Array:
        return final - self._context.initial_model


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
