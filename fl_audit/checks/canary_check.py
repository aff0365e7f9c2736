"""The canary check: whether included canaries reached the aggregates of their rounds, and how long.

Nothing follows from scores at chance if no canary reached the model: an audit that is to reassure
has to show that it could have seen something. docs/arrival.md describes the check,
`canary_arrival` makes it.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.json_records import UNWRITTEN

# Canaries in rounds: projections of aggregates on canaries, and their expected values.


NO_FAULT = 0.02
"""The deviation from a client's length that is never called a fault: numbers are rounded."""

ARRIVAL_FALSE_ALARM = 1e-6
"""How likely canaries that arrive are said to be lost, or a fault is named, at most."""

ARRIVED_LEVEL = 1e-4
"""How likely scores alone, or without any promise, are said to show canaries that did not arrive,
and how likely excluded canaries raise a doubt that did nothing."""

ALARM = math.log(8 / ARRIVAL_FALSE_ALARM)
"""Nats of evidence for one of the alarms: included canaries in first rounds are shorter, longer or
uneven, or shorter in later rounds; excluded ones are in aggregates, on either side or in part."""

ARRIVED = float(special.ndtri(ARRIVED_LEVEL)) ** 2 / 2
"""Nats of as many standard errors as a Gaussian law has at that level."""

LOST = "dropped, zeroed, late, or out of memory"
"""Ways in which a part of the canaries may be lost."""


@dataclass(frozen=True)
class Arrival:
    """What became of the included canaries.

    Attributes:
      state: Whether they arrived in the aggregates as the mechanism promises, did not, or neither
        can be told.
      ratio: How long they were in the aggregates, over what the mechanism lets a client send (clip
        norm over denominator); None where that is not known.
      reason: The reason for the state, as a clause.
      lacks: What would have to be known to tell that no part of them is lost, in words; None where
        that is told, or cannot be.
      fault: A significant shortfall or excess with its likely causes, as a clause; None where there
        is none. A verdict names it in its first line.
      signal: The share of a client's full signal that scored included canaries show on average, at
        the lower end of its one-sided 99.9 % confidence interval; None where it is not known. A
        verdict's power is simulated with it.
      num_scored: The number of included canaries of which a round was scored in which they took
        part; None where rounds are not known.
      num_included: The number of included canaries; None where rounds are not known.
    """

    state: Literal["arrived", "not_arrived", "cannot_tell"]
    ratio: float | None
    reason: str
    lacks: str | None = dataclasses.field(default=None, metadata=UNWRITTEN)
    fault: str | None = None
    signal: float | None = None
    num_scored: int | None = None
    num_included: int | None = None


@dataclass(frozen=True, eq=False)
class Presentations:
    """Canaries in rounds of theirs, an entry for each canary and round.

    The unit of length is what the mechanism lets a client send: clip norm over denominator. An
    aggregate Δ to which a canary adds a of these along its unit vector c is Δ = a c + R, and R is
    independent of c in the canary's first round. So ⟨c, Δ⟩ − a has mean 0 and, given |R|, variance
    |R|²/dim in any dimension, for c of random signs or of uniform direction.

    Attributes:
      canaries: The canary of each entry, int64 of shape (n,).
      rounds: The round of each entry, counted from 0, int64 of shape (n,).
      cosines: The cosine of the canary with the round's aggregate, float64 of shape (n,).
      aggregate_lengths: The length of that aggregate, float64 of shape (n,); NaN where not known.
      client_lengths: The length that the mechanism lets a client have in it, float64 of shape (n,);
        NaN where not known.
      others: The number of other included canaries in the round, float64 of shape (n,).
      is_first: Whether the round is the canary's first, before which the model cannot depend on it,
        bool of shape (n,).
      dim: The length of the vectors.
      knows_tails: Whether a canary's inner product with any vector is sub-Gaussian, as for canaries
        of random signs or of uniform direction, but not of one coordinate.
    """

    canaries: IndexArray
    rounds: IndexArray
    cosines: FloatArray
    aggregate_lengths: FloatArray
    client_lengths: FloatArray
    others: FloatArray
    is_first: npt.NDArray[np.bool_]
    dim: int
    knows_tails: bool

    def __len__(self) -> int:
        """The number of presentations, n."""
        return len(self.cosines)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Presentations":
        """Some of the presentations."""
        return dataclasses.replace(
            self,
            canaries=self.canaries[mask],
            rounds=self.rounds[mask],
            cosines=self.cosines[mask],
            aggregate_lengths=self.aggregate_lengths[mask],
            client_lengths=self.client_lengths[mask],
            others=self.others[mask],
            is_first=self.is_first[mask],
        )

    @property
    def first(self) -> "Presentations":
        """The presentations in canaries' first rounds."""
        return self.where(self.is_first)

    @property
    def with_promise(self) -> "Presentations":
        """The presentations of which the aggregate's length and a client's are known."""
        lengths = self.aggregate_lengths, self.client_lengths
        return self.where(np.isfinite(lengths[0]) & np.isfinite(lengths[1]))

    @property
    def as_cosines(self) -> "Presentations":
        """The presentations, with the aggregate's length as the unit: `along` is the cosine."""
        ones = np.ones(len(self))
        return dataclasses.replace(self, aggregate_lengths=ones, client_lengths=ones)

    @property
    def along(self) -> FloatArray:
        """The aggregate along the canary, over a client's length, float64 of shape (n,)."""
        return np.asarray(self.cosines * self.aggregate_lengths / self.client_lengths)

    def rest(self, share: float) -> FloatArray:
        """|R|² over a client's squared length, if canaries arrive at a share of that length.

        It is no less than would hide NO_FAULT: lengths and cosines are rounded.
        """
        aggregate = (self.aggregate_lengths / self.client_lengths) ** 2
        rest = aggregate - 2 * share * self.along + share**2
        return np.maximum(rest, NO_FAULT**2 * self.dim)


