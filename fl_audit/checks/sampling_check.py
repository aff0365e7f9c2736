"""Whether cohorts are drawn as Poisson sampling draws them, which amplified accounting relies on.

Under Poisson sampling every client is in every round with one probability, independently. The sizes
of the rounds are then independent and binomial, and so are the clients' numbers of rounds. Rounds
of one size, and epochs in which everybody comes once, vary too little.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import optimize

from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.checks.check import Check
from fl_audit.checks.replay.trial_rounds import Finding, failed
from fl_audit.errors import InputError


def check_poisson(
    cohorts: Sequence[IndexArray], num_clients: int, probability: float
) -> tuple[Finding, ...]:
    """Checks the cohorts of a run against Poisson sampling.

    Args:
      cohorts: The clients of each round, by number from 0; a client that comes twice stands twice.
      num_clients: The number of clients that might take part, at least 1.
      probability: The probability of each in each round, in (0, 1).

    Returns:
      The findings `once_a_round`, `rounds_vary`, `clients_vary` and `mean_cohort`; a correct
      sampler fails each with a probability of at most 1e-6.

    Raises:
      InputError: There are no rounds, a client's number or the probability is out of range.
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
    )


def check_rounds(canary_rounds: Sequence[IndexArray]) -> Check:
    """The check that no canary takes part twice in a round.

    Args:
      canary_rounds: The rounds, from 0, that each included canary took part in.
    """
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


def _once(cohorts: Sequence[IndexArray]) -> Finding:
    expected = "no client comes twice in a round"
    twice = sum(len(cohort) - len(np.unique(cohort)) for cohort in cohorts)
    if twice:
        return failed("once_a_round", expected, f"{twice} times a client came again")
    return Finding("once_a_round", expected, "so", 0.0, None, 1.0)


def _varies(name: str, what: str, values: FloatArray, trials: int, probability: float) -> Finding:
    """The finding on the variance of values that are binomial, around the mean that they have."""
    variance = trials * probability * (1 - probability)
    squares = (values - trials * probability) ** 2
    ratio = float(squares.mean() / variance)
    log_p = log_p_dispersion(float(squares.sum()), len(values), trials, probability)
    return Finding(
        name,
        f"the {what} vary as independent draws make them",
        f"a variance {ratio:.3g} times that of the binomial distribution",
        log_p,
        None,
        ratio,
    )


def log_p_dispersion(squares: float, count: int, trials: int, probability: float) -> float:
    """A bound on the log probability that squared deviations sum to so much, or so little.

    Chernoff's bound with the exact generating function of the squared deviation from the mean of
    one binomial number, and both tails together.

    Args:
      squares: The sum of squared deviations from the mean.
      count: The number of independent binomial numbers.
      trials: The number of trials of each.
      probability: The probability of a trial.
    """
    from scipy import stats  # here, for it takes half a second

    outcomes = np.arange(trials + 1)
    log_mass = stats.binom.logpmf(outcomes, trials, probability)
    deviations = (outcomes - trials * probability) ** 2

    def bound(sign: float) -> Callable[[float], float]:
        def log_tail(log_weight: float) -> float:
            weight = sign * math.exp(log_weight)
            terms = log_mass + weight * deviations
            return float(count * np.logaddexp.reduce(terms) - weight * squares)

        return log_tail

    # Weights in units of the variance; from hardly any to more than the farthest tail needs.
    unit = -math.log(trials * probability * (1 - probability))
    tails = [
        optimize.minimize_scalar(bound(sign), bounds=(unit - 14, unit + 14), method="bounded").fun
        for sign in (1.0, -1.0)
    ]
    return float(min(0.0, min(tails) + math.log(2)))


def _mean(sampled: int, trials: int, probability: float, rounds: int) -> Finding:
    from scipy import stats  # here, for it takes half a second

    distribution = stats.binom(trials, probability)
    log_p = min(distribution.logcdf(sampled), distribution.logsf(sampled - 1)) + math.log(2)
    return Finding(
        "mean_cohort",
        f"rounds have {trials * probability / rounds:.4g} clients on average",
        f"{sampled / rounds:.4g}",
        float(min(0.0, log_p)),
        None,
        sampled / (trials * probability),
    )
