"""The claim compared with accounting of the configured or stated noise.

A claim below the exact epsilon of the noise, or below a lower bound on it, is false, whatever the
scores. A claim below only an upper bound may be true, but is not called consistent. Claims are
rounded, so a claim within MARGIN below the accounted epsilon counts as equal.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fl_audit.accounting import (
    attacker_bounds,
    epsilon_at_least,
    exact_shift,
    noise_distribution_named,
)
from fl_audit.accounting.attacker_bounds import AttackerBound, GaussianPair
from fl_audit.accounting.lower_bound import uploads_as_sums
from fl_audit.accounting.noise_distributions import GAUSSIAN
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.sampling import FixedRounds, Sampling, UnknownRounds
from fl_audit.accounting.samplings.fixed_size import FixedSizeSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.accounting.samplings.random_allocation import AllocatedRounds
from fl_audit.accounting.upper_bounds import Attacker
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.trade_off import epsilon_of_curve
from fl_audit.number_words import (
    count,
    delta_text,
    epsilon_text,
    lower_bound_text,
    significant,
    upper_bound_text,
)
from fl_audit.verdict.claims import (
    Claim,
    ConfiguredClaim,
    CurveClaim,
    GaussianClaim,
    NoiseClaim,
    ZeroConcentratedClaim,
)
from fl_audit.verdict.less_noise import with_noise_on_sum
from fl_audit.verdict.record import Outcome, Verdict
from fl_audit.verdict.scope import Scope
from fl_audit.verdict.sentences import NEXT, lines, without_next_steps

MARGIN = 0.01
"""The tolerated relative shortfall of a claim: 15.25 may be claimed as 15.2."""

_FACTORS = (1.0, 0.1, 0.01, 0.001)
"""The deltas at which a claimed curve is compared, as multiples of the claim's delta."""

Source = Literal["configured", "stated"]
"""Whether the noise is from a run's config or stated by a log."""


@dataclass(frozen=True)
class Accounted:
    """Noise and rounds with which a claim is compared.

    Attributes:
      most_noise: The largest noise multiplier that a log states for a round, infinite if it states
        none for some round; `release` has the smallest multiplier. None for configured noise, or
        for a party in one known round.
      hidden: The party as if its rounds were secret, if the claim may rely on unstated sampling;
        with unknown rounds if they are not sure to be taken. None otherwise.
    """

    release: Release
    party: Party
    attacker: Attacker
    source: Source
    hidden: Party | None = None
    most_noise: float | None = None

    @property
    def least(self) -> Release:
        """The release for lower bounds, as if every round had the largest noise of any round."""
        if self.attacker is Attacker.SEES_UPLOADS:
            return uploads_as_sums(self.release)
        if self.most_noise is None:
            return self.release
        return with_noise_on_sum(self.release, self.most_noise)

    def at_least(self, delta: float) -> float | None:
        """The lower bound of accounting on epsilon at delta; None without one."""
        if self.most_noise == math.inf:
            return None
        if self.hidden is not None:
            return epsilon_at_least(self.least, self.hidden, delta, knows_rounds=False)
        knows_rounds = self.attacker is not Attacker.DOES_NOT_KNOW_ROUNDS
        return epsilon_at_least(self.least, self.party, delta, knows_rounds=knows_rounds)

    def at_most(self, delta: float) -> float | None:
        """The upper bound of accounting; None without one."""
        bound = self._bound(delta)
        return None if bound is None else bound.guarantee.epsilon

    def shift_at_most(self, delta: float) -> float | None:
        """The largest mu of the Gaussian mechanism that an attacker faces; None without one.

        None too if sampling gives a smaller epsilon than this mechanism has.
        """
        bound = self._bound(delta)
        if bound is None or not isinstance(bound.pair, GaussianPair):
            return None
        epsilon, shift = bound.guarantee.epsilon, bound.pair.shift
        is_hidden = self.attacker is Attacker.DOES_NOT_KNOW_ROUNDS
        if is_hidden and (epsilon is None or epsilon < (1 - 1e-6) * epsilon_of_mu(shift, delta)):
            return None
        return shift

    def _bound(self, delta: float) -> AttackerBound | None:
        bounds = attacker_bounds(self.release, self.party, delta)
        if self.attacker is Attacker.SEES_UPLOADS:
            return bounds.seeing_uploads
        return bounds.against(self.attacker is Attacker.KNOWS_ROUNDS)

    @property
    def whom(self) -> str:
        """The accounted party and the attacker, in words."""
        match self.party.sampling:
            case FixedRounds(at_most=most):
                rounds = "one round" if most == 1 else f"up to {count(most, 'round')}"
                party = f"a client in {rounds}"
            case (PoissonSampling() | FixedSizeSampling()) as sampling:
                party = (
                    f"a client that each of {count(self.release.rounds, 'round')} samples with "
                    f"probability {significant(sampling.share or 0.0)}"
                )
            case _:
                party = "a client whose rounds are sampled"
        attacker = self.attacker if self.hidden is None else Attacker.DOES_NOT_KNOW_ROUNDS
        return f"{party}, against an attacker {attacker.words}"


