"""The canary check: whether included canaries reached their rounds' aggregates, and at what norm.

Scores at chance mean nothing if no canary reached the model: a reassuring audit has to show that it
could have detected a leak. docs/canary_check.md describes the check.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from fl_audit.checks.canary_projections import (
    NO_FAULT,
    CanaryParticipations,
    Coefficient,
    Mixture,
    coefficient,
    excluded_log_e_value,
    log_ratio_lost_or_shorter,
    uneven,
)
from fl_audit.json_records import UNWRITTEN

CANARY_CHECK_FALSE_ALARM = 1e-6
"""The largest probability that a correct mechanism fails the check or has a fault named."""

ARRIVED_LEVEL = 1e-4
"""The largest probability of two errors: that lost canaries pass for present if expected norms are
unknown, and that excluded canaries, which sent nothing, raise a doubt.
"""

_ALARMS = 8
"""The number of alarms. Included canaries: shorter, longer or uneven in first rounds; shorter in
later rounds; present in the next round. Excluded canaries: present with either sign, or in part.
"""

ALARM = math.log(_ALARMS / CANARY_CHECK_FALSE_ALARM)
"""The evidence, in nats, that raises any one alarm."""

ARRIVED = float(special.ndtri(ARRIVED_LEVEL)) ** 2 / 2
"""Nats of evidence: half the square of the normal quantile at `ARRIVED_LEVEL`."""

LOST = "dropped, zeroed, late, or out of memory"
"""Likely causes if a part of the canaries is lost."""


Missing = Literal["lost", "shorter"]
"""How a shortfall arises: a part of the canaries is lost, or all canaries are shorter."""


@dataclass(frozen=True)
class CanaryCheck:
    """Result of the canary check: did included canaries reach the aggregates?

    Attributes:
      state: Whether canaries are in the aggregates with the expected norm, if that can be decided.
      ratio: The canaries' norm in the aggregates, over the largest norm of a client (clip norm over
        denominator); None if the largest norm of a client is not known.
      reason: The reason for the state, as a clause.
      lacks: If canaries arrived, the information, in words, that is missing to tell whether a part
        of the canaries is lost; None if nothing is missing, or if `state` is another.
      fault: A significant fault with its likely causes, as a clause; None without a fault. The
        first line of a verdict names the fault.
      signal: The lower limit, one-sided with 99.9 % confidence, of the average signal of scored
        included canaries, as a share of a client's signal; None if the signal is not known.
      length: The canaries' norm over a client's with which a verdict's power is simulated; None if
        this ratio is not known.
      missing: How a shortfall arises; None if that is not clear.
      is_longer: Whether the fault is that canaries are longer than a client may be.
      num_scored: The number of included canaries with a scored round of their own; None if rounds
        are not known.
      num_included: The number of included canaries; None if rounds are not known.
    """

    state: Literal["arrived", "not_arrived", "cannot_tell"]
    ratio: float | None
    reason: str
    lacks: str | None = dataclasses.field(default=None, metadata=UNWRITTEN)
    fault: str | None = None
    signal: float | None = None
    length: float | None = dataclasses.field(default=None, metadata=UNWRITTEN)
    missing: Missing | None = dataclasses.field(default=None, metadata=UNWRITTEN)
    is_longer: bool = dataclasses.field(default=False, metadata=UNWRITTEN)
    num_scored: int | None = None
    num_included: int | None = None


# The outcome in words and numbers.


SIGNAL_LEVEL = 1e-3
"""The largest probability that the stated signal of canaries exceeds the true one."""

LEAST_SIGNAL = 0.5
"""The least share of a client's signal, at `SIGNAL_LEVEL`, with which the check passes. A smaller
share would be valid too, as a verdict uses the measured share, but then most canaries may be lost.
"""

REACTION = 0.5
"""A shortfall in later rounds up to this is never a fault: the model has learnt the canaries by
then, and clients undo a part of this (at most 6 % in measured runs, docs/canary_check.md).
"""

LEFT_OVER = 0.25
"""Up to this value, canaries' share in the next round is no sign of momentum, and the excess of
some canaries over a client's norm is no sign that they are scaled wrongly.
"""

LESS = 0.3
"""A verdict's power is simulated with canaries shorter than measured, by this many standard errors.
Without this, an audit with 80 % power at the measured norm would have 72 % on average over the
measurement error; with it, 79 %.
"""

_AS_EXPECTED = 0.5
"""Canaries that are measured shorter by up to this many standard errors are simulated with the
expected norm. Most canaries have it and none is longer, so without this rule a stated power of 80 %
would in truth be 88 % for canaries of the expected norm. With the rule it is 86 % for these, and
77 % for canaries that are one standard error shorter.
"""

_SIGNAL_ERRORS = -float(special.ndtri(SIGNAL_LEVEL))

_WIDE = 0.5
"""Excluded canaries show nothing if chance alone can make them deviate by more than this."""

_LEANING = 3.0
"""One of the two explanations `Missing` is named alone if it is likelier by this many nats."""

_SHORTER = (
    "sent below the clip norm, clipped twice, weighted, compressed, frozen in part, or another "
    "denominator"
)
_GONE = "zeroed, dropped, of weight 0, or scored by another seed, order or round"

_WANTED_ERROR = 0.11
"""The standard error at which the check mostly passes if canaries are in the aggregates."""


def check_canaries(
    included: CanaryParticipations,
    excluded: CanaryParticipations,
    shifted: Mapping[int, CanaryParticipations],
    false_alarm: float = CANARY_CHECK_FALSE_ALARM,
) -> CanaryCheck:
    """Decides by canaries' scores in their rounds whether included ones reached the aggregates.

    `shifted` has, by offset, the included canaries in rounds at this offset from their own.
    """
    alarm = math.log(_ALARMS / false_alarm)
    scored = included.with_promise
    of_included = coefficient(scored, 1)
    if of_included is None or len(scored) < len(included):
        return _without_lengths(included, excluded, alarm)
    first, words = _FirstRounds.from_participations(scored.first, alarm), _words(of_included)
    mixture = None if first is None else first.mixture_beyond(alarm)
    signal = _signal(of_included, mixture)
    error = of_included.standard_error
    is_full = mixture is None and of_included.ratio >= 1 - _AS_EXPECTED * error
    told, short = of_included.told, of_included.ratio - LESS * error
    canary_check = CanaryCheck(
        "not_arrived",
        told(of_included.ratio),
        words,
        signal=told(signal),
        length=1.0 if is_full else told(_length(short, mixture)),
    )
    if cause := _excluded_cause(excluded, of_included, alarm):
        return dataclasses.replace(canary_check, reason=cause, fault=cause)
    if first is not None and (cause := first.cause(shifted)):
        norm = f"{_share(first.measured)} × the expected norm"
        fault = f"canaries have {norm} in the aggregates: {cause}"
        canary_check = dataclasses.replace(
            canary_check,
            reason=f"{words}: {cause}",
            fault=fault,
            missing=first.missing,
            is_longer=first.is_longer,
        )
        if not first.is_bearable:
            return canary_check
    elif later := _later_fault(scored):
        canary_check = dataclasses.replace(
            canary_check, reason=f"{words}, but {later}", fault=later
        )
    if doubt := _doubt(first, excluded, shifted):
        return dataclasses.replace(
            canary_check, state="cannot_tell", reason=f"{words}, but {doubt}"
        )
    absent = coefficient(excluded.with_promise, 0)
    is_wide = absent is not None and absent.deviation(ARRIVED) > _WIDE
    if signal >= LEAST_SIGNAL and not is_wide:
        return dataclasses.replace(canary_check, state="arrived")
    unclear = canary_check.reason
    if canary_check.fault is None:
        unclear = _unclear(of_included, absent)
    return dataclasses.replace(canary_check, state="cannot_tell", reason=unclear)


def _later_fault(included: CanaryParticipations) -> str | None:
    """A clause on canaries that are lost after their first round; None without such a fault."""
    later = coefficient(included.where(~included.is_first), 1)
    if later is None or later.ratio + later.deviation(ALARM) >= 1 - REACTION:
        return None
    return (
        f"in the rounds after their first, canaries have only {_share(later)} × the expected norm "
        f"in the aggregates: they are lost in those rounds ({LOST}), or undone by clients"
    )


def _signal(measured: Coefficient, mixture: Mixture | None) -> float:
    """The lower end of the confidence interval for canaries' norm over a client's."""
    lower = measured.ratio - measured.skew * -math.log(SIGNAL_LEVEL)
    return _length(lower - _SIGNAL_ERRORS * measured.standard_error, mixture)


def _length(ratio: float, mixture: Mixture | None) -> float:
    """A norm over a client's, in [0, 1]: a ratio above 1 means that the expected norm is wrong.

    If the canaries that arrive are longer than a client, their norm takes the place of a client's.
    """
    longer = 1.0 if mixture is None else max(mixture.share, 1.0)
    return float(np.clip(ratio / longer, 0, 1))


@dataclass(frozen=True, eq=False)
class _FirstRounds:
    """Whether included canaries have the expected norm, up to chance, in their first rounds."""

    participations: CanaryParticipations
    measured: Coefficient  # the canaries' share in aggregates
    # the best-fitting mixture of lost and whole canaries; None if tails are not known
    mixture: Mixture | None
    alarm: float  # nats of evidence for a fault

    @classmethod
    def from_participations(
        cls, participations: CanaryParticipations, alarm: float
    ) -> "_FirstRounds | None":
        """The measured first rounds; None without participations."""
        measured = coefficient(participations, 1)
        if measured is None:
            return None
        mixture = uneven(participations, measured) if participations.knows_tails else None
        return cls(participations, measured, mixture, alarm)

    def mixture_beyond(self, log_e_value: float) -> Mixture | None:
        """The mixture, if the logarithm of its e-value exceeds a threshold."""
        mixture = self.mixture
        return mixture if mixture is not None and mixture.log_e_value > log_e_value else None

    @property
    def is_faulty(self) -> bool:
        """Whether canaries' norms differ from a client's, or from each other, beyond chance."""
        is_uneven = self.mixture_beyond(self.alarm) is not None
        return is_uneven or self.measured.differs_by(1, NO_FAULT, self.alarm)

    @property
    def is_longer(self) -> bool:
        """Whether all canaries, or some of the canaries, are longer than a client may be."""
        mixture = self.mixture_beyond(self.alarm)
        if mixture is not None:
            return mixture.share > 1 + LEFT_OVER
        return self.measured.ratio > 1 + NO_FAULT + self.measured.deviation(self.alarm)

    @property
    def is_bearable(self) -> bool:
        """True if the loss of signal is known and small enough to correct for."""
        signal = _signal(self.measured, self.mixture_beyond(self.alarm))
        return not self.is_longer and signal >= LEAST_SIGNAL

    @functools.cached_property
    def missing(self) -> Missing | None:
        """How the shortfall arises, if the likelihoods of the two explanations differ clearly."""
        if not self.participations.knows_tails or not 0 < self.measured.ratio < 1:
            return None
        leaning = log_ratio_lost_or_shorter(self.participations, self.measured)
        if abs(leaning) <= _LEANING:
            return None
        return "lost" if leaning > 0 else "shorter"

    def cause(self, shifted: Mapping[int, CanaryParticipations]) -> str | None:
        """The likely cause of a deviation, as a clause; None without a deviation."""
        if not self.is_faulty:
            return None
        measured, mixture = self.measured, self.mixture_beyond(self.alarm)
        if measured.ratio < -measured.deviation(self.alarm):
            return "the aggregate has the wrong sign; it must point where the model moves"
        if not self.is_bearable and (elsewhere := self._elsewhere(shifted)):
            return elsewhere
        if mixture is not None:
            return f"{_in_part(mixture)} ({LOST})"
        if measured.ratio > 1:
            return f"they are longer than a client's update may be ({_why_longer(measured)})"
        return self._shortfall()

    def _elsewhere(self, shifted: Mapping[int, CanaryParticipations]) -> str | None:
        """A clause on canaries in the wrong rounds; None without such a fault."""
        for shift, others in shifted.items():
            other = coefficient(others.with_promise, 0)
            if other is not None and _is_about_one(other):
                way = "later" if shift > 0 else "earlier"
                return (
                    f"they appear {abs(shift)} round {way} than stated; rounds are counted from 1"
                )
        return None

    def _shortfall(self) -> str:
        """A clause that guesses whether all canaries are shorter or some are lost."""
        if self.measured.ratio <= self.measured.deviation(ARRIVED):
            return f"they are missing ({_GONE})"
        if self.missing == "lost":
            share = 1 - self.measured.told(self.measured.ratio)
            return f"it looks as if about {100 * share:.2g} % were lost ({LOST})"
        if self.missing == "shorter":
            return f"it looks as if all of them were shorter ({_SHORTER})"
        return f"all of them are shorter ({_SHORTER}), or a part is lost ({LOST})"


_MOST_TENSORS = 30.0
"""Roughly the square root of a large model's number of tensors."""


