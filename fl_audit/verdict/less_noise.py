"""The alternatives to a claim: the same mechanism with less noise, and its accounting.

The power of an audit is simulated for these alternatives. Each has a share f of the noise, where
f = 1 is the stated noise or, if none is stated, the least noise with which the claim is true.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy import optimize

from fl_audit.accounting.analytical import guarantee_to
from fl_audit.accounting.attacker_bounds import is_gaussian, knowing_rounds, upload_shift
from fl_audit.accounting.release import Party, Release, effective_noise_multiplier
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu, sigma_of_epsilon
from fl_audit.verdict.claims import Claim, CurveClaim, ZeroConcentratedClaim

_CLOSE = 1e-4
"""The precision of the logarithm of a factor."""

_FARTHEST = 40.0
"""The largest logarithm of a factor, or of its inverse."""


@dataclass(frozen=True, eq=False)
class LessNoise:
    """A mechanism with a share of its noise.

    Attributes:
      of_factor: A function from the share f, above 0, to the epsilon at the claim's delta.
      noise_multiplier: The multiplier of the noise on the sum at f = 1; None if it is unknown.
      count_noise_stddev: The noise on counts, which is the same for any f.
    """

    of_factor: Callable[[float], float]
    noise_multiplier: float | None
    is_stated: bool
    count_noise_stddev: float = 0.0

    def noise(self, factor: float) -> float | None:
        """The effective noise multiplier with a share of the noise; None if it is unknown."""
        if self.noise_multiplier is None:
            return None
        return effective_noise_multiplier(factor * self.noise_multiplier, self.count_noise_stddev)

    def epsilon(self, factor: float) -> float:
        """The epsilon with a share of the noise; infinite without any."""
        return math.inf if factor == 0 else self.of_factor(factor)

    def factor(self, epsilon: float) -> float:
        """The share of the noise that gives `epsilon`, a finite number above 0."""

        def excess(log_factor: float) -> float:
            epsilon_left = self.of_factor(math.exp(log_factor))
            return math.log(max(min(epsilon_left, 1e9), 1e-9) / epsilon)

        low, high = -1.0, 1.0
        while excess(low) < 0 and low > -_FARTHEST:
            low -= 1.0
        while excess(high) > 0 and high < _FARTHEST:
            high += 1.0
        if excess(low) <= 0 or excess(high) >= 0:
            return math.exp(low if excess(low) <= 0 else high)
        return math.exp(float(optimize.brentq(excess, low, high, xtol=_CLOSE)))


def claimed_mu(claim: Claim | CurveClaim) -> float:
    """The mu of a Gaussian mechanism with the claimed rho or, if no rho is claimed, epsilon."""
    if isinstance(claim, ZeroConcentratedClaim):
        return math.sqrt(2 * claim.rho)
    return 1 / sigma_of_epsilon(claim.epsilon, claim.delta)


def least_noise(claim: Claim | CurveClaim, squared_sensitivity: float | None = None) -> LessNoise:
    """The least noise with which a Gaussian mechanism meets a claim, and shares of this noise."""
    mu = claimed_mu(claim)
    noise = None if squared_sensitivity is None else math.sqrt(squared_sensitivity) / mu
    return LessNoise(lambda factor: epsilon_of_mu(mu / factor, claim.delta), noise, False)


def stated_noise(
    release: Release, delta: float, *, whom: str, knows_rounds: bool
) -> LessNoise | None:
    """The stated noise, and shares of that noise; None if it is 0 or has no finite epsilon."""
    if release.noise.noise_multiplier == 0:
        return None
    party = release.client if whom == "client" else release.canary

    @functools.lru_cache(maxsize=256)
    def of_factor(factor: float) -> float:
        less = with_noise_on_sum(release, factor * release.noise.sum_noise_multiplier)
        return epsilon_of(less, party, delta, knows_rounds=knows_rounds)

    if not math.isfinite(of_factor(1.0)):
        return None
    noise = release.noise
    return LessNoise(of_factor, noise.sum_noise_multiplier, True, noise.count_noise_stddev)


def stated_noise_on_uploads(uploads: Release, delta: float, *, whom: str) -> LessNoise | None:
    """The stated noise against an attacker who sees uploads, and shares of it; None if it is 0."""
    party = uploads.client if whom == "client" else uploads.canary
    most = party.sampling.most_drawn
    shift = upload_shift(uploads.noise, uploads.rounds if most is None else most)
    if not shift:
        return None
    z = uploads.noise.sum_noise_multiplier
    return LessNoise(lambda factor: epsilon_of_mu(shift / factor, delta), z, True)


def with_noise_on_sum(release: Release, multiplier: float) -> Release:
    """The release with another noise multiplier on sums; noise on counts is unchanged."""
    whole = effective_noise_multiplier(multiplier, release.noise.count_noise_stddev)
    return release.with_noise(
        dataclasses.replace(release.noise, sum_noise_multiplier=multiplier, noise_multiplier=whole)
    )


def epsilon_of(release: Release, party: Party, delta: float, *, knows_rounds: bool) -> float:
    """The epsilon of a party, infinite if unknown; the release has noise.

    It is computed often: under Poisson sampling from the pair, which is faster than accountants, or
    as if the attacker knew the rounds if there is none.
    """
    if is_gaussian(release, party):
        if isinstance(party.sampling, PoissonSampling) and not knows_rounds:
            pair = party.sampling.pair(release, party, delta)
            if pair is not None:
                return pair.epsilon(delta)
            knows_rounds = True
        if knows_rounds:
            known = knowing_rounds(release, party, delta).guarantee.epsilon
            if known is not None:
                return known
    epsilon = guarantee_to(release, party, delta).epsilon
    return math.inf if epsilon is None else epsilon
