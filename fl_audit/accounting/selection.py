"""The privacy cost of training several times on the same data and releasing one of the models.

Every run reads the data. Two bounds are known for the one model that is released.

- **Composition** of all runs holds even if all are released. Runs that are each one Gaussian
  release compose to one Gaussian release, whose mu^2 is the sum of the runs' mu^2 (Dong, Roth & Su
  2019, arXiv:1905.02383, corollary 3.3); other runs are composed by Renyi DP.
- **Private selection** (Liu & Talwar 2019, arXiv:1811.07971; Papernot & Steinke 2022,
  arXiv:2110.03620) is far smaller for many runs, and holds if only the best run's model is released
  and if the number of runs is drawn at random, independently of the data, and kept secret. With a
  geometric number of runs, theorem 2 of Papernot & Steinke (eta = 1) gives for every pair of orders
  lambda, lambda-hat

      rho'(lambda) <= rho(lambda) + 2 (1 - 1 / lambda-hat) rho(lambda-hat)
                      + 2 log(1 / gamma) / lambda-hat + log(E K) / (lambda - 1),

  with K the number of runs and 1 / gamma its mean. Each run draws one of the candidate settings
  anew, and rho bounds the Renyi divergences of every candidate. dp-accounting has this bound.

A grid of settings, each run once, has a fixed number of runs. So the second bound does not hold for
it, but shows what a random number of runs would have cost.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.attacker_bounds import GaussianPair, attacker_bounds
from fl_audit.accounting.gaussian_accountants import SampledRounds
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.renyi import RDP_ORDERS, epsilon_of_divergences
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.gaussian.fit import epsilon_over_all_regions


@dataclass(frozen=True)
class SelectionPrice:
    """The privacy cost of several runs on the same data, for a client.

    Attributes:
      num_runs: The number of runs.
      delta: The delta of the epsilons.
      composed: Epsilon by composition of all runs, which always holds; infinite if a run has no
        noise, None if unknown.
      if_drawn: Epsilon of the released model by private selection, had the number of runs been
        geometric with mean `num_runs`; infinite if a run has no noise, None if unknown.
      unknown: Why neither is known, in words; None otherwise.
    """

    num_runs: int
    delta: float
    composed: float | None
    if_drawn: float | None
    unknown: str | None = None


def price_of_selection(releases: Sequence[Release], delta: float) -> SelectionPrice:
    """The privacy cost of several runs on the same data, at least one, for a client.

    >>> from fl_audit.accounting import Denominator, FixedRounds, Noise
    >>> once = Party(FixedRounds(1))
    >>> noise, cohort = Noise("gaussian", 4.0, 4.0), Denominator("expected_cohort", 20.0)
    >>> run = Release(rounds=100, noise=noise, denominator=cohort, client=once, canary=once)
    >>> price = price_of_selection([run] * 12, 1e-5)
    >>> round(price_of_selection([run], 1e-5).composed, 2), round(price.composed, 2)
    (0.93, 3.71)
    >>> round(price.if_drawn, 2)
    2.2
    """
    number = len(releases)
    if any(release.noise.noise_multiplier == 0 for release in releases):
        return SelectionPrice(number, delta, math.inf, math.inf)
    runs = [_run(release, release.client, delta) for release in releases]
    known = [run for run in runs if run is not None]
    if len(known) < number:
        reason = (
            f"{number - len(known)} of {number} runs draw rounds or add noise in a way that no "
            "accountant here composes over runs"
        )
        return SelectionPrice(number, delta, None, None, reason)
    return SelectionPrice(number, delta, _composed(known, delta), _if_drawn(known, delta))


def _run(release: Release, party: Party, delta: float) -> GaussianPair | SampledRounds | None:
    """A run as one Gaussian release or sampled rounds; None if the run is neither."""
    if isinstance(party.sampling, PoissonSampling) and party.sampling.probability < 1:
        if release.zeroing == "adaptive" or release.noise.distribution != "gaussian":
            return None
        noise = release.noise.noise_multiplier
        return SampledRounds(party.sampling.probability, noise, release.rounds)
    pair = attacker_bounds(release, party, delta).knowing_rounds.pair
    return pair if isinstance(pair, GaussianPair) else None


def _divergences(run: GaussianPair | SampledRounds) -> npt.NDArray[np.float64]:
    """The Rényi divergences of a run, at `RDP_ORDERS` (Mironov 2017, proposition 7)."""
    if isinstance(run, SampledRounds):
        return run.divergences
    return run.shift**2 / 2 * np.array(RDP_ORDERS)


def _composed(runs: Sequence[GaussianPair | SampledRounds], delta: float) -> float:
    divergences = sum(number * _divergences(run) for run, number in Counter(runs).items())
    bounds = [epsilon_of_divergences(RDP_ORDERS, np.asarray(divergences), delta)]
    shifts = [run.shift for run in runs if isinstance(run, GaussianPair)]
    if len(shifts) == len(runs):
        together = Gaussian(math.hypot(*shifts), 1.0)
        bounds.append(epsilon_over_all_regions(Gaussian(0.0, 1.0), together, delta))
    return min(bounds)


def _if_drawn(runs: Sequence[GaussianPair | SampledRounds], delta: float) -> float | None:
    """Theorem 2 of Papernot & Steinke for a geometric number of runs, each as costly as the worst.

    None if only some runs are sampled, as no run need then be the worst at every order.
    """
    shifts = [run.shift for run in runs if isinstance(run, GaussianPair)]
    sampled = [run for run in runs if isinstance(run, SampledRounds)]
    if shifts and sampled:
        return None
    one = _divergences(
        GaussianPair(max(shifts))
        if shifts
        else SampledRounds(
            max(run.probability for run in sampled),
            min(run.noise_multiplier for run in sampled),
            max(run.rounds for run in sampled),
        )
    )
    orders, log_mean = np.array(RDP_ORDERS), math.log(len(runs))
    constant = 2 * float(np.min((1 - 1 / orders) * one + log_mean / orders))
    repeated = one + constant + log_mean / (orders - 1)
    return epsilon_of_divergences(RDP_ORDERS, repeated, delta)
