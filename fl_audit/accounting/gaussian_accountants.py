"""The epsilon of Gaussian noise, by each accountant that applies.

Poisson sampling is accounted for by dp-accounting, as Renyi DP and as privacy loss distributions.
Samples of fixed size are accounted for as Renyi DP, and exactly against an attacker who sees them.
Without sampling, any number of releases is one Gaussian mechanism, whose epsilon is known exactly;
the noised nodes of tree aggregation are such releases.

dp-accounting takes a second to import and is imported where it is needed.
"""

import functools
import math
import typing
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.accounting.release import Party
from fl_audit.estimators.bisection import supremum
from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.gaussian.fit import epsilon_over_all_regions

if typing.TYPE_CHECKING:
    import dp_accounting
from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee

RDP_ORDERS: tuple[float, ...] = (
    *(1 + np.geomspace(0.0102, 1, 80, endpoint=False)).tolist(),
    *(1 + tenths / 10 for tenths in range(1, 100)),
    *range(11, 64),
    *(2**power for power in range(6, 12)),
)
"""dp-accounting's default orders, and finer ones down to 1.01, the smallest that it can use.

At noise multiplier 0.0644 of Andrew et al. the default orders, from 1.1 on, give an epsilon of
100,000 and these give 1,150.
"""

_RDP_ROUNDING = 1e-10
"""A composed divergence below this is due to rounding, and may be negative."""

_PLD_GRID = 2**19
"""The number of points that the composed privacy loss is spread over.

This took 0.2 to 1.1 s and 0.4 GB as measured, and gave an epsilon within 0.1 % of that of a grid
twice as fine (2 % at a sampling probability of 1e-6).
"""

_PLD_SMALLEST_DELTA = 1e-10
"""The smallest delta for this accountant.

Below it the rounding of the FFT, about 1e-13 in delta, moves epsilon by up to a percent.
"""


@dataclass(frozen=True)
class SampledRounds:
    """Rounds of the Gaussian mechanism, each on a Poisson sample.

    Attributes:
      probability: The probability that a client is in a round, in (0, 1).
      noise_multiplier: The noise multiplier of one round.
      rounds: The number of rounds.
    """

    probability: float
    noise_multiplier: float
    rounds: int

    @property
    def event(self) -> "dp_accounting.DpEvent":
        """The rounds in dp-accounting's terms."""
        import dp_accounting

        gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier)
        sampled = dp_accounting.PoissonSampledDpEvent(self.probability, gaussian)
        return dp_accounting.SelfComposedDpEvent(sampled, self.rounds)


@dataclass(frozen=True)
class FixedSizeRounds:
    """Rounds of the Gaussian mechanism, each on a sample drawn anew without replacement.

    Attributes:
      sample_size: The number of clients in each round.
      sampled_from: The number of clients that a round is drawn from, at least `sample_size`.
      noise_multiplier: The standard deviation of one round's noise, over the clip norm.
      rounds: The number of rounds.
    """

    sample_size: int
    sampled_from: int
    noise_multiplier: float
    rounds: int

    @property
    def replacing_one(self) -> "dp_accounting.DpEvent":
        """A round in dp-accounting's terms, where one client is replaced by any other.

        The sum then moves by up to two clip norms, which the noise is divided by.
        """
        import dp_accounting

        gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier / 2)
        return dp_accounting.SampledWithoutReplacementDpEvent(
            self.sampled_from, self.sample_size, gaussian
        )


WITHOUT_ACCOUNTANT = "dp-accounting is not installed"
"""Why an accountant of that package says nothing, where logs are audited without it."""


def check_is_accountant(error: ModuleNotFoundError) -> None:
    """Raises an error again that is not about dp-accounting, which an audit of logs can lack."""
    if (error.name or "").split(".")[0] != "dp_accounting":
        raise error


