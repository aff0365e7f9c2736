"""Kinds of claims about a run: a point (epsilon, delta), or a whole trade-off curve.

An accountant's guarantee is a curve: of mu-GDP, of rho-zCDP, or of the configured noise. A claim of
(epsilon, delta)-privacy is one point of a curve, and is tested as a point. A curve is tested by all
scores at once, which takes far fewer canaries (curve_claim_tests.py).

>>> GaussianClaim(0.5, 1e-5).words
'the claim μ ≤ 0.5 (ε ≤ 2.00 at δ = 10⁻⁵)'
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.attacker_bounds import (
    AttackerBound,
    AttackerBounds,
    GaussianPair,
    SeenRounds,
    attacker_bounds,
)
from fl_audit.accounting.noise_distributions import GAUSSIAN, noise_distribution_named
from fl_audit.accounting.release import Noise, Release
from fl_audit.accounting.samplings.cyclic_poisson import CyclicPoissonSampling
from fl_audit.accounting.samplings.min_separation import (
    MinSeparationSampling,
    numbers_of_rounds,
)
from fl_audit.array_types import FloatArray
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.statistics import Statistic
from fl_audit.config_tables.audit import Audit, check_profile
from fl_audit.errors import InputError
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.scores import check_delta
from fl_audit.estimators.trade_off import (
    GaussianTradeOff,
    TradeOff,
    epsilon_of_curve,
    trade_off_of_profile,
    trade_off_of_tests,
    zcdp_trade_off,
)
from fl_audit.json_records import UNWRITTEN, fields_from_json, fields_to_json
from fl_audit.number_words import delta_text, upper_bound_text
from fl_audit.verdict.scope import is_about_sampling, sees_uploads

if TYPE_CHECKING:
    import dp_accounting

LARGEST_EPSILON = 300.0
"""The largest claimed epsilon: simulations double it, and e^700 is near the largest float."""

_ROUNDING = 1e-9
"""The relative error of epsilon by rounding, such as of the curve through a claimed point."""

_POINTS = 300
"""The number of points of a claim from an accountant's profile."""

_LEAST_DELTA = 1e-13
"""The delta of the last point, or the accountant's rounding if that is larger."""

_NEAREST_EPSILON, _FARTHEST_EPSILON = 1e-4, 650.0
"""The range of epsilons for the last point; e^650 is a float."""


@dataclass(frozen=True)
class Claim:
    """The claim that a run is (epsilon, delta)-private for a client.

    Neighbouring runs differ in one client, which is absent or sends nothing in one of the two runs.
    A canary is such a client, so a lower bound for a canary bounds the client's epsilon too, if a
    canary participates no more often than a client may. A canary that participates less often is
    better protected, so a claim for the client also holds for that canary.

    Attributes:
      epsilon: The claimed epsilon, in (0, LARGEST_EPSILON].
      delta: The delta of the claim, in [0, 1).

    Raises:
      InputError: A number is out of range.
    """

    kind: ClassVar[str] = "epsilon_delta"
    whom: ClassVar[str] = "client"
    is_stated: ClassVar[bool] = True

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= LARGEST_EPSILON:
            raise InputError(
                f"claimed epsilon must be above 0 and at most {LARGEST_EPSILON:g}, "
                f"got {self.epsilon}"
            )
        check_delta(self.delta)

    @property
    def words(self) -> str:
        """The claim in words."""
        return f"the claim {self.short} at δ = {delta_text(self.delta)}"

    @property
    def short(self) -> str:
        """The claim in a few words, for a table."""
        return f"ε ≤ {self.epsilon:g}"


