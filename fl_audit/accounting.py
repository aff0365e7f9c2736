"""The analytical epsilon of a run: what its noise guarantees, whatever the attacker does.

Poisson sampling is accounted for by dp-accounting, as Renyi DP and as privacy loss distributions;
fixed participation is one Gaussian mechanism, whose epsilon is known exactly.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant, compute_epsilon

from fl_audit.estimators.gaussian_regions import epsilon_over_all_regions
from fl_audit.estimators.laws import Gaussian
from fl_audit.run_folder import RunRecord

AccountantName = Literal["rdp", "pld", "analytic_gaussian"]

RDP_ORDERS: tuple[float, ...] = (
    *(1 + np.geomspace(0.0102, 1, 80, endpoint=False)).tolist(),
    *(1 + tenths / 10 for tenths in range(1, 100)),
    *range(11, 64),
    *(2**power for power in range(6, 12)),
)
"""dp-accounting's default orders, and finer ones down to 1.01, below which it makes no use of them.

At noise multiplier 0.0644 of Andrew et al. the default ones, from 1.1 on, give an epsilon of
100,000 where these give 1,150."""

_RDP_ROUNDING = 1e-10
"""A composed divergence below this is rounding, and may come out negative."""

_PLD_GRID = 2**19
"""Points that the composed privacy loss is spread over: 0.2 to 1.1 s and 0.4 GB as measured, and
an epsilon within 0.1 % of that of a grid twice as fine."""

_PLD_SMALLEST_DELTA = 1e-10
"""Below it the rounding of the FFT, about 1e-13 in delta, moves epsilon by up to a percent."""

ADD_OR_REMOVE = "one client more or less in the population (add or remove one)"
ZERO_OUT = "one client replaced by one that sends nothing (zero-out); the schedule stays the same"


@dataclass(frozen=True)
class NoisyRounds:
    """All that accounting needs to know of a run.

    Attributes:
      rounds: rounds of training.
      delta: in (0, 1).
      noise_multiplier: effective noise multiplier of one round, everything released counted.
      sum_noise_multiplier: noise on the sum of updates over the clip norm.
      count_noise_stddev: noise on the adaptive clip's count, in clients; 0 without one.
      sampling_probability: of a client in a round under Poisson sampling; else None.
      client_participations: rounds that a real client takes part in at most; None if random.
      canary_participations: the same for an included canary.

    Raises:
      ValueError: a number is out of range, or the effective noise multiplier is not that of its
        parts.
    """

    rounds: int
    delta: float
    noise_multiplier: float
    sum_noise_multiplier: float
    count_noise_stddev: float = 0.0
    sampling_probability: float | None = None
    client_participations: int | None = None
    canary_participations: int | None = None

    def __post_init__(self) -> None:
        """Checks the fields, so that no accountant has to."""
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must be in (0, 1), got {self.delta}")
        if self.sampling_probability is not None and not 0 < self.sampling_probability <= 1:
            raise ValueError(
                f"sampling_probability must be in (0, 1], got {self.sampling_probability}"
            )
        parts = effective_noise_multiplier(self.sum_noise_multiplier, self.count_noise_stddev)
        if not math.isclose(parts, self.noise_multiplier, rel_tol=1e-6):
            raise ValueError(
                f"noise_multiplier must be {parts:.6g}, the effective one of its parts "
                f"(sum_noise_multiplier {self.sum_noise_multiplier:.6g}, count_noise_stddev "
                f"{self.count_noise_stddev:.6g}), got {self.noise_multiplier:.6g}"
            )

    @classmethod
    def of(cls, record: RunRecord) -> "NoisyRounds":
        """The rounds of a run.

        Raises:
          ValueError: the record does not describe a mechanism that adds up.
        """
        return cls(**{field.name: getattr(record, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class AccountedEpsilon:
    """Epsilon by one accountant.

    Attributes:
      accountant: which one.
      epsilon: possibly infinite; None where the accountant cannot tell.
      reason: why it cannot, in words; None where it can.
    """

    accountant: AccountantName
    epsilon: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Guarantee:
    """What the noise guarantees to one party.

    Attributes:
      participations: rounds it takes part in; None under Poisson sampling, or where unknown.
      by_accountant: each of them an upper bound on the same epsilon.
    """

    participations: int | None
    by_accountant: tuple[AccountedEpsilon, ...]

    @property
    def epsilon(self) -> float | None:
        """The tightest of the upper bounds; None where none is known."""
        known = [by.epsilon for by in self.by_accountant if by.epsilon is not None]
        return min(known, default=None)


@dataclass(frozen=True)
class Accounting:
    """The analytical epsilon of a run, with what it rests on.

    Attributes:
      delta: of (epsilon, delta)-DP.
      neighbours: which two runs are compared, in words.
      assumes: what has to hold, in words.
      client: guarantee to a real client.
      canary: guarantee to an included canary.
    """

    delta: float
    neighbours: str
    assumes: tuple[str, ...]
    client: Guarantee
    canary: Guarantee

    @property
    def epsilon(self) -> float | None:
        """The guarantee to whoever takes part most, a real client or an included canary.

        None where the guarantee to either is unknown.
        """
        client, canary = self.client.epsilon, self.canary.epsilon
        return None if client is None or canary is None else max(client, canary)


def effective_noise_multiplier(sum_noise_multiplier: float, count_noise_stddev: float) -> float:
    """The noise multiplier of a round that releases a noised sum and a noised count.

    z^-2 = z_sum^-2 + (2 s)^-2, as the count has sensitivity 1/2 (Andrew et al. 2021,
    arXiv:1905.03871, theorem 1).

    Args:
      sum_noise_multiplier: z_sum, noise on the sum over the clip norm.
      count_noise_stddev: s, noise on the count in clients; 0 where no count is released.

    Raises:
      ValueError: either is negative or not finite.

    >>> round(effective_noise_multiplier(1.0, 0.5), 6)  # both as noisy as z = 1
    0.707107
    """
    for name, value in (("sum", sum_noise_multiplier), ("count", count_noise_stddev)):
        if not 0 <= value < math.inf:
            raise ValueError(f"noise on the {name} must be finite and at least 0, got {value}")
    if count_noise_stddev == 0 or sum_noise_multiplier == 0:
        return sum_noise_multiplier
    return 1 / math.hypot(1 / sum_noise_multiplier, 1 / (2 * count_noise_stddev))


def account(run: NoisyRounds) -> Accounting:
    """The analytical epsilon of a run, to a real client and to an included canary."""
    if run.sampling_probability is None:
        client = _fixed_participation(run, run.client_participations)
        canary = _fixed_participation(run, run.canary_participations)
        return Accounting(run.delta, ZERO_OUT, _assumptions(run), client, canary)
    # Every canary flips the same coin as a real client.
    guarantee = _poisson(run, run.sampling_probability)
    return Accounting(run.delta, ADD_OR_REMOVE, _assumptions(run), guarantee, guarantee)


def _assumptions(run: NoisyRounds) -> tuple[str, ...]:
    if run.sampling_probability is None:
        participation = (
            "Nothing is gained from the order of clients being random: the attacker may know "
            "which rounds a client takes part in."
        )
    else:
        participation = (
            "Each client is in each round with probability "
            f"{run.sampling_probability:.3g}, independently, and nobody sees who was."
        )
    return (
        "The attacker sees the noised sum of every round"
        + (" and the noised count that moves the clip norm" if run.count_noise_stddev else "")
        + ", and the initial model; not a round's unnoised loss or accuracy.",
        participation,
        "Noise is exactly Gaussian: the limits of floating point are not counted.",
    )


def _fixed_participation(run: NoisyRounds, participations: int | None) -> Guarantee:
    if participations is None:
        reason = "the number of rounds that it takes part in is not known"
        return Guarantee(None, (AccountedEpsilon("analytic_gaussian", None, reason),))
    by_accountant = _gaussian(run.noise_multiplier, participations, run.delta)
    return Guarantee(participations, by_accountant)


def _poisson(run: NoisyRounds, probability: float) -> Guarantee:
    if probability == 1:
        by_accountant = _gaussian(run.noise_multiplier, run.rounds, run.delta)
        return Guarantee(run.rounds, by_accountant)
    rounds = SampledRounds(probability, run.noise_multiplier, run.rounds)
    rdp = AccountedEpsilon("rdp", epsilon_rdp(rounds.event, run.delta))
    return Guarantee(None, (rdp, epsilon_pld(rounds, run.delta)))


def _gaussian(
    noise_multiplier: float, participations: int, delta: float
) -> tuple[AccountedEpsilon, ...]:
    """Epsilon of `participations` releases, which are one release at less noise.

    The next release may depend on the last ones: for Gaussians that gains an attacker nothing
    (Dong et al. 2019, arXiv:1905.02383, corollary 3.3).
    """
    event = dp_accounting.GaussianDpEvent(noise_multiplier)
    composed = dp_accounting.SelfComposedDpEvent(event, participations)
    shift = math.sqrt(participations) / noise_multiplier if noise_multiplier else math.inf
    exact = math.inf
    if math.isfinite(shift):
        exact = epsilon_over_all_regions(Gaussian(0.0, 1.0), Gaussian(shift, 1.0), delta)
    return (
        AccountedEpsilon("rdp", epsilon_rdp(composed, delta)),
        AccountedEpsilon("analytic_gaussian", exact),
    )


@dataclass(frozen=True)
class SampledRounds:
    """Rounds of the Gaussian mechanism on a Poisson sample.

    Attributes:
      probability: of a client in a round, in (0, 1).
      noise_multiplier: of one round.
      rounds: how many.
    """

    probability: float
    noise_multiplier: float
    rounds: int

    @property
    def event(self) -> dp_accounting.DpEvent:
        """The rounds in dp-accounting's terms."""
        gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier)
        sampled = dp_accounting.PoissonSampledDpEvent(self.probability, gaussian)
        return dp_accounting.SelfComposedDpEvent(sampled, self.rounds)