def _why_longer(measured: Coefficient) -> str:
    """Possible causes of canaries this much longer than a client, the likeliest first.

    If each of n tensors is clipped to the clip norm, a long canary has norm √n clip norms, and its
    projection on its own direction is between 1 and √n.
    """
    times, causes = round(measured.ratio), []
    if 1 < times < 10 and measured.is_within(times, LEFT_OVER, ARRIVED):
        causes.append("sent twice" if times == 2 else f"sent {times} times")
    if measured.ratio < _MOST_TENSORS:
        causes.append("each tensor clipped by itself, which lets n tensors be √n clip norms long")
    return ", ".join((*causes, "not clipped, or another denominator"))


def _excluded_cause(
    excluded: CanaryParticipations, included: Coefficient, alarm: float
) -> str | None:
    """A clause on excluded canaries that were sent; None without evidence of that.

    Canaries that are not sent are independent of all aggregates: anything beyond chance is a fault.
    """
    absent = _sent(excluded, alarm)
    if absent is None:
        return None
    cause = (
        "some or all canaries participate whatever their coin says"
        if included.ratio > absent.ratio / 2
        else "the coins are inverted, or of another pool"
    )
    return (
        f"in the aggregates of their rounds, excluded canaries, which send nothing, have "
        f"{_share(absent)} × the expected norm, and included ones {_share(included)} ×: {cause}"
    )