class OneCurveClaim(abc.ABC):
    """A claim of one curve for a client, the same against every attacker.

    Attributes:
      delta: The delta at which the claim is stated as an epsilon, in (0, 1).

    Raises:
      InputError: A number is out of range, or the epsilon at delta is above LARGEST_EPSILON.
    """

    whom: ClassVar[str] = "client"
    is_stated: ClassVar[bool] = True
    noun: ClassVar[str]

    delta: float

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if self.delta == 0:
            raise InputError(
                f"a claimed {self.noun} needs a delta above 0, to be converted to an epsilon"
            )
        if not 0 < self.epsilon <= LARGEST_EPSILON * (1 + _ROUNDING):
            raise InputError(
                f"claimed {self.noun} must allow an epsilon above 0 and at most "
                f"{LARGEST_EPSILON:g} at delta {self.delta:g}, and allows {self.epsilon:g}"
            )

    @property
    @abc.abstractmethod
    def epsilon(self) -> float:
        """The claimed epsilon at delta."""

    @property
    @abc.abstractmethod
    def trade_off(self) -> TradeOff:
        """The claimed curve."""

    @property
    @abc.abstractmethod
    def short(self) -> str:
        """The claim in a few words, for a table."""

    @property
    def words(self) -> str:
        """The claim in words."""
        return f"the claim {self.short} ({_point(self.epsilon, self.delta)})"

    def curve(self, statistic: str | None) -> TradeOff | None:
        """The claimed curve, which is the same against the attackers of all statistics."""
        return self.trade_off


def _positive(noun: str, number: float) -> None:
    if not 0 < number < math.inf:
        raise InputError(f"claimed {noun} must be above 0 and finite, got {number}")


@dataclass(frozen=True)
class GaussianClaim(OneCurveClaim):
    """The claim that a run is mu-GDP for a client (Dong, Roth & Su 2022, definition 2.6).

    `mu` is above 0.
    """

    kind: ClassVar[str] = "gdp"
    noun: ClassVar[str] = "mu"

    mu: float
    delta: float

    @functools.cached_property
    def epsilon(self) -> float:
        _positive(self.noun, self.mu)
        return epsilon_of_mu(self.mu, self.delta)

    @property
    def short(self) -> str:
        return f"μ ≤ {self.mu:g}"

    @property
    def trade_off(self) -> TradeOff:
        return GaussianTradeOff(self.mu)


@dataclass(frozen=True)
class ZeroConcentratedClaim(OneCurveClaim):
    """The claim that a run is rho-zCDP for a client (Bun & Steinke 2016, definition 1.1).

    `rho` is above 0. The epsilon is from the curve, whose table is coarse for a tiny rho, or from
    proposition 1.3 of Bun & Steinke if that is smaller.
    """

    kind: ClassVar[str] = "zcdp"
    noun: ClassVar[str] = "rho"

    rho: float
    delta: float

    @functools.cached_property
    def epsilon(self) -> float:
        _positive(self.noun, self.rho)
        closed = self.rho + 2 * math.sqrt(-self.rho * math.log(self.delta))
        return min(epsilon_of_curve(self.trade_off, self.delta), closed)

    @property
    def short(self) -> str:
        return f"ρ ≤ {self.rho:g}"

    @property
    def trade_off(self) -> TradeOff:
        return zcdp_trade_off(self.rho)


@dataclass(frozen=True)
class NoiseClaim(OneCurveClaim):
    """The claim that Gaussian noise has at least a noise multiplier, for canaries of one round.

    It is a claim of mu-GDP with mu = 1 / noise_multiplier; the noise multiplier is above 0.
    """

    kind: ClassVar[str] = "noise"
    whom: ClassVar[str] = "canary"
    noun: ClassVar[str] = "noise multiplier"

    noise_multiplier: float
    delta: float

    @functools.cached_property
    def epsilon(self) -> float:
        _positive(self.noun, self.noise_multiplier)
        return epsilon_of_mu(1 / self.noise_multiplier, self.delta)

    @property
    def short(self) -> str:
        return f"noise multiplier ≥ {self.noise_multiplier:g} in one round"

    @property
    def trade_off(self) -> TradeOff:
        return GaussianTradeOff(1 / self.noise_multiplier)


def _is_rounded(point: tuple[float, float]) -> bool:
    """Whether a point of a profile looks rounded to two digits; one digit counts as deliberate."""
    digits = (len(Decimal(repr(number)).normalize().as_tuple().digits) for number in point)
    return max(digits) == 2


