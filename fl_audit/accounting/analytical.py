"""The upper bound on a run's epsilon, and the noise that a target epsilon needs."""

import dataclasses
import decimal
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, assert_never

from scipy import optimize

from fl_audit.accounting.gaussian_accountants import without_noise
from fl_audit.accounting.guarantee import Guarantee, none_known
from fl_audit.accounting.lower_bound import epsilon_at_least
from fl_audit.accounting.noise_distributions import (
    GAUSSIAN,
    HOW_OFTEN_UNKNOWN,
    NoiseDistribution,
    noise_distribution_named,
)
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.sampling import ZERO_OUT, OneRoundPerBlock, UnknownRounds
from fl_audit.accounting.secret_sampling import SecretSampling
from fl_audit.errors import InputError

_MOVING_ZEROING = (
    "the zeroing norm follows a quantile of the updates that is not noised, so that one client can "
    "decide whether others are zeroed in later rounds"
)
_FIXED_ZEROING = ("Whether an update is zeroed depends on that update alone.",)


@dataclass(frozen=True)
class Accounting:
    """The analytical epsilon of a run, with the conditions under which it holds.

    Attributes:
      delta: The delta of (epsilon, delta)-DP.
      neighbours: The neighbouring relation, in words.
      assumes: The assumptions, in words.
      client: The guarantee to a real client.
      canary: The guarantee to an included canary.
    """

    JSON_COMPUTED: ClassVar = ("epsilon",)

    delta: float
    neighbours: str
    assumes: tuple[str, ...]
    client: Guarantee
    canary: Guarantee

    @property
    def epsilon(self) -> float | None:
        """The larger epsilon of client and canary; None if either is unknown."""
        client, canary = self.client.epsilon, self.canary.epsilon
        return None if client is None or canary is None else max(client, canary)


def account(release: Release, delta: float) -> Accounting:
    """The analytical epsilon of a release, for a real client and for an included canary.

    Args:
      release: What was released.
      delta: The delta of the guarantee, in (0, 1).

    Raises:
      ValueError: The release's noise distribution is not registered, or delta is out of range.
    """
    check_positive_delta(delta)
    distribution = noise_distribution_named(release.noise.distribution)
    client = guarantee_to(release, release.client, delta)
    is_the_same = release.canary == release.client
    canary = client if is_the_same else guarantee_to(release, release.canary, delta)
    client, canary = (
        dataclasses.replace(guarantee, at_least=_at_least(release, party, delta))
        for guarantee, party in ((client, release.client), (canary, release.canary))
    )
    return Accounting(
        delta=delta,
        neighbours=_neighbours(release, distribution),
        assumes=_assumptions(release, distribution),
        client=client,
        canary=canary,
    )


def check_positive_delta(delta: float) -> None:
    """Raises ValueError unless 0 < delta < 1."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")


def _at_least(release: Release, party: Party, delta: float) -> float | None:
    """The lower bound on epsilon where the upper bound, by a sampling's pair, may be loose."""
    sampling = party.sampling
    is_amplified = isinstance(sampling, SecretSampling) and bool(sampling.amplified_by)
    if not is_amplified or release.noise.noise_multiplier == 0:
        return None
    return epsilon_at_least(release, party, delta, knows_rounds=False)


def guarantee_to(release: Release, party: Party, delta: float) -> Guarantee:
    """The guarantee to a party, with zeroing taken into account."""
    if release.noise.noise_multiplier == 0:
        return without_noise(party, delta)
    match release.zeroing:
        case "none" | "fixed":
            if isinstance(party.sampling, UnknownRounds):
                return none_known(None, HOW_OFTEN_UNKNOWN)
            return noise_distribution_named(release.noise.distribution).guarantee(
                release, party, delta
            )
        case "adaptive":
            return none_known(party.participations, _MOVING_ZEROING)
        case _:
            assert_never(release.zeroing)


def _neighbours(release: Release, distribution: NoiseDistribution) -> str:
    """Both samplings' relation, if equal and if accounting needs secret samples; else zero-out."""
    relations = {party.sampling.neighbours for party in (release.client, release.canary)}
    return relations.pop() if distribution.counts_drawing and len(relations) == 1 else ZERO_OUT


