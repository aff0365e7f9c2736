"""The null that a valid threshold bound stands on: what is known, unless the scores refute it.

With a known null, excluded scores are not needed for the bound, so they can test that null. Where
they refute it, the empirical null is used. That choice costs next to nothing of the confidence: a
null that is true is refuted with probability at most REFUTED_BELOW, and of one that is false
nothing is claimed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fl_audit.estimators.laws import NullTail
from fl_audit.estimators.result import Detail
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting, NotApplicableError, Null

REFUTED_BELOW = 1e-6
"""The p-value below which excluded scores refute a null."""


@dataclass(frozen=True)
class ChosenNull:
    """The null that a bound stands on.

    Attributes:
      tail: What is known of an excluded canary's score; None for the empirical null.
      assumption: What the tail assumes, as a sentence after a space; empty if nothing.
      refutation: Why a known null is not used; None where there is none or it is used.
    """

    tail: NullTail | None
    assumption: str = ""
    refutation: str | None = None

    @property
    def name(self) -> Null:
        """The name of the null in settings."""
        return "empirical" if self.tail is None else "closed_form"

    def details(self) -> dict[str, Detail]:
        """The details of an estimate that tell of its null."""
        told: dict[str, Detail] = {"null": self.name}
        if self.tail is not None:
            told["null_law"] = self.tail.description
        if self.refutation is not None:
            told["refuted_null"] = self.refutation
        return told


def chosen_null(setting: AuditSetting) -> ChosenNull:
    """The known null where there is one that the scores do not refute, else the empirical one.

    Scores that are all equal, as of a model that did not move or diverged, say nothing about their
    law, so no known null is used for them either.

    Raises:
      NotApplicableError: If the empirical null is needed and there are fewer than 2 excluded
        scores.
    """
    tail = setting.known_tail()
    if tail is None:
        setting.require_null_scores()
        return ChosenNull(None)
    refutation = _refutation(setting.scores, tail)
    if refutation is None:
        return ChosenNull(tail, _assumption(tail, setting.scores.num_excluded))
    if setting.scores.num_excluded < 2:
        raise NotApplicableError(
            f"{refutation}; without it at least 2 excluded scores are needed, "
            f"got {setting.scores.num_excluded}"
        )
    return ChosenNull(None, f" No law of excluded scores is assumed: {refutation}.", refutation)


def refuted_nulls(details: Iterable[Mapping[str, Detail]]) -> list[str]:
    """Why known nulls were not used, each reason once.

    Args:
        details: Of the estimates on one statistic.
    """
    found = (str(one["refuted_null"]) for one in details if "refuted_null" in one)
    return list(dict.fromkeys(found))


def _refutation(scores: CanaryScores, tail: NullTail) -> str | None:
    """The reason why the scores cannot be held against the null; None if they can."""
    everything = np.concatenate([scores.included, scores.excluded])
    if len(everything) > 1 and np.ptp(everything) == 0:
        return (
            f"all {len(everything)} scores are equal, which tells nothing of the closed-form null"
        )
    if scores.num_excluded == 0 or tail.p_value(scores.excluded) >= REFUTED_BELOW:
        return None
    return (
        f"the excluded scores refute the closed-form null (p < {REFUTED_BELOW:g}): they are not "
        f"{tail.description}; check dim"
    )


def _assumption(tail: NullTail, num_excluded: int) -> str:
    tested = (
        f"their {num_excluded} scores do not refute it"
        if num_excluded
        else "there are no excluded scores to test it on"
    )
    return (
        f" The closed-form null holds, which is that excluded canaries' scores are "
        f"{tail.description}; {tested}."
    )