@dataclass(frozen=True)
class ProfileClaim(OneCurveClaim):
    """The claim of a privacy profile for a client: an epsilon at each of several deltas.

    Accountants print such points, which all hold at once: the claim is the curve below all lines
    TPR = e^epsilon FPR + delta (Dong, Roth & Su 2022, proposition 2.13). `of_event` computes points
    by dp-accounting.

    Attributes:
      points: Pairs of an epsilon, at least 0, and the delta claimed at that epsilon, in [0, 1]; at
        least one pair, at most `config_tables.audit.MOST_POINTS`.

    >>> ProfileClaim(((0.5, 1.23e-3), (2.0, 1.05e-6)), 1e-5).words
    'the claim of a privacy profile (ε ≤ 2.00 at δ = 10⁻⁵)'
    """

    kind: ClassVar[str] = "profile"
    noun: ClassVar[str] = "profile"

    points: tuple[tuple[float, float], ...]
    delta: float

    @classmethod
    def of_deltas(
        cls, deltas_at: Callable[[FloatArray], npt.ArrayLike], delta: float
    ) -> "ProfileClaim":
        """The claim of an accountant's profile.

        Args:
          deltas_at: A function from rising epsilons to deltas, both float64 of shape (n,), such as
            the method `get_delta_for_epsilon` of dp-accounting's privacy loss distributions.
          delta: The delta at which the claim is stated as an epsilon, in (0, 1).
        """
        tried = np.geomspace(_NEAREST_EPSILON, _FARTHEST_EPSILON, _POINTS)
        deltas = np.asarray(deltas_at(tried), np.float64)
        least = max(_LEAST_DELTA, 2 * deltas[-1])  # below it there is only an accountant's rounding
        reach = tried[min(int(np.sum(deltas > least)), _POINTS - 1)]
        epsilons = np.linspace(0.0, reach, _POINTS)
        claimed = np.minimum(deltas_at(epsilons), 1.0)
        return cls(tuple(zip(epsilons.tolist(), claimed.tolist(), strict=True)), delta)

    @classmethod
    def of_event(cls, event: "dp_accounting.DpEvent", delta: float) -> "ProfileClaim":
        """The claim of a dp-accounting event, by its privacy loss distribution.

        Neighbouring runs differ by adding or removing one client.

        Args:
          event: The event, such as `SelfComposedDpEvent(PoissonSampledDpEvent(0.01,
            GaussianDpEvent(1.0)), 1000)`: noise, sampling and rounds.
          delta: The delta at which the claim is stated as an epsilon, in (0, 1).

        Raises:
          InputError: dp-accounting has no privacy loss distribution of the event.
        """
        from dp_accounting.pld import PLDAccountant

        accountant = PLDAccountant()
        if not accountant.supports(event):
            raise InputError(
                f"claimed event: dp-accounting has no privacy loss distribution of {event}; claim "
                "the profile of an accountant that has one, or an epsilon"
            )
        return cls.of_deltas(accountant.compose(event).get_delta, delta)

    @functools.cached_property
    def epsilon(self) -> float:
        check_profile(self.points)
        at_delta = [epsilon for epsilon, delta in self.points if delta <= self.delta]
        return min([*at_delta, epsilon_of_curve(self.trade_off, self.delta)])

    @property
    def words(self) -> str:
        rounded = sum(map(_is_rounded, self.points))
        note = ""
        if rounded:
            points = "a point has" if rounded == 1 else f"{rounded} points have"
            note = f"; {points} only two digits, and must have been rounded up"
        return f"the claim of a {self.short} ({_point(self.epsilon, self.delta)}{note})"

    @property
    def short(self) -> str:
        return "privacy profile"

    @functools.cached_property
    def trade_off(self) -> TradeOff:
        return trade_off_of_profile(*np.array(self.points).T)


