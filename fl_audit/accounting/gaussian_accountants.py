"""The epsilon of Gaussian noise, by each accountant that applies.

Poisson sampling is accounted for by Rényi DP and by privacy loss distributions. Samples of fixed
size are accounted for by Rényi DP and, against an attacker who sees them, exactly. Without
sampling, any number of releases is one Gaussian mechanism, whose epsilon is known exactly; the
noised nodes of tree aggregation are such releases.

dp-accounting takes a second to import and is imported inside functions.
"""

import functools
import math
import typing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee
from fl_audit.accounting.privacy_loss import composed_epsilon, log_gaussian_deltas
from fl_audit.accounting.release import Party
from fl_audit.accounting.renyi import (
    RDP_ORDERS,
    epsilon_of_divergences,
    sampled_gaussian_divergences,
)
from fl_audit.accounting.sampling import log_binomial_masses
from fl_audit.estimators.distributions import Gaussian, supremum
from fl_audit.estimators.gaussian.fit import epsilon_over_all_regions

if typing.TYPE_CHECKING:
    import dp_accounting


@dataclass(frozen=True)
class SampledRounds:
    """Rounds of the Gaussian mechanism, each on a Poisson sample."""

    probability: float
    noise_multiplier: float
    rounds: int

    @property
    def divergences(self) -> npt.NDArray[np.float64]:
        """The Rényi divergences of all rounds, at `RDP_ORDERS`."""
        of_one = sampled_gaussian_divergences(self.probability, self.noise_multiplier)
        return self.rounds * of_one


@dataclass(frozen=True)
class FixedSizeRounds:
    """Rounds of the Gaussian mechanism, each on a fresh sample without replacement.

    `noise_multiplier` is the standard deviation of one round's noise, in clip norms.
    """

    sample_size: int
    sampled_from: int
    noise_multiplier: float
    rounds: int

    @property
    def replacing_one(self) -> "dp_accounting.DpEvent":
        """A round as a `DpEvent` under replacement of one client by any other.

        The sum then moves by up to two clip norms.
        """
        import dp_accounting

        gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier / 2)
        return dp_accounting.SampledWithoutReplacementDpEvent(
            self.sampled_from, self.sample_size, gaussian
        )


def account_gaussian(
    noise_multiplier: float, squared_sensitivity: float, delta: float
) -> tuple[AccountedEpsilon, ...]:
    """Epsilon of releases without sampling, which together are one release with less noise.

    A release may depend on earlier ones: for Gaussians this gives an attacker no advantage (Dong et
    al. 2019, arXiv:1905.02383, corollary 3.3).

    Args:
      noise_multiplier: The noise multiplier of one release; 0 for no noise.
      squared_sensitivity: The sum over releases of the squared distance, in clip norms, by which a
        client moves each; the number of releases if it moves each by one clip norm.
      delta: The delta of the guarantee, in (0, 1).
    """
    shift = math.sqrt(squared_sensitivity) / noise_multiplier if noise_multiplier else math.inf
    if math.isinf(shift):
        return AccountedEpsilon("rdp", math.inf), AccountedEpsilon("analytic_gaussian", math.inf)
    exact = epsilon_over_all_regions(Gaussian(0.0, 1.0), Gaussian(shift, 1.0), delta)
    # Mironov 2017, arXiv:1702.07476, proposition 7: half the order times the squared shift.
    divergences = squared_sensitivity * (np.array(RDP_ORDERS) / (2 * noise_multiplier**2))
    renyi = epsilon_of_divergences(RDP_ORDERS, divergences, delta)
    return AccountedEpsilon("rdp", renyi), AccountedEpsilon("analytic_gaussian", exact)


@functools.lru_cache(maxsize=16)
def account_sampled(rounds: SampledRounds, delta: float) -> tuple[AccountedEpsilon, ...]:
    """Epsilon of rounds on Poisson samples.

    Cached: this takes a quarter of a second, and often the result is the same for client, canary
    and both attackers.
    """
    renyi = epsilon_of_divergences(RDP_ORDERS, rounds.divergences, delta)
    return AccountedEpsilon("rdp", renyi), epsilon_pld(rounds, delta)