def account_gaussian(
    noise_multiplier: float, squared_sensitivity: float, delta: float
) -> tuple[AccountedEpsilon, ...]:
    """Epsilon of releases without sampling, which are together one release at less noise.

    A release may depend on earlier ones: for Gaussians this gives an attacker no advantage (Dong et
    al. 2019, arXiv:1905.02383, corollary 3.3).

    Args:
      noise_multiplier: The noise multiplier of one release; 0 for no noise.
      squared_sensitivity: The sum over releases of the squared distance, in clip norms, by which a
        client moves them. Where it moves each by one, this is the number of releases that it takes
        part in.
      delta: The delta of the guarantee, in (0, 1).
    """
    shift = math.sqrt(squared_sensitivity) / noise_multiplier if noise_multiplier else math.inf
    if math.isinf(shift):
        return AccountedEpsilon("rdp", math.inf), AccountedEpsilon("analytic_gaussian", math.inf)
    exact = epsilon_over_all_regions(Gaussian(0.0, 1.0), Gaussian(shift, 1.0), delta)
    # Mironov 2017, arXiv:1702.07476, proposition 7: order over twice the squared shift.
    divergences = squared_sensitivity * (np.array(RDP_ORDERS) / (2 * noise_multiplier**2))
    try:
        renyi = AccountedEpsilon("rdp", epsilon_of_divergences(RDP_ORDERS, divergences, delta))
    except ModuleNotFoundError as error:
        check_is_accountant(error)
        renyi = AccountedEpsilon("rdp", None, WITHOUT_ACCOUNTANT)
    return renyi, AccountedEpsilon("analytic_gaussian", exact)


@functools.lru_cache(maxsize=16)
def account_sampled(rounds: SampledRounds, delta: float) -> tuple[AccountedEpsilon, ...]:
    """Epsilon of rounds on Poisson samples.

    It takes two seconds, and a report asks for the same one for a client, for a canary and for what
    an attacker faces who does not know the rounds.

    Args:
      rounds: The rounds that were released.
      delta: The delta of the guarantee, in (0, 1).
    """
    rdp = AccountedEpsilon("rdp", epsilon_rdp(rounds.event, delta))
    return rdp, epsilon_pld(rounds, delta)


def account_fixed_size(rounds: FixedSizeRounds, delta: float) -> tuple[AccountedEpsilon, ...]:
    """Epsilon of rounds on samples of fixed size, one client replaced by one that sends nothing.

    Args:
      rounds: The rounds that were released.
      delta: The delta of the guarantee, in (0, 1).
    """
    return (
        AccountedEpsilon("rdp", epsilon_rdp_fixed_size(rounds, delta)),
        AccountedEpsilon("seen_samples", epsilon_seen_samples(rounds, delta)),
    )


def epsilon_rdp_fixed_size(rounds: FixedSizeRounds, delta: float) -> float:
    """Epsilon by Renyi DP (Wang, Balle & Kasiviswanathan 2019, arXiv:1808.00087, theorem 27).

    It holds for one client replaced by any other, including one that sends nothing, as long as
    nobody sees who was drawn. Where the theorem gives no improvement, sampling is left out.

    Args:
      rounds: The rounds that were released.
      delta: The delta of the guarantee, in (0, 1).
    """
    if rounds.noise_multiplier == 0:
        return math.inf
    return epsilon_of_divergences(RDP_ORDERS, _divergences_fixed_size(rounds), delta)