@dataclass(frozen=True)
class ConfiguredClaim:
    """The claim that the noise is as configured, by the accounting for a canary.

    Each attacker has the curve of the dominating pair for what it sees; a canary's rounds count as
    secret for an attacker who does not know them.

    Attributes:
      noise_multiplier: The configured noise multiplier.
      epsilon: The accounted epsilon of a canary at delta, against the strongest attacker whose
        scores are tested: one who sees uploads, else one who knows the canary's rounds, else, if
        these are sampled, one who does not know them. If that is unknown, against another one.
      delta: The delta of that epsilon, in (0, 1).
      is_stated: Whether the user stated the claim; it is tested in either case.
      curves: The known curves by name of the statistic.
      noises: The noise that each statistic shows: mu of a Gaussian curve is inversely proportional
        to its multiplier on the sum.
    """

    kind: ClassVar[str] = "configured"
    whom: ClassVar[str] = "canary"

    noise_multiplier: float
    epsilon: float
    delta: float
    is_stated: bool = True
    curves: Mapping[str, TradeOff] = field(default_factory=dict, compare=False, metadata=UNWRITTEN)
    noises: Mapping[str, Noise] = field(default_factory=dict, compare=False, metadata=UNWRITTEN)

    @property
    def words(self) -> str:
        start = "the claim of the configured noise" if self.is_stated else "the configured noise"
        point = _point(self.epsilon, self.delta)
        return f"{start} (multiplier {self.noise_multiplier:g}: {point})"

    @property
    def short(self) -> str:
        return "configured noise"

    def curve(self, statistic: str | None) -> TradeOff | None:
        """The claimed curve against the attacker of a statistic; None if unknown."""
        return None if statistic is None else self.curves.get(statistic)


CurveClaim = GaussianClaim | ZeroConcentratedClaim | NoiseClaim | ProfileClaim | ConfiguredClaim


def claimed_noise(claim: CurveClaim) -> float | None:
    """The claimed noise multiplier; None for a claim that is not about noise."""
    return claim.noise_multiplier if isinstance(claim, ConfiguredClaim | NoiseClaim) else None


def shown_noise(claim: CurveClaim, statistic: str | None) -> Noise | None:
    """The claimed noise that a statistic shows; None for a claim that is not about noise."""
    match claim:
        case NoiseClaim(noise_multiplier=z):
            return GAUSSIAN.noise(z, z)
        case ConfiguredClaim(noises=noises) if statistic is not None:
            return noises.get(statistic)
        case _:
            return None


_CLAIMS: tuple[type[Claim | CurveClaim], ...] = (
    Claim,
    GaussianClaim,
    ZeroConcentratedClaim,
    NoiseClaim,
    ProfileClaim,
    ConfiguredClaim,
)
_KINDS = {claim.kind: claim for claim in _CLAIMS}


def claim_to_json(claim: Claim | CurveClaim) -> dict[str, Any]:
    return {"kind": claim.kind, **fields_to_json(claim)}


def claim_from_json(fields: Mapping[str, Any]) -> Claim | CurveClaim:
    """The claim written by `claim_to_json`; a `ConfiguredClaim` then has no curves."""
    kind = _KINDS.get(str(fields.get("kind")))
    if kind is None:
        raise ValueError(f"claim.kind must be one of {', '.join(_KINDS)}")
    claim: Claim | CurveClaim = fields_from_json(kind, fields)  # type: ignore[assignment]
    return claim


def claim_to_test(
    audit: Audit, release: Release, delta: float, statistics: Sequence[Statistic]
) -> Claim | CurveClaim | None:
    """The claim in the config, else the configured noise; None if no curve is known or wanted."""
    if audit.claimed_epsilon is not None:
        return Claim(audit.claimed_epsilon, delta)
    if audit.claimed_mu is not None:
        return GaussianClaim(audit.claimed_mu, delta)
    if audit.claimed_rho is not None:
        return ZeroConcentratedClaim(audit.claimed_rho, delta)
    if audit.claimed_profile is not None:
        return ProfileClaim(audit.claimed_profile, delta)
    if audit.claim == "none":
        return None
    claim = configured_claim(release, delta, statistics, is_stated=audit.is_claimed)
    if claim is None and audit.is_claimed:
        raise InputError(
            "audit.claim: accounting gives no curve with a finite epsilon for a canary under this "
            "config; claim an epsilon (`audit.claimed_epsilon`), or add noise whose curve is known"
        )
    return claim


