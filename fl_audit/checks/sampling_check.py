"""Tests whether cohorts are Poisson sampled, on which amplified accounting relies.

Under Poisson sampling every client is in every round with the same probability, independently. The
sizes of rounds are then independent and binomial, and so are the clients' numbers of rounds. Rounds
of equal size vary too little; so do the clients' numbers of rounds if every client participates
once in an epoch. Participation is also independent of earlier participation; only a test of this
independence finds clients that participate in blocks of rounds, or in every tenth round.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy import optimize

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.checks.check import Check, compared, failed
from fl_audit.checks.noise_rows import binomial_divergence
from fl_audit.errors import InputError


def check_poisson(
    cohorts: Sequence[IntArray], num_clients: int, probability: float
) -> tuple[Check, ...]:
    """Checks the cohorts of a run against Poisson sampling.

    Args:
      cohorts: The clients of each round, by number from 0; a client that participates twice is
        listed twice.
      num_clients: The number of clients that may participate, at least 1.
      probability: The probability of each client in each round, in (0, 1).

    Returns:
      The findings `once_a_round`, `rounds_vary`, `clients_vary`, `mean_cohort` and
      `clients_return`; a correct sampler fails each with probability at most 1e-6.

    Raises:
      InputError: There are no rounds or clients, or a client or the probability is out of range.
    """
    if not len(cohorts) or num_clients < 1 or not 0 < probability < 1:
        raise InputError(
            "cohorts: there must be a round, a client, and a probability in (0, 1), got "
            f"{len(cohorts)}, {num_clients} and {probability}"
        )
    sampled = np.concatenate([np.asarray(cohort, np.int64) for cohort in cohorts])
    if len(sampled) and not 0 <= sampled.min() <= sampled.max() < num_clients:
        raise InputError(f"cohorts: clients must be in 0 to {num_clients - 1}")
    sizes = np.array([len(cohort) for cohort in cohorts], np.float64)
    counts = np.bincount(sampled, minlength=num_clients).astype(np.float64)
    return (
        _once(cohorts),
        _varies("rounds_vary", "sizes of the rounds", sizes, num_clients, probability),
        _varies("clients_vary", "clients' numbers of rounds", counts, len(cohorts), probability),
        _mean(len(sampled), len(cohorts) * num_clients, probability, len(cohorts)),
        clients_return(cohorts, num_clients, probability),
    )


def check_rounds(canary_rounds: Sequence[IntArray]) -> Check:
    """Tests whether a canary participates twice in a round; rounds count from 0."""
    repeated = [rounds[1:][np.diff(rounds) == 0] for rounds in map(np.sort, canary_rounds)]
    twice = np.concatenate([*repeated, np.zeros(0, np.int64)])
    return Check(
        name="once_a_round",
        log_p=-math.inf if len(twice) else 0.0,
        num_tests=len(canary_rounds),
        round=int(twice.min()) + 1 if len(twice) else None,
        variable=None,
        ratio=float(len(twice)),
    )


def _once(cohorts: Sequence[IntArray]) -> Check:
    expected = "no client participates twice in a round"
    twice = sum(len(cohort) - len(np.unique(cohort)) for cohort in cohorts)
    if twice:
        return failed("once_a_round", expected, f"{twice} repeated participations")
    return compared("once_a_round", expected, "no client does")


def _varies(name: str, what: str, values: FloatArray, trials: int, probability: float) -> Check:
    """The finding on the variance of binomial values around their exact mean."""
    variance = trials * probability * (1 - probability)
    squares = (values - trials * probability) ** 2
    ratio = float(squares.mean() / variance)
    log_p = log_p_dispersion(float(squares.sum()), len(values), trials, probability)
    return compared(
        name,
        f"the {what} vary as under independent draws",
        f"a variance {ratio:.3g} times that of the binomial distribution",
        log_p=log_p,
        ratio=ratio,
    )


def log_p_dispersion(squares: float, count: int, trials: int, probability: float) -> float:
    """An upper bound on the log probability of a sum of squared deviations this extreme.

    It is Chernoff's bound for both tails, with the exact generating function of the squared
    deviation of a binomial variable from its mean.
    """
    from scipy import stats  # imported here: it takes half a second

    outcomes = np.arange(trials + 1)
    log_mass = stats.binom.logpmf(outcomes, trials, probability)
    deviations = (outcomes - trials * probability) ** 2

    def bound(sign: float) -> Callable[[float], float]:
        def log_tail(log_weight: float) -> float:
            weight = sign * math.exp(log_weight)
            terms = log_mass + weight * deviations
            return float(count * np.logaddexp.reduce(terms) - weight * squares)

        return log_tail

    # Weights are e^-14 to e^14, divided by the variance: negligible to more than any tail needs.
    unit = -math.log(trials * probability * (1 - probability))
    tails = [
        optimize.minimize_scalar(bound(sign), bounds=(unit - 14, unit + 14), method="bounded").fun
        for sign in (1.0, -1.0)
    ]
    return float(min(0.0, min(tails) + math.log(2)))


def clients_return(cohorts: Sequence[IntArray], num_clients: int, probability: float) -> Check:
    """Tests whether a participation changes the chance of another one some rounds later.

    The finding is for the distance d, in rounds, with the smallest p-value. For a fixed d, let m be
    the number of participations after which the run has a round d rounds later, and n the number of
    these in which the client also participates in that later round. If every client joins each
    round independently with `probability`, then for any a, exp(a n) divided by the m-th power of
    the moment generating function of one draw is a supermartingale in the round index, also for
    samples of fixed size (Hoeffding 1963, theorem 4). So for a given m and tail, the probability of
    m D(n / m || probability) > y is at most e^-y (Chernoff). A union bound over both tails, all m
    and all distances multiplies it by 2, the number of participations and the number of distances.
    """
    rounds = len(cohorts)
    present = np.zeros((num_clients, rounds), np.float32)
    for index, cohort in enumerate(cohorts):
        present[cohort, index] = 1
    again = _pairs_by_distance(present)
    sizes = present.sum(axis=0, dtype=np.float64)
    before = np.cumsum(sizes)[: rounds - 1][::-1]  # at distances 1, 2, ...
    if not before.any():
        return compared("clients_return", _RETURN, "no client participated before the last round")
    share = again / np.maximum(before, 1)
    log_p = -before * binomial_divergence(share, np.full(len(share), probability))
    at = int(np.argmin(log_p))
    ratio = float(share[at] / probability)
    return compared(
        "clients_return",
        _RETURN,
        f"{ratio:.3g} times as often as expected, {at + 1} rounds after a participation",
        log_p=min(0.0, float(log_p[at]) + math.log(2 * len(share) * sizes.sum())),
        ratio=ratio,
    )


_RETURN = "whether a client participates does not depend on its participation some rounds before"


def _pairs_by_distance(present: npt.NDArray[np.float32]) -> FloatArray:
    """The number of pairs of a client's rounds at distances 1, 2, …, of shape (rounds - 1,)."""
    from scipy import fft  # imported here because it takes a fifth of a second

    rounds = present.shape[1]
    size = fft.next_fast_len(2 * rounds, real=True)
    power = np.zeros(size // 2 + 1)
    for start in range(0, len(present), _CLIENTS):
        spectrum = fft.rfft(present[start : start + _CLIENTS], size, axis=1)
        power += (spectrum.real**2 + spectrum.imag**2).sum(axis=0, dtype=np.float64)
    pairs: FloatArray = np.rint(fft.irfft(power, size)[1:rounds])
    return pairs


_CLIENTS = 1000
"""The number of clients processed at once."""


def _mean(sampled: int, trials: int, probability: float, rounds: int) -> Check:
    from scipy import stats  # imported here: it takes half a second

    distribution = stats.binom(trials, probability)
    log_p = min(distribution.logcdf(sampled), distribution.logsf(sampled - 1)) + math.log(2)
    return compared(
        "mean_cohort",
        f"rounds have {trials * probability / rounds:.4g} clients on average",
        f"{sampled / rounds:.4g}",
        log_p=float(min(0.0, log_p)),
        ratio=sampled / (trials * probability),
    )
