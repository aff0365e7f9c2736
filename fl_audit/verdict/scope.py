"""The scope of an audit: the client represented by its canaries, and the statistics that count.

A claim that relies on sampling holds against attackers who do not know who participates in which
round. A lower bound against an attacker who knows the rounds does not contradict such a claim; it
is reported, and tests only the epsilon without amplification. A bound for a canary is also a bound
for a client who participates like the canary. So if clients may participate more often than
canaries, the bound can still contradict a claim about clients, but it cannot support the claim.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.accounting.release import Release
from fl_audit.accounting.sampling import UnknownRounds
from fl_audit.array_types import IntArray
from fl_audit.attacks.log_release import are_sampled_alike
from fl_audit.attacks.statistics import Statistic
from fl_audit.attacks.threat_models import STATISTICS, THREAT_MODELS
from fl_audit.formats.participation_files import Participation
from fl_audit.formats.run_record import RunRecord

_ROUNDING = 1e-9
"""The relative error of sums of squares by rounding."""

_BY_CHANCE = 1e-3
"""Rounds without an included canary count as left out if chance leaves so many without one with
less than this probability.
"""

KNOWS_ROUNDS = (
    "the attacker knows in which rounds a client is online, and a claim may count on the "
    "client’s sampling, which hides these rounds"
)

_MAY_KNOW_ROUNDS = (
    "it is not known whether the attacker of {statistic} knows in which rounds a client is online, "
    "and the claim counts on the client’s sampling, which hides these rounds"
)

SEES_UPLOADS = (
    "the attacker sees what a client uploads, and nothing says that the claim covers such attackers"
)

_DRAWN_OTHERWISE = (
    "the rounds of canaries are sampled from another distribution than those of clients: a bound "
    "for a canary may not hold for a client"
)

COVER_UPLOADS = 'if the claim is about uploads too, say "claim_covers_uploads": true in {file}'

SAY_SO = (
    'say in {file} whether the claim counts on sampling: if not ("claim_counts_on_sampling": '
    "false), own_rounds is tested; if so, state how clients are sampled and each round’s noise, "
    "and the claim’s parts are tested (docs/logs.md)"
)


@dataclass(frozen=True)
class Scope:
    """What the canaries of an audit can show about a claim for a client.

    Attributes:
      counts_on_sampling: Whether the claim relies on sampling; None if that is not stated, in which
        case it may.
      whom: The client represented by canaries, in words.
      unfit: Why the scores cannot test the claim: a bound for a canary is no bound for a client, or
        the claim does not cover the attacker of the statistic; None if they can.
      not_covered: A way in which a client may participate (number of rounds, weight) and no canary
        did, so that canaries cannot support the claim; None without any.
      left_out: A clause on rounds without canaries, which cannot support the claim either; None
        without any.
      covers_uploads: Whether the claim covers an attacker who sees single uploads.
      say_so: What to state so that statistics of known rounds count; None if nothing would help or
        they count already.
      say_so_of_uploads: The same for statistics of uploads.
    """

    counts_on_sampling: bool | None = False
    whom: str = "for a client that participates as canaries did"
    unfit: str | None = None
    not_covered: str | None = None
    left_out: str | None = None
    covers_uploads: bool = True
    say_so: str | None = None
    say_so_of_uploads: str | None = None

    def covers(self, statistic: str | None) -> bool:
        """Whether a statistic counts for the claim; True for scores without a name.

        The attacker of an unregistered statistic may know rounds, so that it does not count if the
        claim relies on sampling.
        """
        known = None if statistic is None else STATISTICS.get(statistic)
        if known is None:
            return statistic is None or self.counts_on_sampling is not True
        if sees_uploads(known):
            return self.covers_uploads
        return self.counts_on_sampling is False or is_about_sampling(known)


def is_about_sampling(statistic: Statistic) -> bool:
    """Whether a claim that relies on sampling also holds against a statistic's attacker."""
    model = THREAT_MODELS.get(statistic.threat_model)
    return model is None or model.is_about_sampling


def sees_uploads(statistic: Statistic) -> bool:
    """Whether a statistic's attacker sees single uploads."""
    model = THREAT_MODELS.get(statistic.threat_model)
    return model is not None and model.sees_uploads