def configured_claim(
    release: Release, delta: float, statistics: Sequence[Statistic], *, is_stated: bool
) -> ConfiguredClaim | None:
    """The claim that a run's noise is as configured; None without a curve or a finite epsilon.

    For a canary of one round, scored by that round's aggregate, only the noise on the sum of
    updates counts: the count that moves the clip norm affects only later rounds.
    """
    bounds = attacker_bounds(release, release.canary, delta)
    curves: dict[str, TradeOff] = {}
    noises: dict[str, Noise] = {}
    noise = release.noise
    both = noise.noise_multiplier  # of sum and count together
    for statistic in statistics:
        curve = _curve(bound_against(bounds, statistic))
        if curve is None:
            continue
        curves[statistic.name] = curve
        noises[statistic.name] = Noise(noise.distribution, both, both)
        if statistic == OWN_ROUNDS and _is_one_plain_round(release):
            curves[statistic.name] = GaussianTradeOff(1 / noise.sum_noise_multiplier)
            noises[statistic.name] = noise
    of_rounds = [bounds.knowing_rounds, bounds.not_knowing_rounds]
    knows_rounds = any(s.name in curves and not is_about_sampling(s) for s in statistics)
    if release.canary.participations is None and not knows_rounds:
        of_rounds.reverse()
    of_uploads = [] if bounds.seeing_uploads is None else [bounds.seeing_uploads]
    is_of_uploads = any(sees_uploads(s) for s in statistics if s.name in curves)
    in_order = [*of_uploads, *of_rounds] if is_of_uploads else [*of_rounds, *of_uploads]
    epsilons = (bound.guarantee.epsilon for bound in in_order)
    epsilon = next((epsilon for epsilon in epsilons if epsilon is not None), None)
    if not curves or epsilon is None or not 0 < epsilon < math.inf:
        return None
    return ConfiguredClaim(both, epsilon, delta, is_stated, curves, noises)


def sampled_claim(
    release: Release, delta: float, statistics: Sequence[Statistic]
) -> ConfiguredClaim | None:
    """The unstated claim that the noise is as the log states, for sampled canaries.

    Against an attacker who knows a canary's rounds, the curve is for the sampled number of rounds,
    not for the largest possible number; with coins the number is random, and less leaks.
    """
    claim = configured_claim(release, delta, statistics, is_stated=False)
    if claim is None or release.correlation is not None or OWN_ROUNDS.name not in claim.curves:
        return claim
    z = release.noise.noise_multiplier
    match release.canary.sampling:
        case CyclicPoissonSampling(probability=q, turns=turns):
            pair = SeenRounds.by_coins(q, turns, z)
        case MinSeparationSampling() as sampling:
            pair = SeenRounds(numbers_of_rounds(sampling), z)
        case _:
            return claim
    curve = trade_off_of_tests(pair.optimal_tests())
    return dataclasses.replace(claim, curves={**claim.curves, OWN_ROUNDS.name: curve})


def bound_against(bounds: AttackerBounds, statistic: Statistic) -> AttackerBound:
    if sees_uploads(statistic) and bounds.seeing_uploads is not None:
        return bounds.seeing_uploads
    return bounds.against(not is_about_sampling(statistic))


def _curve(bound: AttackerBound) -> TradeOff | None:
    match bound.pair:
        case None:
            return None
        case GaussianPair(shift=shift):
            return None if math.isinf(shift) else GaussianTradeOff(shift)
        case pair:
            return trade_off_of_tests(pair.optimal_tests())


def _is_one_plain_round(release: Release) -> bool:
    is_gaussian = (
        noise_distribution_named(release.noise.distribution) is GAUSSIAN
        and release.zeroing != "adaptive"
    )
    return is_gaussian and release.canary.participations == 1


def _point(epsilon: float, delta: float) -> str:
    return f"ε ≤ {upper_bound_text(epsilon)} at δ = {delta_text(delta)}"