def epsilon_rdp(
    event: dp_accounting.DpEvent, delta: float, orders: Sequence[float] = RDP_ORDERS
) -> float:
    """Epsilon by Renyi DP (Mironov et al. 2019, arXiv:1908.10530).

    Args:
      event: what was released.
      delta: in (0, 1).
      orders: Renyi orders to take the best of, each above 1.
    """
    accountant = RdpAccountant(orders=list(orders)).compose(event)
    divergences = np.maximum(accountant.rdp, _RDP_ROUNDING)
    epsilon, _ = compute_epsilon(accountant.orders, divergences, delta)
    return float(epsilon)


def epsilon_pld(rounds: SampledRounds, delta: float) -> AccountedEpsilon:
    """Epsilon by privacy loss distributions (Doroshenko et al. 2022, arXiv:2207.04380).

    Losses are rounded pessimistically, so that a coarse grid overstates epsilon and never
    understates it.

    Args:
      rounds: what was released.
      delta: in (0, 1).
    """
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
    # rounding makes a loss distribution that is none.
    if math.isinf(epsilon):
        reason = "the privacy loss distribution exhausts floating point here"
        return AccountedEpsilon("pld", None, reason)
    return AccountedEpsilon("pld", epsilon)


def _loss_width(rounds: SampledRounds) -> float:
    """About the width of the composed privacy loss, all but 1e-15 of it, in nats."""
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