@functools.lru_cache(maxsize=4)
def _divergences_fixed_size(rounds: FixedSizeRounds) -> npt.NDArray[np.float64]:
    """The Renyi divergences of all rounds, by order; they take a second, and serve any delta."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    sampled, unsampled = (
        RdpAccountant(list(RDP_ORDERS), NeighboringRelation.REPLACE_ONE).compose(event)
        for event in (rounds.replacing_one, rounds.replacing_one.event)
    )
    return np.asarray(rounds.rounds * np.minimum(sampled.rdp, unsampled.rdp))


def epsilon_seen_samples(rounds: FixedSizeRounds, delta: float) -> float:
    """Exact epsilon against an attacker who sees who was drawn in every round.

    A client is in K of T rounds, where K is binomial with the share of the population that a round
    draws, and an attacker who sees K faces the Gaussian mechanism of K rounds. K is the same with
    and without the client's updates, so that delta is the mean over K of that mechanism's delta
    (Balle & Wang 2018, arXiv:1805.06530, theorem 8). It holds for one client replaced by one that
    sends nothing.

    Args:
      rounds: The rounds that were released.
      delta: The delta of the guarantee, in (0, 1).
    """
    share = rounds.sample_size / rounds.sampled_from
    return epsilon_seen_rounds(share, rounds.rounds, rounds.noise_multiplier, delta)


def epsilon_seen_rounds(
    share: float, num_rounds: int, noise_multiplier: float, delta: float
) -> float:
    """Exact epsilon where an attacker sees the rounds of a client, each drawn with a probability.

    Args:
      share: The probability of a round, in (0, 1].
      num_rounds: The number of rounds to draw from.
      noise_multiplier: The noise multiplier of one round.
      delta: The delta of the guarantee, in (0, 1).
    """
    from scipy import stats  # here, for it takes half a second

    counts = np.arange(1, num_rounds + 1)
    log_masses = stats.binom.logpmf(counts, num_rounds, share)
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
    """The logs of the smallest deltas of Gaussian releases at an epsilon (Balle & Wang, theorem 8).

    Args:
      shifts: How far a release is moved, in standard deviations, each above 0, of shape (n,).
      epsilon: The epsilon, at least 0, or one for each release.
    """
    log_p = special.log_ndtr(shifts / 2 - epsilon / shifts)
    log_q = special.log_ndtr(-shifts / 2 - epsilon / shifts)
    # Rounding sets to 0 only deltas that are negligible in a sum.
    log_ratio = np.minimum(epsilon + log_q - log_p, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(log_p + np.log(-np.expm1(log_ratio)))


def epsilon_rdp(
    event: "dp_accounting.DpEvent", delta: float, orders: Sequence[float] = RDP_ORDERS
) -> float:
    """Epsilon by Renyi DP (Mironov et al. 2019, arXiv:1908.10530).

    Args:
      event: The releases, in dp-accounting's terms.
      delta: The delta of the guarantee, in (0, 1).
      orders: The Renyi orders, each above 1, of which the best is taken.
    """
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=list(orders)).compose(event)
    return epsilon_of_divergences(orders, accountant.rdp, delta)


def epsilon_of_divergences(
    orders: Sequence[float], divergences: npt.NDArray[np.float64], delta: float
) -> float:
    """The epsilon of Rényi divergences by the best order (Mironov 2017, arXiv:1702.07476).

    Args:
      orders: The orders, each above 1.
      divergences: The divergence of each order, in nats, float64 of shape (orders,).
      delta: The delta of the guarantee, in (0, 1).
    """
    from dp_accounting.rdp import compute_epsilon

    above_rounding = np.maximum(divergences, _RDP_ROUNDING)
    epsilon, _ = compute_epsilon(np.asarray(orders), above_rounding, delta)
    return float(epsilon)


def epsilon_pld(rounds: SampledRounds, delta: float) -> AccountedEpsilon:
    """Epsilon by privacy loss distributions (Doroshenko et al. 2022, arXiv:2207.04380).

    Losses are rounded pessimistically, so that a coarse grid overstates epsilon. Only the rounding
    of the FFT can understate it, by less than 0.2 % as measured at delta 1e-10.

    Args:
      rounds: The rounds that were released.
      delta: The delta of the guarantee, in (0, 1).
    """
    from dp_accounting.pld import PLDAccountant

    if rounds.noise_multiplier == 0:
        return AccountedEpsilon("pld", math.inf)
    if delta < _PLD_SMALLEST_DELTA:
        reason = f"a delta below {_PLD_SMALLEST_DELTA:g} drowns in the rounding of the FFT"
        return AccountedEpsilon("pld", None, reason)
    interval = _loss_width(rounds) / _PLD_GRID
    try:
        accountant = PLDAccountant(value_discretization_interval=interval)
        accountant.compose(rounds.event)
        with np.errstate(over="ignore"):
            epsilon = float(accountant.get_epsilon(delta))
    except (ValueError, OverflowError):
        epsilon = math.inf
    # Infinite where e^-epsilon is a denormal number (epsilon of 709 to 720); an error where
    # rounding makes a loss distribution invalid.
    if math.isinf(epsilon):
        reason = "the privacy loss distribution exhausts floating point here"
        return AccountedEpsilon("pld", None, reason)
    return AccountedEpsilon("pld", epsilon)


def _loss_width(rounds: SampledRounds) -> float:
    """The approximate width of all but 1e-15 of the composed privacy loss, in nats."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights /= weights.sum()
    z, q = rounds.noise_multiplier, rounds.probability
    outputs = np.concatenate([z * nodes, 1 + z * nodes])
    masses = np.concatenate([(1 - q) * weights, q * weights])
    losses = np.logaddexp(math.log1p(-q), math.log(q) + (2 * outputs - 1) / (2 * z**2))
    variance = float(masses @ (losses - masses @ losses) ** 2)
    # Chernoff's bound as dp-accounting applies it: 2 sqrt(2 log 2e15) = 17 deviations of a sum
    # that is about Gaussian, and some ranges of a single loss where it is not.
    return 4 * float(np.ptp(losses)) + 17 * math.sqrt(rounds.rounds * variance)


def without_noise(party: Party, delta: float) -> Guarantee:
    """The guarantee of no noise at all, whatever its distribution: epsilon is infinite."""
    return Guarantee(party.participations, account_gaussian(0.0, 1, delta))