def _attacker(*, counts_on_sampling: bool) -> Attacker:
    return Attacker.DOES_NOT_KNOW_ROUNDS if counts_on_sampling else Attacker.KNOWS_ROUNDS


def accounted_of_run(release: Release, scope: Scope) -> tuple[Accounted, ...]:
    if scope.covers_uploads and noise_distribution_named(release.noise.distribution).is_per_upload:
        return (Accounted(release, release.client, Attacker.SEES_UPLOADS, "configured"),)
    attacker = _attacker(counts_on_sampling=bool(scope.counts_on_sampling))
    return (Accounted(release, release.client, attacker, "configured"),)


def accounted_of_log(
    rounds: Release | None,
    uploads: Release | None,
    weight: float | None,
    scope: Scope,
    *,
    most_noise: float | None = None,
) -> tuple[Accounted, ...]:
    """The noise stated by a log, for a client with known rounds, else for one like canaries."""
    accounted = []
    if uploads is not None and scope.covers_uploads:
        accounted.append(Accounted(uploads, uploads.client, Attacker.SEES_UPLOADS, "stated"))
    if rounds is None or weight not in (None, 1):  # accounting assumes the weight of a canary
        return tuple(accounted)
    party, canary = rounds.client, rounds.canary
    if isinstance(party.sampling, UnknownRounds):
        party = canary
    hidden = None
    if scope.counts_on_sampling is not False and party.participations is not None:
        number = party.participations
        sampling: Sampling = UnknownRounds()
        if scope.counts_on_sampling is None:  # otherwise coins may keep a client from every round
            sampling = AllocatedRounds(number, max(rounds.rounds, number))
        hidden = Party(sampling)
    counts = scope.counts_on_sampling is True and hidden is None
    attacker = _attacker(counts_on_sampling=counts)
    if hidden is None and party.participations == 1:
        most_noise = None  # the client's round may be the one with the least noise
    return (*accounted, Accounted(rounds, party, attacker, "stated", hidden, most_noise))


@dataclass(frozen=True)
class _Excess:
    """An accounted value that contradicts the claim.

    Attributes:
      symbol: The claimed quantity, such as "ε".
      gives: The accounted value, in words.
    """

    symbol: str
    gives: str


def after_accounting(verdict: Verdict, accounted: Sequence[Accounted]) -> Verdict:
    """The verdict after the claim is also compared with accounting."""
    claim = verdict.claim
    if not claim.is_stated or isinstance(claim, ConfiguredClaim) or claim.delta == 0:
        return verdict
    for noise in accounted:
        excess = _excess(claim, noise)
        if excess is not None:
            return _contradicted(verdict, noise, excess)
    if verdict.outcome is not Outcome.CONSISTENT or isinstance(claim, NoiseClaim):
        return verdict
    for noise in accounted:
        above = _upper_bound_above(claim, noise)
        if above is not None:
            reason = _only_upper_bound(verdict, noise, above)
            return dataclasses.replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason)
    return verdict


def given_instead(claim: Claim | CurveClaim, accounted: Sequence[Accounted]) -> str | None:
    """An accounted value that contradicts the claim, in words; None without one."""
    excesses = (_excess(claim, noise) for noise in accounted)
    return next((excess.gives for excess in excesses if excess is not None), None)


def _is_above(number: float, claimed: float) -> bool:
    return number > (1 + MARGIN) * claimed


def _excess(claim: Claim | CurveClaim, noise: Accounted) -> _Excess | None:
    """An accounted value that surely contradicts the claim; None without one."""
    shift = None
    is_hidden = noise.attacker is Attacker.DOES_NOT_KNOW_ROUNDS or noise.hidden is not None
    if noise.most_noise != math.inf and not is_hidden:
        shift = exact_shift(noise.least, noise.party)
    match claim:
        case NoiseClaim(noise_multiplier=claimed):
            multiplier = noise.release.noise.sum_noise_multiplier
            is_fresh = noise_distribution_named(noise.release.noise.distribution) is GAUSSIAN
            is_less = is_fresh and _is_above(claimed, multiplier)
            return _Excess("noise multiplier", significant(multiplier)) if is_less else None
        case Claim(epsilon=claimed, delta=delta):
            symbol, least = "ε", noise.at_least(delta)
        case GaussianClaim(mu=claimed) if shift is not None:
            symbol, least = "μ", shift
        case ZeroConcentratedClaim(rho=claimed) if shift is not None:
            symbol, least = "ρ", shift**2 / 2
        case curve:
            return _excess_of_curve(curve, noise)
    if least is None or not _is_above(least, claimed):
        return None
    most = noise.at_most(claim.delta) if symbol == "ε" else least
    return _Excess(symbol, _number_given(least, most))