def _assumptions(release: Release, distribution: NoiseDistribution) -> tuple[str, ...]:
    has_count = release.noise.count_noise_stddev != 0
    return (
        "The attacker sees the noised sum of every round"
        + (" and the noised count that moves the clip norm" if has_count else "")
        + ", and the initial model; not a round's unnoised loss or accuracy.",
        *distribution.release_assumptions,
        *(_FIXED_ZEROING if release.zeroing == "fixed" else ()),
        *_participation_assumptions(release, distribution),
        distribution.noise_assumption,
    )


def _participation_assumptions(
    release: Release, distribution: NoiseDistribution
) -> tuple[str, ...]:
    """The assumption on the schedule; if clients' and canaries' differ, both, clients' first."""
    client = _participation_assumption(distribution, release.client)
    canary = _participation_assumption(distribution, release.canary)
    if client == canary:
        return (client,)
    return f"For real clients: {client}", f"For canaries: {canary}"


def _participation_assumption(distribution: NoiseDistribution, party: Party) -> str:
    if distribution.counts_drawing and isinstance(party.sampling, SecretSampling):
        return party.sampling.assumption
    match party.sampling:
        case OneRoundPerBlock(is_drawn=True) if distribution is GAUSSIAN:
            return (
                "With the schedule no amplification is counted. Without it, a client’s round in "
                "each block is uniform and secret (random allocation)."
            )
        case _:
            return (
                "No amplification is counted: the attacker may know in which rounds a client "
                "participates."
            )


# The noise that a target epsilon needs.


_LARGEST_LOG = 28.0
"""The log of the largest noise multiplier tried."""

_STEP = math.log(2.0)
"""Step of the search for a bracket, in the log of the noise multiplier."""

_LOG_WIDTH = 5e-5
"""Tolerance of the solution, in the log of the noise multiplier."""

_DIGITS = 6
"""Significant digits of the noise multiplier, few enough to copy."""

_LARGE_EXCESS = 50.0
"""The largest absolute log of epsilon over the target; the solver needs finite values."""


def noise_multiplier_for(epsilon: float, epsilon_of: Callable[[float], float]) -> float:
    """The smallest noise multiplier whose analytical epsilon is at most a target, to 1e-4.

    It is rounded up to six digits, and the rounded value itself meets the target. `epsilon_of` is a
    function from a noise multiplier to epsilon that never increases.

    >>> round(noise_multiplier_for(0.5, lambda z: 1 / z), 3)
    2.0
    """
    if not 0 < epsilon < math.inf:
        raise InputError(f"the target epsilon must be a finite number above 0, got {epsilon}")

    @functools.cache
    def excess(log_multiplier: float) -> float:
        """Log of epsilon over the target, kept finite for the solver."""
        over = epsilon_of(math.exp(log_multiplier)) / epsilon
        return min(max(math.log(over), -_LARGE_EXCESS), _LARGE_EXCESS) if over else -_LARGE_EXCESS

    below, above = 0.0, _STEP
    while excess(above) > 0:
        below, above = above, above + _STEP
        if above > _LARGEST_LOG:
            raise InputError(f"no noise multiplier gives epsilon {epsilon:g}")
    while below > -_LARGEST_LOG and excess(below) <= 0:
        below, above = below - _STEP, below
    if excess(below) <= 0:
        return math.exp(below)
    enough = float(optimize.brentq(excess, below, above, xtol=_LOG_WIDTH))
    multiplier = _rounded_up(math.exp(enough))
    while excess(math.log(multiplier)) > 0:
        multiplier = _rounded_up(multiplier * math.exp(_LOG_WIDTH))
    return multiplier


def _rounded_up(value: float) -> float:
    """Rounds a positive value up to `_DIGITS` significant digits."""
    digits = decimal.Context(prec=_DIGITS, rounding=decimal.ROUND_CEILING)
    return float(digits.create_decimal(value))
