"""What a statistic is: one way to score canaries, and the law of an excluded canary's score."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fl_audit.estimators.setting import Null

if TYPE_CHECKING:
    from fl_audit.attacks.audit_table import Audit

Sight = Literal["initial_model", "final_model", "round_cosines", "rounds"]
"""What a score may be made of: a model, every canary's cosine with the aggregates of rounds, or all
that there is to see of each round while the system trains (`SeenRound`), which no log keeps."""


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run, or of a log, when a null law is asked for.

    Attributes:
      audit: The table [audit] of its config; the default one for a log.
      dim: Number of trainable parameters; None where nobody says it.
    """

    audit: "Audit"
    dim: int | None


@dataclass(frozen=True)
class NullLaw:
    """The law of an excluded canary's score.

    Attributes:
      kind: "closed_form" where it is the law of a cosine with one vector, of mean 0 and variance
        1/dim; "empirical" where it is known from the excluded canaries alone.
    """

    kind: Null


EMPIRICAL = NullLaw("empirical")
ONE_VECTOR = NullLaw("closed_form")


def of_excluded_scores(facts: RunFacts) -> NullLaw:
    """The law of a maximum or a sum over several vectors, or of a loss, in any run.

    It depends on how alike the vectors are.
    """
    del facts
    return EMPIRICAL


def of_one_vector(facts: RunFacts) -> NullLaw:
    """The law of a cosine with one vector that is independent of excluded canaries, in any run."""
    del facts
    return ONE_VECTOR


@dataclass(frozen=True)
class Statistic:
    """One way to score canaries.

    Attributes:
      name: What it is called in file names, JSON keys and config keys.
      title: A few words for a heading.
      meaning: A sentence on the score, and on what the attacker sees.
      threat_model: The name of what the attacker sees.
      canaries: The kind of canaries that have this score, as in `canaries.kind`.
      needs: What the score is made of.
      law: The null law as a function of what is known of the run; `null` is what to ask.
    """

    name: str
    title: str
    meaning: str
    threat_model: str
    canaries: str
    needs: frozenset[Sight]
    law: Callable[[RunFacts], NullLaw] = of_excluded_scores

    def null(self, facts: RunFacts) -> NullLaw:
        """The null law in a run or log; a closed form needs the dimension.

        Args:
          facts: What is known of the run.
        """
        law = self.law(facts)
        return EMPIRICAL if facts.dim is None and law.kind == "closed_form" else law