def without_cover(scope: Scope, statistics: Iterable[str | None]) -> Scope:
    """The scope marked as unfit, as the claim does not cover the attackers of these statistics."""
    named = [name for name in statistics if name is not None]
    known = [STATISTICS[name] for name in named if name in STATISTICS]
    if any(map(sees_uploads, known)):
        say_so = scope.say_so_of_uploads or scope.say_so
        return dataclasses.replace(scope, unfit=SEES_UPLOADS, say_so=say_so)
    if all(map(is_about_sampling, known)):
        unknown = next(name for name in named if name not in STATISTICS)
        return dataclasses.replace(scope, unfit=_MAY_KNOW_ROUNDS.format(statistic=unknown))
    return dataclasses.replace(scope, unfit=KNOWS_ROUNDS)


def scope_of_run(
    record: RunRecord,
    rounds: Sequence[IntArray],
    included: npt.NDArray[np.bool_],
    *,
    covers_uploads: bool,
) -> Scope:
    canary, client = record.release.canary.participations, record.release.client.participations
    too_seldom = None
    if canary is not None and client is not None and canary < client:
        too_seldom = _too_seldom(canary, client)
    return Scope(
        counts_on_sampling=client is None,
        whom=_whom(_number_of_rounds(rounds, included)),
        unfit=why_unfit(record.release),
        not_covered=too_seldom,
        left_out=_rounds_left_out(rounds, included, range(record.rounds_done)),
        covers_uploads=covers_uploads,
    )


def scope_of_log(
    participation: Participation | None,
    rounds: Sequence[IntArray] | None,
    included: npt.NDArray[np.bool_],
    released: Sequence[int],
    file: str,
) -> Scope:
    """The scope of a log's canaries for a claim; rounds are counted from 0."""
    counts = None if participation is None else participation.claim_counts_on_sampling
    numbers = None if rounds is None else _number_of_rounds(rounds, included)
    client = None if participation is None else participation.client_rounds
    weight = None if participation is None else participation.client_weight
    is_drawn = participation is not None and participation.sampling != "none"
    unfit = not_covered = None
    if participation is not None and rounds is not None:
        unfit = _unlike_clients(participation, rounds, included)
        if is_drawn and counts and unfit is None:
            is_alike = are_sampled_alike(participation, rounds, released)
            unfit = None if is_alike else _DRAWN_OTHERWISE
    if numbers is not None and client is not None and max(numbers) < client:
        not_covered = _too_seldom(max(numbers), client)
    if not_covered is None and weight is not None and weight > 1:
        not_covered = f"a client may weigh {weight:g} times as much as a canary"
    unsaid = " (the log does not say how clients participate)" if participation is None else ""
    return Scope(
        counts_on_sampling=counts,
        whom=f"{_whom(numbers)}{unsaid}",
        unfit=unfit,
        not_covered=not_covered,
        left_out=None if rounds is None else _rounds_left_out(rounds, included, released),
        covers_uploads=participation is not None and participation.claim_covers_uploads,
        say_so=None if counts is False else SAY_SO.format(file=file),
        say_so_of_uploads=COVER_UPLOADS.format(file=file),
    )


def _unlike_clients(
    participation: Participation, rounds: Sequence[IntArray], included: npt.NDArray[np.bool_]
) -> str | None:
    """Why an included canary may be more exposed than any client of a log; None if none is."""
    own = [rounds[canary] for canary in np.flatnonzero(included)]
    client, weight = participation.client_rounds, participation.client_weight
    most = max(map(len, own), default=0)
    if client is not None and most > client:
        return too_often(most, client)
    least = participation.separation
    nearest = min(
        (int(np.diff(np.sort(each)).min()) for each in own if len(each) > 1), default=None
    )
    if least is not None and nearest is not None and nearest < least:
        return (
            f"an included canary participated in rounds {nearest} apart and a client only in "
            f"rounds at least {least} apart, so a bound for the canary is no bound for a client"
        )
    if weight is not None and weight < 1:
        return (
            f"a client weighs at most {weight:g} times as much as a canary, so a bound for the "
            "canary is no bound for a client"
        )
    return None


