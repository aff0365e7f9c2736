"""What it costs to train several times on the same data and to release one of the models.

Every run reads the data. Two bounds are known for the one model that is released.

- **Composition** of all runs holds whatever is done with them: it counts as if all of them had been
  released. Runs that are one Gaussian release each compose to one Gaussian release, with mu^2 the
  sum of theirs (Dong, Roth & Su 2019, arXiv:1905.02383, corollary 3.3); others by Renyi DP.
- **Private selection** (Liu & Talwar 2019, arXiv:1811.07971; Papernot & Steinke 2022,
  arXiv:2110.03620) is far smaller, and holds where only the best run's model is released and where
  how often training is repeated is drawn at random, independently of the data, and not told. With
  a geometric number of runs, theorem 2 of Papernot & Steinke (eta = 1) gives for every pair of
  orders lambda, lambda-hat

      rho'(lambda) <= rho(lambda) + 2 (1 - 1 / lambda-hat) rho(lambda-hat)
                      + 2 log(1 / gamma) / lambda-hat + log(E K) / (lambda - 1),

  with K the number of runs and 1 / gamma its mean. Each repetition draws its settings anew from the
  candidates, and all of these have the Renyi divergences rho. dp-accounting computes it.

A grid of settings, each run once, has a number of runs that nobody drew. The condition is not met,
and the second bound does not hold for it; it is given as what the same effort could have had.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fl_audit.accounting.attacker_bounds import GaussianPair, attacker_bounds
from fl_audit.accounting.gaussian_accountants import epsilon_rdp
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.sampling import PoissonSampling
from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.gaussian.fit import epsilon_over_all_regions

if TYPE_CHECKING:
    import dp_accounting


_NO_SHIFT = 1e-9
"""The shift that stands for that of a client without a round."""


@dataclass(frozen=True)
class SelectionPrice:
    """What several runs on the same data cost a client.

    Attributes:
      num_runs: The number of runs.
      delta: The delta of the epsilons.
      composed: Epsilon by composition of all runs, which holds in any case; infinite where a run
        has no noise, None where it is not known.
      if_drawn: Epsilon of the released model by private selection, had the number of runs been
        drawn from a geometric distribution with this mean; None where it is not known.
      unknown: Why neither is known, in words; None where they are.
    """

    num_runs: int
    delta: float
    composed: float | None
    if_drawn: float | None
    unknown: str | None = None


def price_of_selection(releases: Sequence[Release], delta: float) -> SelectionPrice:
    """The price to a client of several runs on the same data.

    Args:
      releases: What each run released, at least one.
      delta: The delta of the epsilons, in (0, 1).

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
    events = [_event(release, release.client, delta) for release in releases]
    known = [event for event in events if event is not None]
    if len(known) < number:
        reason = (
            f"{number - len(known)} of {number} runs draw rounds or add noise in a way that no "
            "accountant here composes over runs"
        )
        return SelectionPrice(number, delta, None, None, reason)
    return SelectionPrice(number, delta, _composed(known, delta), _if_drawn(known, delta))


def _event(release: Release, party: Party, delta: float) -> "dp_accounting.DpEvent | None":
    """What a run releases of a party in dp-accounting's terms; None where it has none for it."""
    import dp_accounting

    if isinstance(party.sampling, PoissonSampling) and party.sampling.probability < 1:
        if release.zeroing == "adaptive" or release.noise.distribution != "gaussian":
            return None
        gaussian = dp_accounting.GaussianDpEvent(release.noise.noise_multiplier)
        sampled = dp_accounting.PoissonSampledDpEvent(party.sampling.probability, gaussian)
        return dp_accounting.SelfComposedDpEvent(sampled, release.rounds)
    pair = attacker_bounds(release, party, delta).knowing_rounds.pair
    if not isinstance(pair, GaussianPair):
        return None
    return dp_accounting.GaussianDpEvent(1 / max(pair.shift, _NO_SHIFT))


def _composed(events: "Sequence[dp_accounting.DpEvent]", delta: float) -> float:
    import dp_accounting

    times = Counter(events)
    each = [dp_accounting.SelfComposedDpEvent(event, times[event]) for event in times]
    bounds = [epsilon_rdp(dp_accounting.ComposedDpEvent(each), delta)]
    if all(isinstance(event, dp_accounting.GaussianDpEvent) for event in events):
        mu = math.hypot(*(1 / event.noise_multiplier for event in events))
        bounds.append(epsilon_over_all_regions(Gaussian(0.0, 1.0), Gaussian(mu, 1.0), delta))
    return min(bounds)


def _if_drawn(events: "Sequence[dp_accounting.DpEvent]", delta: float) -> float | None:
    """Theorem 2 of Papernot & Steinke for a geometric number of runs, each like the worst one.

    None where runs with and without sampling stand side by side, of which none need be the worst.
    """
    import dp_accounting
    from dp_accounting.dp_event import RepeatAndSelectDpEvent

    if all(isinstance(event, dp_accounting.GaussianDpEvent) for event in events):
        noise = min(event.noise_multiplier for event in events)
        worst: dp_accounting.DpEvent = dp_accounting.GaussianDpEvent(noise)
    elif all(isinstance(event, dp_accounting.SelfComposedDpEvent) for event in events):
        noise = min(event.event.event.noise_multiplier for event in events)
        share = max(event.event.sampling_probability for event in events)
        sampled = dp_accounting.PoissonSampledDpEvent(share, dp_accounting.GaussianDpEvent(noise))
        worst = dp_accounting.SelfComposedDpEvent(sampled, max(event.count for event in events))
    else:
        return None
    repeated = RepeatAndSelectDpEvent(worst, float(len(events)), shape=1.0)
    return epsilon_rdp(repeated, delta)
