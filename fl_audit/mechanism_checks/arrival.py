"""Whether included canaries arrived in the aggregates of their rounds (docs/arrival.md).

Nothing follows from scores at chance if no canary reached the model: an audit that is to reassure
has to show that it could have seen something.
"""

import math
from collections.abc import Mapping

import numpy as np
from scipy import special

from fl_audit.mechanism_checks.presentations import (
    Arrival,
    Coefficient,
    Presentations,
    coefficient,
)

ARRIVAL_FALSE_ALARM = 1e-6
"""How likely canaries that arrive are said not to, at most."""

ARRIVED_LEVEL = 1e-4
"""How likely canaries are said to arrive of which less than half, or half as much again, does."""

NOT_TOLERATED = 0.25
"""The deviation from the promise that is never called a fault: rounds feed back on later ones."""

TOLERATED = 0.5
"""The deviation beyond which canaries are not said to have arrived."""

_ALARM_ERRORS = math.sqrt(2 * math.log(4 / ARRIVAL_FALSE_ALARM))
"""Standard errors such that exp(-t^2 / 2), Hoeffding's bound on the tail of a sum of cosines with
random signs, is a fourth of the false alarm: two sides for included and for excluded canaries."""

_ARRIVED_ERRORS = -float(special.ndtri(ARRIVED_LEVEL))

_PROMISE = "the length of a canary in each round (canary_length, or round_lengths.npy)"

_WANTED_ERROR = 0.09
"""A standard error with which canaries that arrive are mostly seen to."""


def canary_arrival(
    included: Presentations,
    excluded: Presentations,
    shifted: Mapping[int, Presentations],
) -> Arrival:
    """What became of included canaries, by their scores in their own rounds.

    Args:
      included: The presentations of the included canaries.
      excluded: The same of the excluded ones, in the rounds that they would have had.
      shifted: The included canaries in the rounds so many after their own, where they should not
        be; without those that are there too.
    """
    of_included = coefficient(included.with_promise)
    if of_included is None or not np.isfinite(included.promised).all():
        return _without_promise(included, excluded)
    of_excluded = coefficient(excluded.with_promise)
    first = coefficient(included.with_promise.first)
    found = _words(of_included)
    if of_excluded is not None and of_excluded.differs_by(0, NOT_TOLERATED, _ALARM_ERRORS):
        reason = (
            f"excluded canaries, which send nothing, are in the aggregates of their rounds at "
            f"{_share(of_excluded)} of the promised length, and included ones at "
            f"{_share(of_included)}: {_about_excluded(of_included)}"
        )
        return Arrival("not_arrived", of_included.ratio, reason)
    if first is not None and first.differs_by(1, NOT_TOLERATED, _ALARM_ERRORS):
        reason = f"{found}: {_what_is_wrong(first, shifted)}"
        return Arrival("not_arrived", of_included.ratio, reason)
    if is_left_over := _left_over(shifted):
        return Arrival("cannot_tell", of_included.ratio, f"{found}, but {is_left_over}")
    is_chance = of_excluded is None or of_excluded.is_within(0, TOLERATED, _ARRIVED_ERRORS)
    if of_included.is_within(1, TOLERATED, _ARRIVED_ERRORS) and is_chance:
        return Arrival("arrived", of_included.ratio, found)
    return Arrival("cannot_tell", of_included.ratio, _unclear(of_included))


def _left_over(shifted: Mapping[int, Presentations]) -> str | None:
    """A clause on canaries that are in the aggregate after their own, as no round leaves them."""
    after = coefficient(shifted[1].with_promise) if 1 in shifted else None
    if after is None or after.ratio <= NOT_TOLERATED + _ALARM_ERRORS * after.standard_error:
        return None
    return (
        f"at {_share(after)} also in those of the round after: not a round's aggregate is scored, "
        "but the model, or an optimizer's momentum"
    )


def _words(found: Coefficient) -> str:
    return (
        f"included canaries are in the aggregates of their rounds at {_share(found)} of the length "
        f"that clip norm and denominator promise ({found.count:,} presentations)"
    )