@dataclass(frozen=True)
class Coefficient:
    """The share of a client's length at which canaries are in aggregates, on average.

    Attributes:
      ratio: The share: a weighted mean of the aggregates along the canaries.
      standard_error: Its standard error, from the known variance.
      skew: What Bernstein's inequality adds to the deviation for each nat, as canaries that share a
        round are in each other's way.
      count: The number of presentations.
    """

    ratio: float
    standard_error: float
    skew: float
    count: int

    def deviation(self, nats: float) -> float:
        """The deviation that chance exceeds with probability e^-nats on a side, at most."""
        return self.standard_error * math.sqrt(2 * nats) + self.skew * nats

    def differs_by(self, expected: float, margin: float, nats: float) -> bool:
        """Whether it is farther from a value than a margin and chance together."""
        return abs(self.ratio - expected) > margin + self.deviation(nats)

    def is_within(self, expected: float, margin: float, nats: float) -> bool:
        """Whether it is nearer to a value than a margin, with room for chance."""
        return abs(self.ratio - expected) + self.deviation(nats) <= margin


def coefficient(shown: Presentations, expected: float) -> Coefficient | None:
    """The share of a client's length at which canaries are in aggregates; None where none are.

    Its mean is exactly right in any dimension if the share is the expected one: weights depend on
    the rest of the aggregate alone, given which the canary's part of it has mean 0.

    Where tails are not known, or canaries come several times and rounds may be alike, the error is
    no less than that by the sums of canaries (Efron 1969: a sum of independent symmetric terms over
    the root of the sum of their squares is sub-Gaussian, whatever their tails).

    Args:
      shown: The presentations, whose promises are known.
      expected: The share that a correct mechanism has: 1 for included canaries, else 0.
    """
    if len(shown) == 0:
        return None
    rest = shown.rest(expected)
    # The median keeps one aggregate that a canary happens to fill from deciding alone.
    weights = 1 / (rest + np.median(rest))
    weights /= weights.sum()
    ratio = float(np.sum(weights * shown.along))
    crowd = shown.others if expected else np.zeros(len(shown))
    variance = float(np.sum(weights**2 * rest * (1 + np.minimum(crowd / rest, 1)))) / shown.dim
    sums = np.bincount(
        np.unique(shown.canaries, return_inverse=True)[1], weights * (shown.along - expected)
    )
    if not shown.knows_tails or len(sums) < len(shown):
        variance = max(variance, float(np.sum(sums**2)))
    return Coefficient(
        ratio=ratio,
        standard_error=math.sqrt(variance),
        skew=float(np.max(2 * crowd * weights)) / shown.dim,
        count=len(shown),
    )


# Whether canaries arrive in part: evidence for mixtures of lost and whole ones.
#
# An e-value is a random number with mean 1 at most where the null hypothesis holds, so that it
# exceeds 1/p with probability p at most (Markov). Here it is a likelihood ratio of Gaussian
# distributions. A canary's inner product with a vector that is independent of it is sub-Gaussian
# with the variance of that distribution (Hoeffding 1963 for random signs), so that it is an
# e-value in any dimension.