def account_fixed_size(rounds: FixedSizeRounds, delta: float) -> tuple[AccountedEpsilon, ...]:
    """Epsilon of rounds on samples of fixed size, under zero-out."""
    try:
        renyi = AccountedEpsilon("rdp", epsilon_rdp_fixed_size(rounds, delta))
    except ModuleNotFoundError as error:  # logs are audited in environments of other frameworks
        if (error.name or "").split(".")[0] != "dp_accounting":
            raise
        renyi = AccountedEpsilon("rdp", None, "dp-accounting is not installed")
    share = rounds.sample_size / rounds.sampled_from
    seen = epsilon_seen_rounds(share, rounds.rounds, rounds.noise_multiplier, delta)
    return renyi, AccountedEpsilon("seen_samples", seen)


def epsilon_rdp_fixed_size(rounds: FixedSizeRounds, delta: float) -> float:
    """Epsilon by Rényi DP (Wang, Balle & Kasiviswanathan 2019, arXiv:1808.00087, theorem 27).

    It holds for one client replaced by any other, or by one that sends nothing, if the samples are
    secret. If the theorem gives no improvement, amplification is ignored.
    """
    if rounds.noise_multiplier == 0:
        return math.inf
    least = math.inf
    for orders in _RISING_ORDERS:
        divergences = _divergences_fixed_size(rounds, orders)
        least = min(least, epsilon_of_divergences(orders, divergences, delta))
        # Divergences and the two terms here rise with the order; delta's term is at least 0.
        last = orders[-1]
        if divergences[-1] + math.log1p(-1 / last) - math.log(last) / (last - 1) > least:
            break
    return least


_RISING_ORDERS = tuple(
    tuple(sorted(RDP_ORDERS)[at : at + 8]) for at in range(0, len(RDP_ORDERS), 8)
)


@functools.lru_cache(maxsize=256)
def _divergences_fixed_size(
    rounds: FixedSizeRounds, orders: tuple[float, ...]
) -> npt.NDArray[np.float64]:
    """The Rényi divergences of all rounds, by order; cached, as large orders take long."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    sampled, unsampled = (
        RdpAccountant(list(orders), NeighboringRelation.REPLACE_ONE).compose(event)
        for event in (rounds.replacing_one, rounds.replacing_one.event)
    )
    return np.asarray(rounds.rounds * np.minimum(sampled.rdp, unsampled.rdp))


@functools.lru_cache(maxsize=64)
def epsilon_seen_rounds(
    share: float, num_rounds: int, noise_multiplier: float, delta: float
) -> float:
    """Exact epsilon if an attacker sees a client's rounds, each drawn with probability `share`.

    A client is in K of T rounds, where K is binomial, and an attacker who sees K faces the Gaussian
    mechanism of K rounds. K is the same with and without the client's updates, so that delta is the
    mean over K of that mechanism's delta (Balle & Wang 2018, arXiv:1805.06530, theorem 8).
    Neighbouring runs replace a client by one that sends nothing.
    """
    if noise_multiplier == 0:
        return math.inf if special.bdtrc(0, num_rounds, share) > delta else 0.0
    log_masses = log_binomial_masses(num_rounds, share)[1:]
    shifts = np.sqrt(np.arange(1, num_rounds + 1)) / noise_multiplier

    def exceeds(epsilon: float) -> bool:
        log_deltas = log_gaussian_deltas(shifts, epsilon)
        return bool(special.logsumexp(log_masses + log_deltas) > math.log(delta))

    return supremum(exceeds)


def epsilon_pld(rounds: SampledRounds, delta: float) -> AccountedEpsilon:
    """Epsilon by privacy loss distributions (Doroshenko et al. 2022, arXiv:2207.04380)."""
    q, z = rounds.probability, rounds.noise_multiplier
    epsilon = composed_epsilon(q, z, rounds.rounds, delta)
    if epsilon is None:
        return AccountedEpsilon(
            "pld", None, "a round's privacy loss exceeds the range of floating point"
        )
    return AccountedEpsilon("pld", epsilon)


def without_noise(party: Party, delta: float) -> Guarantee:
    """The guarantee without noise: epsilon is infinite."""
    return Guarantee(party.participations, account_gaussian(0.0, 1, delta))