def why_unfit(release: Release) -> str | None:
    """Why a bound for a canary does not bound a client's epsilon; None if it does.

    The bound carries over if both have a known largest number of rounds, and the canary has no more
    rounds than a client may, nor a larger sensitivity under correlated noise; or if the rounds of
    both are secret and from one distribution. If only the client's rounds are sampled, the claim
    may rely on the sampling, but the bound for a canary with a fixed number of rounds does not.
    """
    canary, client = release.canary.participations, release.client.participations
    if canary is not None and client is not None:
        return too_often(canary, client) if canary > client else _too_near(release)
    sampling = release.client.sampling
    is_one_draw = sampling == release.canary.sampling and not isinstance(sampling, UnknownRounds)
    return None if is_one_draw else _DRAWN_OTHERWISE


def too_often(canary: int, client: int) -> str:
    return (
        f"an included canary participated in up to {canary} rounds and a client in at most "
        f"{client}, so a bound for the canary is no bound for a client"
    )


def _too_near(release: Release) -> str | None:
    """Why canaries' rounds are more exposed than clients' under correlated noise; else None."""
    canary, client = release.canary.squared_sensitivity, release.client.squared_sensitivity
    if canary is None or client is None or canary <= client * (1 + _ROUNDING):
        return None
    return (
        "correlated noise hides the rounds of an included canary less than those of any client "
        f"(squared sensitivity {canary:.3g} and {client:.3g}), so a bound for the canary is no "
        "bound for a client"
    )


def _too_seldom(canary: int, client: int) -> str:
    rounds = "1 round" if canary == 1 else f"{canary} rounds"
    return f"canaries participated in {rounds} at most, and a client may participate in {client}"


def _number_of_rounds(
    rounds: Sequence[IntArray], included: npt.NDArray[np.bool_]
) -> tuple[int, int]:
    """The smallest and the largest number of rounds of an included canary."""
    numbers = [len(own) for own, is_in in zip(rounds, included, strict=True) if is_in] or [0]
    return min(numbers), max(numbers)


def _whom(numbers: tuple[int, int] | None) -> str:
    if numbers is None or numbers == (1, 1):
        return "for a client that participates in one round with weight 1"
    if numbers[0] == numbers[1]:
        return f"for a client that participates in {numbers[0]} rounds with weight 1"
    rounds = f"{numbers[0]} to {numbers[1]} rounds"
    return f"for a client that participates, as canaries did, in {rounds} with weight 1"


def _rounds_left_out(
    rounds: Sequence[IntArray], included: npt.NDArray[np.bool_], released: Sequence[int]
) -> str | None:
    """A clause on rounds without included canaries, if chance hardly explains them.

    That is the longest gap between rounds with canaries, or the number m of rounds without. Each
    canary avoids m rounds of T with probability at most 1 - m / T, if all rounds are equally likely
    for it, however its rounds depend on each other.
    """
    own = [
        present
        for canary_rounds, is_in in zip(rounds, included, strict=True)
        if is_in and len(present := np.intersect1d(canary_rounds, released))
    ]
    if not own:
        return None
    participations = np.concatenate(own)
    with_canary = np.isin(np.asarray(released, np.int64), participations)
    edges = np.flatnonzero(np.concatenate([[True], with_canary, [True]]))
    gaps = np.diff(edges) - 1
    longest = int(np.argmax(gaps))
    size, total = int(gaps[longest]), len(with_canary)
    is_long = total * (1 - size / total) ** len(participations) < _BY_CHANCE
    if is_long and size > 1:
        first, last = released[edges[longest]] + 1, released[edges[longest] + size - 1] + 1
        return f"no canary participated in rounds {first} to {last}{_SAY_NOTHING}"
    empty = total - int(with_canary.sum())
    log_choices = -math.log(total + 1) - special.betaln(empty + 1, total - empty + 1)
    log_chance = log_choices + len(own) * math.log1p(-empty / total)
    if is_long or log_chance < math.log(_BY_CHANCE):
        return f"no canary participated in {empty} of {total} rounds{_SAY_NOTHING}"
    return None


_SAY_NOTHING = ", so scores say nothing about them"
