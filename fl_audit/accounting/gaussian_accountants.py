"""The epsilon of Gaussian noise, by each accountant that applies.

Poisson sampling is accounted for as Rényi DP, and by dp-accounting's privacy loss distributions.
Samples of fixed size are accounted for as Rényi DP, and exactly against an attacker who sees them.
Without sampling, any number of releases is one Gaussian mechanism, whose epsilon is known exactly;
the noised nodes of tree aggregation are such releases.

dp-accounting takes a second to import and is imported inside functions.
"""

import functools
import math
import typing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

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
    from dp_accounting.pld import privacy_loss_distribution
from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee

_PLD_GRID = 2**19
"""The number of grid points of the composed privacy loss.

This took 0.15 to 0.4 s as measured, and gave an epsilon within 0.003 % of that of a grid twice as
fine.
"""

_PLD_SMALLEST_DELTA = 1e-10
"""The smallest delta of the PLD accountant.

Below it the rounding of the FFT, about 1e-13 in delta, moves epsilon by up to a percent.
"""


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

    `noise_multiplier` is the standard deviation of one round's noise, over the clip norm.
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


WITHOUT_ACCOUNTANT = "dp-accounting is not installed"
"""Reason of a missing epsilon where logs are audited without dp-accounting."""


def check_is_accountant(error: ModuleNotFoundError) -> None:
    """Raises the error again unless it is the missing dp-accounting."""
    if (error.name or "").split(".")[0] != "dp_accounting":
        raise error


def account_gaussian(
    noise_multiplier: float, squared_sensitivity: float, delta: float
) -> tuple[AccountedEpsilon, ...]:
    """Epsilon of releases without sampling, which together are one release with less noise.

    A release may depend on earlier ones: for Gaussians this gives an attacker no advantage (Dong et
    al. 2019, arXiv:1905.02383, corollary 3.3).

    Args:
      noise_multiplier: The noise multiplier of one release; 0 for no noise.
      squared_sensitivity: The sum over releases of the squared distance, in clip norms, by which a
        client moves them: the number of its releases if it moves each by one.
      delta: The delta of the guarantee, in (0, 1).
    """
    shift = math.sqrt(squared_sensitivity) / noise_multiplier if noise_multiplier else math.inf
    if math.isinf(shift):
        return AccountedEpsilon("rdp", math.inf), AccountedEpsilon("analytic_gaussian", math.inf)
    exact = epsilon_over_all_regions(Gaussian(0.0, 1.0), Gaussian(shift, 1.0), delta)
    # Mironov 2017, arXiv:1702.07476, proposition 7: order over twice the squared shift.
    divergences = squared_sensitivity * (np.array(RDP_ORDERS) / (2 * noise_multiplier**2))
    renyi = epsilon_of_divergences(RDP_ORDERS, divergences, delta)
    return AccountedEpsilon("rdp", renyi), AccountedEpsilon("analytic_gaussian", exact)


@functools.lru_cache(maxsize=16)
def account_sampled(rounds: SampledRounds, delta: float) -> tuple[AccountedEpsilon, ...]:
    """Epsilon of rounds on Poisson samples.

    Cached: it takes half a second, and a report needs the same one for client, canary and attacker.
    """
    renyi = epsilon_of_divergences(RDP_ORDERS, rounds.divergences, delta)
    return AccountedEpsilon("rdp", renyi), epsilon_pld(rounds, delta)


def account_fixed_size(rounds: FixedSizeRounds, delta: float) -> tuple[AccountedEpsilon, ...]:
    """Epsilon of rounds on samples of fixed size, under zero-out."""
    return (
        AccountedEpsilon("rdp", epsilon_rdp_fixed_size(rounds, delta)),
        AccountedEpsilon("seen_samples", epsilon_seen_samples(rounds, delta)),
    )


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
        # Divergences rise with the order, and beyond the last order delta's term is at least this.
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


def epsilon_seen_samples(rounds: FixedSizeRounds, delta: float) -> float:
    """Exact epsilon against an attacker who sees the sample of every round.

    A client is in K of T rounds, where K is binomial with a round's share of the population, and an
    attacker who sees K faces the Gaussian mechanism of K rounds. K is the same with and without the
    client's updates, so that delta is the mean over K of that mechanism's delta (Balle & Wang 2018,
    arXiv:1805.06530, theorem 8). It holds for one client replaced by one that sends nothing.
    """
    share = rounds.sample_size / rounds.sampled_from
    return epsilon_seen_rounds(share, rounds.rounds, rounds.noise_multiplier, delta)


@functools.lru_cache(maxsize=64)
def epsilon_seen_rounds(
    share: float, num_rounds: int, noise_multiplier: float, delta: float
) -> float:
    """Exact epsilon if an attacker sees the rounds of a client, each with probability `share`."""
    counts = np.arange(1, num_rounds + 1)
    log_masses = log_binomial_masses(num_rounds, share)[1:]
    if noise_multiplier == 0:
        seen_at_all = special.logsumexp(log_masses)
        return math.inf if seen_at_all > math.log(delta) else 0.0
    shifts = np.sqrt(counts) / noise_multiplier

    def exceeds(epsilon: float) -> bool:
        log_deltas = log_gaussian_deltas(shifts, epsilon)
        return bool(special.logsumexp(log_masses + log_deltas) > math.log(delta))

    return supremum(exceeds)