def _excess_of_curve(claim: Claim | CurveClaim, noise: Accounted) -> _Excess | None:
    """The excess at the first delta at which accounting exceeds a claimed curve.

    None if accounting exceeds the curve at none of `_FACTORS`, or if no curve is claimed or known.
    """
    for delta, allowed in _allowed(claim):
        least = noise.at_least(delta)
        if least is not None and _is_above(least, allowed):
            given = _number_given(least, noise.at_most(delta))
            symbol = {"gdp": "μ", "zcdp": "ρ"}.get(claim.kind, "profile")
            return _Excess(symbol, f"ε = {given} at {_where(delta, allowed)}")
    return None


def _allowed(claim: Claim | CurveClaim) -> Iterator[tuple[float, float]]:
    """The deltas at which a claimed curve is compared, and the epsilons that it allows there."""
    curve = None if isinstance(claim, Claim) else claim.curve(None)
    if curve is not None:
        for delta in (factor * claim.delta for factor in _FACTORS):
            yield delta, epsilon_of_curve(curve, delta)


def _where(delta: float, allowed: float) -> str:
    return f"δ = {delta_text(delta)}, where the claim allows {epsilon_text(allowed)}"


def _upper_bound_above(claim: Claim | CurveClaim, noise: Accounted) -> str | None:
    """An upper bound of accounting above a claim for a client, in words; None without one."""
    shift = noise.shift_at_most(claim.delta)
    match claim:
        case GaussianClaim(mu=claimed) if shift is not None:
            return f"μ ≤ {upper_bound_text(shift)}" if _is_above(shift, claimed) else None
        case ZeroConcentratedClaim(rho=claimed) if shift is not None:
            rho = shift**2 / 2
            return f"ρ ≤ {upper_bound_text(rho)}" if _is_above(rho, claimed) else None
    most = noise.at_most(claim.delta)
    if most is not None and _is_above(most, claim.epsilon):
        return f"ε ≤ {upper_bound_text(most)}"
    for delta, allowed in itertools.islice(_allowed(claim), 1, None):
        most = noise.at_most(delta)
        if most is not None and _is_above(most, allowed):
            return f"ε ≤ {upper_bound_text(most)} at {_where(delta, allowed)},"
    return None


def _number_given(least: float, most: float | None) -> str:
    """The accounted epsilon as text: the upper bound, or a clearly smaller lower bound."""
    if most is not None and not _is_above(most, least):
        return upper_bound_text(most)
    return f"at least {lower_bound_text(least)}"


# Sentences.


def _contradicted(verdict: Verdict, noise: Accounted, excess: _Excess) -> Verdict:
    first = f"the {noise.source} noise does not give the claimed {excess.symbol}"
    whom: str | None = f"this holds for {noise.whom}"
    if isinstance(verdict.claim, NoiseClaim):
        first, whom = f"{first}: it is {excess.gives}", None
    else:
        first = f"{first}: accounting gives {excess.gives}"
    by_scores = without_next_steps(verdict.reason)
    if verdict.outcome is not Outcome.CONTRADICTED:
        by_scores = ["the canaries’ scores by themselves do not contradict the claim"]
    step = "claim what accounting gives, or train with more noise"
    if noise.at_least(verdict.claim.delta) == math.inf:
        step = "train with noise"
    reason = lines((first, whom, *by_scores, f"{NEXT}do not publish this claim; {step}"))
    return verdict.contradicted_by("accounting", reason, assumes=_ASSUMES[noise.source])


_ASSUMES: dict[Source, str] = {
    "configured": "The noise and the rounds are as configured.",
    "stated": "The noise and the rounds are as the log states.",
}


def _only_upper_bound(verdict: Verdict, noise: Accounted, above: str) -> str:
    """Why the verdict is inconclusive: accounting gives only an upper bound above the claim."""
    step = "claim that upper bound"
    if noise.source == "stated":
        step += ", or state in participation.json how clients are sampled (docs/logs.md)"
    return lines(
        (
            f"accounting does not confirm the claim: the {noise.source} noise gives {above} for "
            f"{noise.whom}, and whether the claim holds is not known",
            *without_next_steps(verdict.reason),
            f"{NEXT}{step}",
        )
    )
