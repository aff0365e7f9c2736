"""Statistics: ways to score canaries, each with the null distribution of its scores.

Most scores are a multiple of the largest cosine of a canary with one vector or several: a model,
every round's aggregate, or the sum of the aggregates' directions. Excluded canaries are independent
of these vectors, so the null distribution follows from the canaries' family and, for canaries of
random signs, from how much of each vector is on few coordinates. `compared_vectors` describes the
vectors; `Statistic.null` is the resulting distribution.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fl_audit.attacks.compared_vectors import ANY_VECTOR, ComparedVectors
from fl_audit.canaries.families import WITH_KNOWN_NULL
from fl_audit.config_tables.audit import Audit
from fl_audit.errors import InputError
from fl_audit.estimators.null import EMPIRICAL, Null


def named(compared: Mapping["Statistic", ComparedVectors | None]) -> dict[str, ComparedVectors]:
    """The entries that are not None, by the statistic's name."""
    return {
        statistic.name: vectors for statistic, vectors in compared.items() if vectors is not None
    }


Sight = Literal[
    "initial_model", "final_model", "round_cosines", "canary_rounds", "rounds", "uploads"
]
"""An input of a score: the initial or the final model; every canary's cosines with aggregates; the
rounds of every canary; everything visible in each round during training (`SeenRound`), which no log
keeps; or canaries' own uploads."""


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run, or of a log, on which null distributions depend.

    Attributes:
      audit: The table [audit] of the run's config; for a log, the default table.
      dim: The number of trainable parameters; None if this number is not known.
      family: The canaries' family, as in `canaries.family`; None if the family is not known, or if
        canaries are not vectors.
      compared: The vectors compared with canaries, by statistic, if known.
      upload_shift: The shift by a canary's uploads, all taken together, in standard deviations of
        their noise, as configured or stated; None if the noise is neither.
    """

    audit: Audit
    dim: int | None
    family: str | None = None
    compared: Mapping[str, ComparedVectors] = field(default_factory=dict)
    upload_shift: float | None = None

    def of_arm(self, arm: str) -> "RunFacts":
        """The facts of one arm's canaries."""
        compared = {name: vectors.of_arm(arm) for name, vectors in self.compared.items()}
        return dataclasses.replace(self, compared=compared)


ONE_VECTOR = Null("closed_form")
"""The null of a cosine with one vector, which excluded canaries are independent of."""


def null_of_one_cosine(statistic: str, facts: RunFacts) -> Null:
    """The closed form if every canary's score is known to be one cosine, else `EMPIRICAL`."""
    compared = facts.compared.get(statistic)
    return EMPIRICAL if compared is None or compared.is_limit else ONE_VECTOR


@dataclass(frozen=True)
class Statistic:
    """One way to score canaries.

    Attributes:
      name: The name in file names, JSON keys and config keys.
      title: A few words for a heading.
      meaning: A sentence on the score and on the attacker's view.
      threat_model: The name of the threat model.
      canaries: The kind of canaries that have this score, as in `canaries.kind`.
      needs: The inputs of the score.
      null_of: A function from the facts of a run to the null without its tail, which `null` adds.
    """

    name: str
    title: str
    meaning: str
    threat_model: str
    canaries: str
    needs: frozenset[Sight]
    null_of: Callable[[RunFacts], Null] = lambda facts: EMPIRICAL

    @property
    def tells_rounds(self) -> bool:
        """Whether scores, together with the aggregates, reveal the rounds of canaries."""
        return bool(self.needs & {"canary_rounds", "uploads"})

    def null(self, facts: RunFacts) -> Null:
        """The null in a run or log; empirical if the dim, or the family's null, is not known."""
        null_of = self.null_of(facts)
        kind = null_of.kind
        if facts.dim is None or facts.family not in (None, *WITH_KNOWN_NULL):
            return Null("empirical", dim=facts.dim)
        compared = facts.compared.get(self.name, ANY_VECTOR if kind == "closed_form" else None)
        if compared is None or facts.family is None:
            return Null(kind, dim=facts.dim)
        try:
            tail = compared.null_tail(facts.family, facts.dim)
        except ValueError as error:
            raise InputError(
                f"the known concentration of {self.name}'s vectors does not fit dim {facts.dim}: "
                f"{error}"
            ) from error
        return dataclasses.replace(null_of, tail=tail, dim=facts.dim)