_PARTS = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Parts of the excluded canaries that may take part."""

_KEPT = (0.1, 0.3, 0.5, 0.7, 0.9)
_SHARES = (0.5, 0.75, 1.0, 1.4, 2.0, 4.0)
"""Parts of the included canaries that may be kept, and shares of a client's length that they are
then long."""

_ERRORS, _POINTS = 6.0, 25
"""Standard errors around the mean share, and points in them, that the null is tried for."""

_STEPS = 50


@dataclass(frozen=True)
class Mixture:
    """Canaries of which a part is lost.

    Attributes:
      kept: The part that arrives.
      share: The share of a client's length at which it does.
      nats: The logarithm of the e-value against canaries that all arrive alike.
    """

    kept: float
    share: float
    nats: float


def excluded_nats(excluded: Presentations) -> float:
    """The logarithm of the e-value for some of the excluded canaries having been sent.

    Aggregates are independent of canaries that were not sent, and these of each other.

    Args:
      excluded: The first presentations of canaries with sub-Gaussian inner products.
    """
    ratios = _log_ratios(excluded, 0.0, 1.0)
    logs = [float(np.sum(np.logaddexp(*_parted(part, ratios, 0.0)))) for part in _PARTS]
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def uneven(included: Presentations, found: Coefficient) -> Mixture:
    """The mixture of lost and whole canaries that fits best, and the evidence for it.

    The evidence is the least over all shares, near the mean one, at which all canaries might be
    alike (universal inference, Wasserman et al. 2020). Canaries that share a round push each other
    in one direction; their variance is raised by as much.

    Args:
      included: The first presentations of canaries with sub-Gaussian inner products.
      found: The mean share of them.
    """
    width = _ERRORS * found.standard_error
    alike = np.append(np.linspace(found.ratio - width, found.ratio + width, _POINTS), 1.0)
    kept, share = _best(included, found.ratio)
    return Mixture(kept, share, min(_nats(included, float(null)) for null in alike))


def looks_lost(included: Presentations, found: Coefficient) -> float:
    """The log-likelihood of canaries that are whole or lost, less that of all being shorter."""
    whole, lost = (_log_ratios(included, found.ratio, share) for share in (1.0, 0.0))
    return float(np.sum(np.logaddexp(*_parted(min(found.ratio, 1.0), whole, lost))))


def _nats(included: Presentations, null: float) -> float:
    """The logarithm of the e-value against a share that all canaries have alike."""
    lost = _log_ratios(included, null, 0.0)
    logs = [
        float(np.sum(np.logaddexp(*_parted(kept, ratios, lost))))
        for ratios in (_log_ratios(included, null, share) for share in _SHARES)
        for kept in _KEPT
    ]
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def _best(included: Presentations, null: float) -> tuple[float, float]:
    """The most likely part that is kept, and its share, by expectation maximisation."""
    weights = 1 / included.rest(null)
    lost = _log_ratios(included, null, 0.0)
    fits = []
    for kept, share in itertools.product(_KEPT, _SHARES):
        ratios = _log_ratios(included, null, share)
        fits.append((float(np.sum(np.logaddexp(*_parted(kept, ratios, lost)))), kept, share))
    _, kept, share = max(fits)
    for _ in range(_STEPS):
        whole, gone = _parted(kept, _log_ratios(included, null, share), lost)
        is_kept = np.exp(whole - np.logaddexp(whole, gone))
        of_kept = is_kept * weights
        if np.sum(of_kept) == 0:
            break  # every canary is lost beyond doubt, and none is left to move the share
        kept = float(np.clip(np.mean(is_kept), 1e-6, 1 - 1e-6))
        share = float(np.sum(of_kept * included.along) / np.sum(of_kept))
    return kept, share


def _log_ratios(shown: Presentations, null: float, share: float) -> FloatArray:
    """The log-likelihood ratios of a share against another; their exponentials' mean is 1."""
    rest = shown.rest(null)
    crowd = np.minimum(shown.others / rest, 1.0) if null else np.zeros(len(shown))
    away = share - null
    return np.asarray(shown.dim / rest * (away * (shown.along - null) - (1 + crowd) * away**2 / 2))


