"""The null of a valid threshold bound: the known null, unless the excluded scores reject it.

With a known null, excluded scores are not needed for the bound, so they can test that null. If they
reject it, the empirical null is used.

A null by design (this program drew the canaries and scored them) can be false only by a fault of
the program. It is rejected at p-values below REFUTED_BELOW, at almost no cost in confidence.

A null that the caller states (--dim) may well be wrong: for another model, or for scores that are
not cosines with one vector. So the failure probability alpha of a bound is divided. The null is
rejected at level alpha SHARE_OF_REFUTATION, and a bound under it uses the rest of alpha. If the
null is true, a bound under it fails with probability at most this rest, and the empirical null is
used with probability at most alpha SHARE_OF_REFUTATION. If the null is false but not rejected, a
bound under it is positive only if a test at ranks of the excluded scores (rejection_tests.py)
rejects at level alpha that included and excluded scores have one distribution; that test is exact
for any distribution. So without any leak the share of audits with a positive bound is at most
alpha, even if the argument was wrong. With fewer than 2 excluded scores there is no such test, and
the bound states its assumption.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fl_audit.estimators.null import NullTail
from fl_audit.estimators.result import Detail
from fl_audit.estimators.setting import AuditSetting, NotApplicableError
from fl_audit.estimators.threshold.rejection_tests import largest_rate, strongest_rejection

REFUTED_BELOW = 1e-6
"""The p-value below which excluded scores reject a null that holds by design."""

SHARE_OF_REFUTATION = 0.05
"""The level at which excluded scores reject a null from an argument, as a share of alpha."""


@dataclass(frozen=True)
class ChosenNull:
    """The null on which a bound rests."""

    tail: NullTail | None  # None for the empirical null
    confidence: float  # of a bound under this null
    assumption: str = (
        ""  # the assumed tail, as a sentence after a space; empty if nothing is assumed
    )
    allows_no_bound: bool = False  # the tail is from an argument, and the groups do not differ
    refutation: str | None = None  # why a known null is not used

    def details(self) -> dict[str, Detail]:
        """An estimate's details about this null."""
        details: dict[str, Detail] = {"null": "empirical"}
        if self.tail is not None:
            details = {"null": "closed_form", "null_law": self.tail.description}
        if self.refutation is not None:
            details["refuted_null"] = self.refutation
        return details


@functools.lru_cache(maxsize=1)  # several methods use one setting, one after another
def chosen_null(setting: AuditSetting) -> ChosenNull:
    """The known null, unless scores reject it or are all equal; else the empirical one."""
    tail = setting.null.known_tail()
    if tail is None:
        setting.require_null_scores()
        return ChosenNull(None, setting.confidence)
    is_argument = setting.null.source == "argument"
    level = (1 - setting.confidence) * SHARE_OF_REFUTATION if is_argument else REFUTED_BELOW
    refutation = _refutation(setting, tail, level)
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
    """The null from an argument that the excluded scores do not reject."""
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
    """Why known nulls were not used, each reason once, by the details of estimates."""
    reasons = (str(row["refuted_null"]) for row in details if "refuted_null" in row)
    return list(dict.fromkeys(reasons))


def _refutation(setting: AuditSetting, tail: NullTail, level: float) -> str | None:
    """Why the scores reject the null; None if they do not reject it."""
    scores, null = setting.scores, setting.null
    everything = np.concatenate([scores.included, scores.excluded])
    if len(everything) > 1 and np.ptp(everything) == 0:
        return f"all {len(everything)} scores are equal, so the known null cannot be tested"
    if scores.num_excluded == 0 or tail.p_value(scores.excluded) >= level:
        return None
    may_be_wrong = "; check dim" if null.source == "argument" and null.dim is not None else ""
    return (
        f"the excluded scores refute the known null (p < {level:g}): they are not "
        f"{tail.description}{may_be_wrong}"
    )


def _assumption(tail: NullTail, num_excluded: int) -> str:
    tested = (
        f"A goodness-of-fit test on {num_excluded:,} excluded scores does not reject it."
        if num_excluded
        else "There are no excluded scores to test it on."
    )
    return f" Null distribution of excluded scores: {tail.description}. {tested}"
