"""The null of a valid threshold bound: the known one, unless the excluded scores reject it.

With a known null, excluded scores are not needed for the bound, so they can test that null. If they
reject it, the empirical null is used.

A null by design (this program drew the canaries and scored them) can be false only by a fault of
the program. It is rejected below REFUTED_BELOW, which costs next to nothing of the confidence.

A null that an argument names, such as --dim, may well be wrong: another model, or scores that are
no cosines with one vector. So the failure probability alpha of a bound is divided. The null is
rejected at alpha SHARE_OF_REFUTATION, and a bound by it is made with the rest of alpha: if the null
is true, the bound fails with that rest, and the empirical one, to which a rejection leads, is used
with probability alpha SHARE_OF_REFUTATION at most. If the null is false, a bound by it is above 0
only if included and excluded scores differ: some test at ranks of the excluded scores, exact
whatever their distribution (rejection_tests.py), rejects at alpha that both have one distribution.
So if no canary left a trace, the share of audits with a positive bound is at most alpha, whatever
the argument said of the null. With fewer than 2 excluded scores the null cannot be tested, and the
bound says what it rests on.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fl_audit.estimators.null import NullKind, NullTail
from fl_audit.estimators.result import Detail
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting, NotApplicableError
from fl_audit.estimators.threshold.rejection_tests import largest_rate, strongest_rejection

REFUTED_BELOW = 1e-6
"""The p-value below which excluded scores reject a null that holds by design."""

SHARE_OF_REFUTATION = 0.05
"""The share of the failure probability at which they reject a null that only an argument names."""


@dataclass(frozen=True)
class ChosenNull:
    """The null on which a bound rests."""

    tail: NullTail | None  # None for the empirical null
    confidence: float  # left for a bound under the null
    assumption: str = ""  # of the tail, as a sentence after a space; empty if nothing
    allows_no_bound: bool = False  # only an argument names the tail, and scores do not differ
    refutation: str | None = None  # why a known null is not used

    @property
    def name(self) -> NullKind:
        return "empirical" if self.tail is None else "closed_form"

    def details(self) -> dict[str, Detail]:
        """The details of an estimate about its null."""
        details: dict[str, Detail] = {"null": self.name}
        if self.tail is not None:
            details["null_law"] = self.tail.description
        if self.refutation is not None:
            details["refuted_null"] = self.refutation
        return details


@functools.lru_cache(maxsize=1)  # several methods use one setting in turn
def chosen_null(setting: AuditSetting) -> ChosenNull:
    """The known null, unless scores reject it or are all equal; else the empirical one."""
    tail = setting.null.known_tail()
    if tail is None:
        setting.require_null_scores()
        return ChosenNull(None, setting.confidence)
    is_argument = setting.null.source == "argument"
    level = (1 - setting.confidence) * SHARE_OF_REFUTATION if is_argument else REFUTED_BELOW
    refutation = _refutation(setting.scores, tail, level)
    if refutation is None and not is_argument:
        return ChosenNull(tail, setting.confidence, _assumption(tail, setting.scores.num_excluded))
    if refutation is None:
        return _by_argument(setting, tail, setting.confidence + level)
    if setting.scores.num_excluded < 2:
        raise NotApplicableError(
            f"{refutation}; without it at least 2 excluded scores are needed, "
            f"got {setting.scores.num_excluded}"
        )
    return ChosenNull(
        None,
        setting.confidence,
        f" No distribution of excluded scores is assumed: {refutation}.",
        refutation=refutation,
    )


def _by_argument(setting: AuditSetting, tail: NullTail, confidence: float) -> ChosenNull:
    """The null that an argument names, if the scores do not reject it."""
    num_excluded = setting.scores.num_excluded
    assumption = _assumption(tail, num_excluded)
    if num_excluded < 2:
        return ChosenNull(
            tail, confidence, f"{assumption} The bound rests on the null as it was given (dim)."
        )
    if strongest_rejection(setting, largest_rate(0.0)).claim > 0:
        return ChosenNull(tail, confidence, assumption)
    nothing = (
        " Nothing is proven, as included scores do not differ from excluded ones by more than "
        "chance, and the null is only stated (dim)."
    )
    return ChosenNull(tail, confidence, f"{assumption}{nothing}", allows_no_bound=True)


def refuted_nulls(details: Iterable[Mapping[str, Detail]]) -> list[str]:
    """Why known nulls were not used, each reason once, from the details of estimates."""
    reasons = (str(row["refuted_null"]) for row in details if "refuted_null" in row)
    return list(dict.fromkeys(reasons))


def _refutation(scores: CanaryScores, tail: NullTail, level: float) -> str | None:
    """Why the scores do not allow the null; None if they do."""
    everything = np.concatenate([scores.included, scores.excluded])
    if len(everything) > 1 and np.ptp(everything) == 0:
        return (
            f"all {len(everything)} scores are equal, which tells nothing of the closed-form null"
        )
    if scores.num_excluded == 0 or tail.p_value(scores.excluded) >= level:
        return None
    return (
        f"the excluded scores refute the closed-form null (p < {level:g}): they are not "
        f"{tail.description}; check dim"
    )


def _assumption(tail: NullTail, num_excluded: int) -> str:
    tested = (
        f"A goodness-of-fit test on {num_excluded:,} excluded scores does not reject it."
        if num_excluded
        else "There are no excluded scores to test it on."
    )
    return f" Null distribution of excluded scores: {tail.description}. {tested}"