def _parted(
    part: float, first: FloatArray, second: FloatArray | float
) -> tuple[FloatArray, FloatArray | float]:
    """Logarithms of the two terms of a mixture."""
    rest = math.log1p(-part) if part < 1 else -math.inf
    return math.log(part) + first, rest + second


# The outcome, in words and numbers.


SIGNAL_LEVEL = 1e-3
"""How likely the signal of canaries is said to be larger than it is."""

LEAST_SIGNAL = 0.5
"""The share of a client's signal that canaries that arrive show at least, at that level. A verdict
counts with what they show, so that less would be as honest; but then most of them may be lost."""

REACTION = 0.5
"""The shortfall in later rounds of canaries that is never called a fault: the model has learnt them
by then, and clients undo a part of it (6 % at most in runs that were measured, docs/arrival.md)."""

LEFT_OVER = 0.25
"""The share of canaries in the round after theirs that is no sign of momentum, and the excess of a
part of them that is none of another scale."""

_SIGNAL_ERRORS = -float(special.ndtri(SIGNAL_LEVEL))

_WIDE = 0.5
"""The deviation by chance beyond which excluded canaries tell nothing."""

_LEANING = 3.0
"""Nats by which one explanation has to be likelier than the other to be named alone."""

_SHORTER = (
    "sent below the clip norm, clipped twice, weighted, compressed, frozen in part, or another "
    "denominator"
)
_LONGER = "sent twice, not clipped, or another denominator"
_GONE = "zeroed, dropped, of weight 0, or of another seed, order or round than is scored"

_WANTED_ERROR = 0.11
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
    promised = included.with_promise
    of_included = coefficient(promised, 1)
    if of_included is None or len(promised) < len(included):
        return without_lengths(included, excluded)
    first, found = _FirstRounds.of(promised.first), _words(of_included)
    signal = _signal(of_included, None if first is None else first.mixture_beyond(ALARM))
    arrival = Arrival("not_arrived", of_included.ratio, found, signal=signal)
    if cause := _excluded_cause(excluded, of_included):
        return dataclasses.replace(arrival, reason=cause, fault=cause)
    if first is not None and (cause := first.cause(shifted)):
        fault = f"{_fault_words(first.found)}: {cause}"
        arrival = dataclasses.replace(arrival, reason=f"{found}: {cause}", fault=fault)
        if not first.is_bearable:
            return arrival
    elif later := _later_fault(promised):
        arrival = dataclasses.replace(arrival, reason=f"{found}, but {later}", fault=later)
    if doubt := _doubt(first, excluded, shifted):
        return dataclasses.replace(arrival, state="cannot_tell", reason=f"{found}, but {doubt}")
    if signal >= LEAST_SIGNAL:
        return dataclasses.replace(arrival, state="arrived")
    unclear = arrival.reason if arrival.fault is not None else _unclear(of_included)
    return dataclasses.replace(arrival, state="cannot_tell", reason=unclear)


def _later_fault(included: Presentations) -> str | None:
    """A clause on canaries that are lost after their first round; None where they are not."""
    later = coefficient(included.where(~included.is_first), 1)
    if later is None or later.ratio + later.deviation(ALARM) >= 1 - REACTION:
        return None
    return (
        f"canaries are {_share(later)} times as long in the aggregates as a client may be in the "
        f"rounds after their first: lost there ({LOST}), or undone by clients"
    )


def _signal(found: Coefficient, mixture: Mixture | None) -> float:
    """The lower end of the share of a client's signal that canaries show.

    Lengths beyond that of a client say that the promise is of another scale. So they count as one.
    """
    lower = found.ratio - found.skew * -math.log(SIGNAL_LEVEL)
    lower -= _SIGNAL_ERRORS * found.standard_error
    longer = 1.0 if mixture is None else max(mixture.share, 1.0)
    return float(np.clip(lower / longer, 0, 1))