def _sent(excluded: CanaryParticipations, nats: float) -> Coefficient | None:
    """The share of excluded canaries in aggregates; None unless more than chance explains it."""
    participations = excluded.with_promise
    absent = coefficient(participations, 0)
    if absent is None or absent.differs_by(0, 0, nats):
        return absent
    is_mixed = participations.knows_tails and excluded_log_e_value(participations.first) > nats
    return absent if is_mixed else None


def _doubt(
    first: _FirstRounds | None,
    excluded: CanaryParticipations,
    shifted: Mapping[int, CanaryParticipations],
) -> str | None:
    """The reason why the check cannot pass, other than the canaries' share; None without one."""
    if left_over := _left_over(shifted):
        return left_over
    if first is not None and (mixture := first.mixture_beyond(ARRIVED)) and not first.is_faulty:
        return f"unevenly, as if {_in_part(mixture)}"
    if absent := _sent(excluded, ARRIVED):
        return f"excluded ones, which send nothing, have {_share(absent)} × the expected norm"
    return None


def _in_part(mixture: Mixture) -> str:
    return (
        f"about {100 * (1 - mixture.arriving):.2g} % of them are lost, and the others have "
        f"{mixture.share:.2g} × the expected norm"
    )


def _left_over(shifted: Mapping[int, CanaryParticipations]) -> str | None:
    """A clause on canaries that are still in the next round's aggregate; None without evidence."""
    if 1 not in shifted:
        return None
    after = coefficient(shifted[1].with_promise, 0)
    if after is None or after.ratio <= LEFT_OVER + after.deviation(ALARM):
        return None
    return (
        f"still {_share(after)} × the expected norm in the aggregates of the next round: the model "
        "or an optimizer's momentum is scored, not the aggregate of one round"
    )


