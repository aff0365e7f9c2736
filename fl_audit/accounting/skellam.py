"""Accounting of Skellam noise that clients add to integers, under secure aggregation.

Each of n participants scales its clipped update, rotates it, rounds it at random to integers and
adds Skellam noise, the difference of two Poisson variables; n such shares are the noise of the sum
(Agarwal, Kairouz & Liu 2021, arXiv:2110.04995, algorithm 1). The sum is released modulo 2^bits,
which reveals no more. Accounting allows for rounding, which lengthens an update of d coordinates by
up to sqrt(d) steps of the grid, and for the missing noise of missing participants.
"""

import numpy as np

from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee, none_known
from fl_audit.accounting.noise_distributions import NoiseDistribution, register_noise_distribution
from fl_audit.accounting.release import Grid, Party, Release
from fl_audit.accounting.renyi import epsilon_of_divergences
from fl_audit.array_types import FloatArray

ORDERS = (*range(2, 257), *(2**power for power in range(9, 13)))
"""The Renyi orders tried; the theorem requires integers."""


def skellam_divergences(squared_norm: float, norm_1: float, variance: float) -> FloatArray:
    """Upper bounds on the Renyi divergences of one release (Agarwal et al., theorem 3.5).

    `squared_norm` and `norm_1` are the largest squared L2 norm and L1 norm of a party's integers;
    `variance` is the variance of the noise on each coordinate. The result is for `ORDERS`, float64
    of shape (orders,).
    """
    orders = np.array(ORDERS, np.float64)
    second = ((2 * orders - 1) * squared_norm + 6 * norm_1) / (4 * variance**2)
    first = 3 * norm_1 / (2 * variance)
    return np.asarray(orders * squared_norm / (2 * variance) + np.minimum(second, first))


def skellam_epsilon(
    grid: Grid, noise_multiplier: float, share: float, rounds: int, delta: float
) -> float:
    """The epsilon of rounds that an attacker may know.

    The L2 norm is at most (1 + inflation) times the clip norm, and the L1 norm at most the squared
    L2 norm, as |k| <= k^2 for integers. `share` is the smallest share of the noise present in any
    round.
    """
    squared_norm = ((1 + grid.norm_inflation) * grid.cells) ** 2
    variance = (noise_multiplier * grid.cells) ** 2 * share
    divergences = skellam_divergences(squared_norm, squared_norm, variance)
    return epsilon_of_divergences(ORDERS, rounds * divergences, delta)


def _guarantee(release: Release, party: Party, delta: float) -> Guarantee:
    noise, rounds = release.noise, party.participations
    if noise.grid is None:
        return none_known(
            rounds,
            "the clip norm is adaptive, and the grid of integers becomes coarser without limit, "
            "relative to a falling clip norm; set mechanism.clip_norm to keep the clip norm fixed",
        )
    if rounds is None:
        return none_known(None, "no accountant here covers both Skellam noise and sampled rounds")
    if rounds == 0:
        return Guarantee(0, (AccountedEpsilon("rdp", 0.0),))
    expected = max(1, round(release.denominator.expected))
    share = min(1.0, max(release.fewest or 0, 1) / expected)
    epsilon = skellam_epsilon(noise.grid, noise.sum_noise_multiplier, share, rounds, delta)
    return Guarantee(rounds, (AccountedEpsilon("rdp", epsilon),))


SKELLAM = register_noise_distribution(
    NoiseDistribution(
        name="skellam",
        guarantee=_guarantee,
        counts_drawing=False,
        release_assumptions=(
            "Secure aggregation shows only the sum; a client that sends no update still adds its "
            "noise.",
        ),
        noise_assumption=(
            "Noise is exactly Skellam, and every participant adds its share: as many as in the "
            "smallest round are counted."
        ),
        is_by_participants=True,
    )
)