def _share(found: Coefficient) -> str:
    return f"{found.ratio:.3g} ± {found.standard_error:.2g}"


def _about_excluded(included: Coefficient) -> str:
    if included.ratio > 1 - TOLERATED:
        return "canaries take part whatever their coin says"
    return "the coins are inverted, or of another pool"


def _what_is_wrong(found: Coefficient, shifted: Mapping[int, Presentations]) -> str:
    """A guess at the fault, by the fingerprint that it leaves."""
    for shift, shown in shifted.items():
        other = coefficient(shown.with_promise)
        if other is not None and _is_about_one(other):
            way = "later" if shift > 0 else "earlier"
            return f"they are in aggregates {abs(shift)} round {way}; rounds are counted from 1"
    if found.ratio < -_ALARM_ERRORS * found.standard_error:
        return "the aggregate has the wrong sign; it must be how the model moves"
    if found.ratio > 1:
        return (
            "they count for more than a client may (sent twice, not clipped, or another "
            "denominator)"
        )
    if found.ratio > _ALARM_ERRORS * found.standard_error:
        return (
            "a part of them, or of their length, is lost (zeroed, dropped, or another denominator)"
        )
    return (
        "they do not arrive (zeroed, dropped, of weight 0, or of another seed, order or round than "
        "is scored)"
    )


def _is_about_one(found: Coefficient) -> bool:
    """Whether canaries clearly are there, at a share of the promise that may be all of it."""
    is_there = found.ratio > _ARRIVED_ERRORS * found.standard_error
    return is_there and not found.differs_by(1, TOLERATED, _ARRIVED_ERRORS)


def _unclear(found: Coefficient) -> str:
    if found.standard_error > _WANTED_ERROR:
        enough = math.ceil(found.count * (found.standard_error / _WANTED_ERROR) ** 2)
        return (
            f"{_words(found)}, and the noise hides whether they arrive; about {_rounded(enough)} "
            "presentations would show it"
        )
    return f"{_words(found)}, which is too far from 1 to say that they arrive as promised"


def _rounded(number: int) -> str:
    unit = int(10 ** max(len(str(number)) - 2, 0))
    return f"{-(-number // unit) * unit:,}"


def _without_promise(included: Presentations, excluded: Presentations) -> Arrival:
    """What became of them where no length is promised: whether they stand out, and evenly."""
    unknown = "what length the mechanism promises is not known"
    if len(included) == 0:
        return Arrival("cannot_tell", None, "no round of an included canary was seen")
    mean, error = _mean(included), 1 / math.sqrt(len(included))
    seen = f"in their rounds included canaries score {mean:.3g} ± {error:.2g} standard deviations"
    if len(excluded) and abs(_mean(excluded)) > _ALARM_ERRORS / math.sqrt(len(excluded)):
        reason = (
            f"{seen}, and excluded ones, which send nothing, {_mean(excluded):.3g}: the coins or "
            "the rounds are not those of the training"
        )
        return Arrival("not_arrived", None, reason)
    if mean < -_ALARM_ERRORS * error:
        reason = f"{seen}: the aggregate has the wrong sign; it must be how the model moves"
        return Arrival("not_arrived", None, reason)
    if mean < _ARRIVED_ERRORS * error:
        reason = f"{seen}, which chance does too, and {unknown}"
        return Arrival("cannot_tell", None, reason)
    if _is_uneven(included):
        reason = (
            f"{seen}, but unevenly (standard deviation {np.std(included.scores):.3g}, by chance "
            f"1): some may be dropped or zeroed, and {unknown}"
        )
        return Arrival("cannot_tell", None, reason)
    return Arrival("arrived", None, f"{seen} above chance; {unknown}", _PROMISE)


def _mean(shown: Presentations) -> float:
    return float(np.mean(shown.scores))


def _is_uneven(shown: Presentations) -> bool:
    """Whether the scores vary around their mean by more than chance, at the level of alarms."""
    squares = float(np.sum((shown.scores - np.mean(shown.scores)) ** 2))
    return len(shown) > 1 and bool(special.chdtrc(len(shown) - 1, squares) < ARRIVAL_FALSE_ALARM)