def _words(measured: Coefficient) -> str:
    return (
        f"in the aggregates of their rounds, included canaries have {_share(measured)} × the "
        f"expected norm, clip norm / denominator ({measured.count:,} participations)"
    )


def _share(measured: Coefficient) -> str:
    return f"{measured.told(measured.ratio):.3g} ± {measured.told_error:.2g}"


def _is_about_one(measured: Coefficient) -> bool:
    """Whether canaries clearly are in aggregates, at a share consistent with 1."""
    return measured.ratio > measured.deviation(ARRIVED) and not measured.differs_by(1, 0.5, ARRIVED)


def _unclear(included: Coefficient, excluded: Coefficient | None) -> str:
    """Why the check is inconclusive without a sign of a fault, and how much data would suffice."""
    measured = {"": included, " of excluded canaries": excluded}
    enough = {
        whose: math.ceil(each.count * (each.told_error / _WANTED_ERROR) ** 2)
        for whose, each in measured.items()
        if each is not None and each.standard_error > _WANTED_ERROR
    }
    if not enough:
        return f"{_words(included)}, too far from 1 for the check to pass"
    return (
        f"{_words(included)}; the noise is too large to tell, and about "
        f"{_rounded(max(enough.values()))} participations{min(enough)} would be enough"
    )