def log_gaussian_deltas(
    shifts: npt.NDArray[np.float64], epsilon: float | npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Log of the smallest delta of Gaussian releases at an epsilon (Balle & Wang, theorem 8).

    `shifts` are in standard deviations, above 0, of shape (n,); `epsilon` is one or of shape (n,).
    """
    log_p = special.log_ndtr(shifts / 2 - epsilon / shifts)
    log_q = special.log_ndtr(-shifts / 2 - epsilon / shifts)
    # Rounding sets to 0 only deltas that are negligible in a sum.
    log_ratio = np.minimum(epsilon + log_q - log_p, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(log_p + np.log(-np.expm1(log_ratio)))


def epsilon_pld(rounds: SampledRounds, delta: float) -> AccountedEpsilon:
    """Epsilon by privacy loss distributions (Doroshenko et al. 2022, arXiv:2207.04380).

    Losses are rounded pessimistically, so that a coarse grid overstates epsilon. Only the rounding
    of the FFT can understate it, by less than 0.2 % as measured at delta 1e-10.
    """
    if rounds.noise_multiplier == 0:
        return AccountedEpsilon("pld", math.inf)
    if delta < _PLD_SMALLEST_DELTA:
        reason = f"a delta below {_PLD_SMALLEST_DELTA:g} drowns in the rounding of the FFT"
        return AccountedEpsilon("pld", None, reason)
    interval = _loss_width(rounds) / _PLD_GRID
    try:
        with np.errstate(over="ignore"):
            composed = _loss_of_round(rounds, interval).self_compose(rounds.rounds)
            epsilon = float(composed.get_epsilon_for_delta(delta))
    except (ValueError, OverflowError):
        epsilon = math.inf
    # Infinite where e^-epsilon is a denormal number (epsilon of 709 to 720); an error where
    # rounding makes a loss distribution invalid.
    if math.isinf(epsilon):
        reason = "the privacy loss distribution exhausts floating point here"
        return AccountedEpsilon("pld", None, reason)
    return AccountedEpsilon("pld", epsilon)


def _loss_of_round(
    rounds: SampledRounds, interval: float
) -> "privacy_loss_distribution.PrivacyLossDistribution":
    """One round's privacy loss if the client is removed or added, by connecting the dots.

    The grid is dp-accounting's. The dots are deltas of the Gaussian mechanism at another epsilon
    (Steinke 2022, arXiv:2210.00597, theorem 29), with coin q, all at once and from logarithms:
    q delta(log(1 + (e^x - 1) / q)) if removed, r delta(log(q e^x / r)) with r = 1 - (1 - q) e^x if
    added. dp-accounting finds each in a loop, from a difference of probabilities whose rounding
    adds up to 5e-5 of epsilon at noise 50, and to 1e-3 at a probability of 1e-6.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    q, z = rounds.probability, rounds.noise_multiplier

    def direction(adjacency: AdjacencyType) -> pld_pmf.PLDPmf:
        bounds = GaussianPrivacyLoss(
            z, sampling_prob=q, adjacency_type=adjacency
        ).connect_dots_bounds()
        lowest = math.floor((bounds.epsilon_lower or 0.0) / interval)
        highest = math.ceil((bounds.epsilon_upper or 0.0) / interval)
        epsilons = interval * np.arange(lowest, highest + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            if adjacency is AdjacencyType.REMOVE:
                factors, outside = np.full(len(epsilons), q), -np.expm1(epsilons)
                inner = np.log1p(np.expm1(epsilons) / q)
            else:
                factors, outside = -np.expm1(epsilons + math.log1p(-q)), np.zeros(len(epsilons))
                inner = math.log(q) + epsilons - np.log(factors)
            deltas = factors * np.exp(log_gaussian_deltas(np.full(len(inner), 1 / z), inner))
        deltas = np.clip(np.where(np.isfinite(inner), deltas, outside), 0.0, 1.0)
        falling = np.maximum.accumulate(deltas[::-1])[::-1]
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            interval, lowest, highest, falling
        )

    return PrivacyLossDistribution(direction(AdjacencyType.REMOVE), direction(AdjacencyType.ADD))


def _loss_width(rounds: SampledRounds) -> float:
    """The approximate width of all but 1e-15 of the composed privacy loss, in nats."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights /= weights.sum()
    z, q = rounds.noise_multiplier, rounds.probability
    outputs = np.concatenate([z * nodes, 1 + z * nodes])
    masses = np.concatenate([(1 - q) * weights, q * weights])
    losses = np.logaddexp(math.log1p(-q), math.log(q) + (2 * outputs - 1) / (2 * z**2))
    variance = float(masses @ (losses - masses @ losses) ** 2)
    # Chernoff's bound as dp-accounting applies it: 2 sqrt(2 log 2e15) = 17 standard deviations of
    # a sum that is about Gaussian, and some ranges of a single loss if it is not.
    return 4 * float(np.ptp(losses)) + 17 * math.sqrt(rounds.rounds * variance)


def without_noise(party: Party, delta: float) -> Guarantee:
    """The guarantee without noise: epsilon is infinite."""
    return Guarantee(party.participations, account_gaussian(0.0, 1, delta))