@dataclass(frozen=True, eq=False)
class _FirstRounds:
    """Included canaries in their first rounds, which are as promised by chance alone.

    Attributes:
      shown: Their presentations.
      found: The share at which they are in aggregates.
      mixture: The mixture of lost and whole ones that fits best; None where tails are not known.
    """

    shown: Presentations
    found: Coefficient
    mixture: Mixture | None

    @classmethod
    def of(cls, shown: Presentations) -> "_FirstRounds | None":
        """Measures them; None where none of their first rounds was scored."""
        found = coefficient(shown, 1)
        if found is None:
            return None
        return cls(shown, found, uneven(shown, found) if shown.knows_tails else None)

    def mixture_beyond(self, nats: float) -> Mixture | None:
        """The mixture, where the evidence for it is beyond some nats."""
        return self.mixture if self.mixture is not None and self.mixture.nats > nats else None

    @property
    def is_faulty(self) -> bool:
        """Whether they are not as long as a client, or not all alike, beyond chance."""
        is_uneven = self.mixture_beyond(ALARM) is not None
        return is_uneven or self.found.differs_by(1, NO_FAULT, ALARM)

    @property
    def is_bearable(self) -> bool:
        """Whether they arrive for all that, with a signal that is smaller by a known part."""
        mixture = self.mixture_beyond(ALARM)
        longest = self.found.ratio if mixture is None else mixture.share
        margin = NO_FAULT + self.found.deviation(ALARM) if mixture is None else LEFT_OVER
        return longest <= 1 + margin and _signal(self.found, mixture) >= LEAST_SIGNAL

    def cause(self, shifted: Mapping[int, Presentations]) -> str | None:
        """The likely cause of a deviation, as a clause; None where there is none."""
        if not self.is_faulty:
            return None
        found, mixture = self.found, self.mixture_beyond(ALARM)
        if found.ratio < -found.deviation(ALARM):
            return "the aggregate has the wrong sign; it must be how the model moves"
        if not self.is_bearable and (elsewhere := self._elsewhere(shifted)):
            return elsewhere
        if mixture is not None:
            return f"{_in_part(mixture)} ({LOST})"
        if found.ratio > 1:
            return f"they are longer than a client may be ({_LONGER})"
        return self._shortfall()

    def _elsewhere(self, shifted: Mapping[int, Presentations]) -> str | None:
        """A clause on canaries that are in other rounds than theirs; None where they are not."""
        for shift, others in shifted.items():
            other = coefficient(others.with_promise, 0)
            if other is not None and _is_about_one(other):
                way = "later" if shift > 0 else "earlier"
                return f"they are in aggregates {abs(shift)} round {way}; rounds are counted from 1"
        return None

    def _shortfall(self) -> str:
        """A guess at whether all of them are shorter, or a part of them is lost."""
        if self.found.ratio <= self.found.deviation(ARRIVED):
            return f"they are missing ({_GONE})"
        leaning = looks_lost(self.shown, self.found) if self.shown.knows_tails else 0.0
        if leaning > _LEANING:
            return f"it looks as if about {100 * (1 - self.found.ratio):.2g} % were lost ({LOST})"
        if leaning < -_LEANING:
            return f"it looks as if all of them were shorter ({_SHORTER})"
        return f"all of them are shorter ({_SHORTER}), or a part is lost ({LOST})"


def _excluded_cause(excluded: Presentations, included: Coefficient) -> str | None:
    """A clause on excluded canaries that were sent; None where what they show is chance.

    They are independent of every aggregate, so that anything beyond chance is a fault.
    """
    shown = excluded.with_promise
    found = coefficient(shown, 0)
    if found is None:
        return None
    is_mixed = shown.knows_tails and excluded_nats(shown.first) > ALARM
    if not is_mixed and not found.differs_by(0, 0, ALARM):
        return None
    who = (
        "canaries take part whatever their coin says, or some do"
        if included.ratio > found.ratio / 2
        else "the coins are inverted, or of another pool"
    )
    return (
        f"in the aggregates of their rounds, excluded canaries, which send nothing, have "
        f"{_share(found)} × the expected norm, and included ones {_share(included)} ×: {who}"
    )


def _doubt(
    first: _FirstRounds | None, excluded: Presentations, shifted: Mapping[int, Presentations]
) -> str | None:
    """Why it cannot be told that canaries arrived, beside their share; None where it can."""
    if left_over := _left_over(shifted):
        return left_over
    if first is not None and (mixture := first.mixture_beyond(ARRIVED)) and not first.is_faulty:
        return f"unevenly, as if {_in_part(mixture)}"
    shown = excluded.with_promise
    found = coefficient(shown, 0)
    if found is not None and (
        found.differs_by(0, 0, ARRIVED)
        or found.deviation(ARRIVED) > _WIDE
        or (shown.knows_tails and excluded_nats(shown.first) > ARRIVED)
    ):
        return f"excluded ones, which send nothing, at {_share(found)}"
    return None