def _rounded(number: int) -> str:
    unit = int(10 ** max(len(str(number)) - 2, 0))
    return f"{-(-number // unit) * unit:,}"


_PROMISE = "the expected norm in each round (canary_length, or round_lengths.npy)"


def _without_lengths(
    included: CanaryParticipations, excluded: CanaryParticipations, alarm: float
) -> CanaryCheck:
    """The check without expected norms: whether canaries score evenly above chance."""
    unknown = "the expected norm is unknown"
    scored = coefficient(included.standardized, 0)
    if scored is None:
        return CanaryCheck("cannot_tell", None, "no round of an included canary was seen")
    words = f"in their rounds included canaries score {_deviations(scored)}"
    of_excluded = coefficient(excluded.standardized, 0)
    if of_excluded is not None and of_excluded.differs_by(0, 0, alarm):
        reason = (
            f"{words}, and excluded ones, which send nothing, "
            f"{_deviations(of_excluded)}: the coins or the rounds are not those of the training"
        )
        return CanaryCheck("not_arrived", None, reason, fault=reason)
    if scored.ratio < -scored.deviation(alarm):
        reason = f"{words}: the aggregate has the wrong sign; it must point where the model moves"
        return CanaryCheck("not_arrived", None, reason, fault=reason)
    if scored.ratio < scored.deviation(ARRIVED):
        reason = f"{words}, no more than by chance, and {unknown}"
        return CanaryCheck("cannot_tell", None, reason)
    if included.knows_tails and _is_uneven(included.first):
        fault = f"{words}, but unevenly within rounds: some canaries may be lost ({LOST})"
        return CanaryCheck("cannot_tell", None, f"{fault}, and {unknown}", fault=fault)
    above = f"{_deviations(scored)} above chance"
    reason = f"scores show that canaries reached the aggregates, not at what norm ({above})"
    return CanaryCheck("arrived", None, reason, _PROMISE)


def _deviations(scored: Coefficient) -> str:
    return f"{_share(scored)} standard deviations"


def _is_uneven(participations: CanaryParticipations) -> bool:
    """Whether canaries of a round differ by more than chance, at the level of alarms.

    The norm of canaries may differ between rounds, but not within a round.
    """
    _, of_round, counts = np.unique(participations.rounds, return_inverse=True, return_counts=True)
    means = np.bincount(of_round, participations.cosines) / counts
    crowd = np.minimum((1 + participations.others) * means[of_round] ** 2, 1)
    squares = participations.dim * (participations.cosines - means[of_round]) ** 2 / (1 + crowd)
    freedom = len(participations) - len(counts)
    return freedom > 0 and bool(special.chdtrc(freedom, squares.sum()) < CANARY_CHECK_FALSE_ALARM)