def _in_part(mixture: Mixture) -> str:
    return (
        f"about {100 * (1 - mixture.kept):.2g} % of them are lost, and the others have "
        f"{mixture.share:.2g} × the expected norm"
    )


def _left_over(shifted: Mapping[int, Presentations]) -> str | None:
    """A clause on canaries that are in the aggregate after their own, as no round leaves them."""
    if 1 not in shifted:
        return None
    after = coefficient(shifted[1].with_promise, 0)
    if after is None or after.ratio <= LEFT_OVER + after.deviation(ALARM):
        return None
    return (
        f"at {_share(after)} also in those of the round after: not a round's aggregate is scored, "
        "but the model, or an optimizer's momentum"
    )


def _words(found: Coefficient) -> str:
    return (
        f"in the aggregates of their rounds, included canaries have {_share(found)} × the expected "
        f"norm, clip norm / denominator ({found.count:,} presentations)"
    )


def _fault_words(found: Coefficient) -> str:
    return f"canaries have {_share(found)} × the expected norm in the aggregates"


def _share(found: Coefficient) -> str:
    return f"{found.ratio:.3g} ± {found.standard_error:.2g}"


def _is_about_one(found: Coefficient) -> bool:
    """Whether canaries clearly are there, at a share of the promise that may be all of it."""
    return found.ratio > found.deviation(ARRIVED) and not found.differs_by(1, 0.5, ARRIVED)


def _unclear(found: Coefficient) -> str:
    if found.standard_error > _WANTED_ERROR:
        enough = math.ceil(found.count * (found.standard_error / _WANTED_ERROR) ** 2)
        return (
            f"{_words(found)}; the noise is too large to tell, and about {_rounded(enough)} "
            "presentations would be enough"
        )
    return f"{_words(found)}, too far from 1 for the check to pass"


def _rounded(number: int) -> str:
    unit = int(10 ** max(len(str(number)) - 2, 0))
    return f"{-(-number // unit) * unit:,}"


_PROMISE = "the length of a client in each round (canary_length, or round_lengths.npy)"


def without_lengths(included: Presentations, excluded: Presentations) -> Arrival:
    """What became of them where no length is promised: whether they stand out, and evenly."""
    unknown = "what length the mechanism allows a client is not known"
    found = coefficient(included.as_cosines, 0)
    if found is None:
        return Arrival("cannot_tell", None, "no round of an included canary was seen")
    seen = f"in their rounds included canaries score {_deviations(found, included.dim)}"
    of_excluded = coefficient(excluded.as_cosines, 0)
    if of_excluded is not None and of_excluded.differs_by(0, 0, ALARM):
        reason = (
            f"{seen}, and excluded ones, which send nothing, "
            f"{_deviations(of_excluded, excluded.dim)}: the coins or the rounds are not those of "
            "the training"
        )
        return Arrival("not_arrived", None, reason, fault=reason)
    if found.ratio < -found.deviation(ALARM):
        reason = f"{seen}: the aggregate has the wrong sign; it must be how the model moves"
        return Arrival("not_arrived", None, reason, fault=reason)
    if found.ratio < found.deviation(ARRIVED):
        reason = f"{seen}, which chance does too, and {unknown}"
        return Arrival("cannot_tell", None, reason)
    if included.knows_tails and _is_uneven(included.first):
        fault = f"{seen}, but unevenly within rounds: some may be lost ({LOST})"
        return Arrival("cannot_tell", None, f"{fault}, and {unknown}", fault=fault)
    return Arrival("arrived", None, f"{seen} above chance; {unknown}", _PROMISE)


def _deviations(found: Coefficient, dim: int) -> str:
    root = math.sqrt(dim)
    return f"{root * found.ratio:.3g} ± {root * found.standard_error:.2g} standard deviations"


def _is_uneven(shown: Presentations) -> bool:
    """Whether canaries of a round differ by more than chance, at the level of alarms.

    All of them are of one length in a round, whatever it is, and of another in the next.
    """
    _, of_round, counts = np.unique(shown.rounds, return_inverse=True, return_counts=True)
    means = np.bincount(of_round, shown.cosines) / counts
    crowd = np.minimum((1 + shown.others) * means[of_round] ** 2, 1)
    squares = shown.dim * (shown.cosines - means[of_round]) ** 2 / (1 + crowd)
    freedom = len(shown) - len(counts)
    return freedom > 0 and bool(special.chdtrc(freedom, squares.sum()) < ARRIVAL_FALSE_ALARM)
