"""The analytical epsilon of a run, which its noise guarantees against every attacker.

And the other way round: the noise that a target epsilon needs, whatever decides who participates.
"""

import decimal
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, assert_never

from scipy import optimize

from fl_audit.accounting.guarantee import Guarantee, none_known
from fl_audit.accounting.noise_laws import NoiseLaw, noise_law_named, without_noise
from fl_audit.accounting.noisy_rounds import NoisyRounds, Party
from fl_audit.errors import InputError

ADD_OR_REMOVE = "one client more or less in the population (add or remove one)"
ZERO_OUT = "one client replaced by one that sends nothing (zero-out); the schedule stays the same"

_MOVING_ZEROING = (
    "the zeroing norm follows a quantile of the updates that is not noised, so that one client can "
    "decide whether others are zeroed in later rounds"
)


@dataclass(frozen=True)
class Accounting:
    """The analytical epsilon of a run, with the conditions under which it holds.

    Attributes:
      delta: The delta of (epsilon, delta)-DP.
      neighbours: The two runs that are compared, in words.
      assumes: The conditions that have to hold, in words.
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
        """The larger of the epsilons of a real client and of an included canary.

        It is None where the guarantee to either is unknown.
        """
        client, canary = self.client.epsilon, self.canary.epsilon
        return None if client is None or canary is None else max(client, canary)


def account(run: NoisyRounds) -> Accounting:
    """The analytical epsilon of a run, to a real client and to an included canary.

    Raises:
      ValueError: The run's noise law is not registered.
    """
    law = noise_law_named(run.noise_law)
    client = guarantee_to(run, law, run.client)
    return Accounting(
        delta=run.delta,
        neighbours=_neighbours(run, law),
        assumes=_assumptions(run, law),
        client=client,
        canary=client if run.canary == run.client else guarantee_to(run, law, run.canary),
    )


def _neighbours(run: NoisyRounds, law: NoiseLaw) -> str:
    """The two runs in words; under Poisson sampling a client that sends nothing is absent."""
    all_drawn = run.client.participations is None and run.canary.participations is None
    is_poisson = all_drawn and run.sampling_probability is not None
    return ADD_OR_REMOVE if is_poisson and law.counts_drawing else ZERO_OUT


def guarantee_to(run: NoisyRounds, law: NoiseLaw, party: Party) -> Guarantee:
    """The guarantee to a party by the law of the noise, zeroing counted.

    Args:
      run: The noisy rounds of the run.
      law: The law of its noise.
      party: One of its parties.
    """
    match run.zeroing:
        case "none" | "fixed":
            return law.guarantee(run, party)
        case "adaptive" if run.noise_multiplier == 0:
            return without_noise(run, party)
        case "adaptive":
            return none_known(party.participations, _MOVING_ZEROING)
        case _:
            assert_never(run.zeroing)


def _assumptions(run: NoisyRounds, law: NoiseLaw) -> tuple[str, ...]:
    return (
        "The attacker sees the noised sum of every round"
        + (" and the noised count that moves the clip norm" if run.count_noise_stddev else "")
        + ", and the initial model; not a round's unnoised loss or accuracy.",
        *law.release_assumptions,
        *_zeroing_assumptions(run),
        *_participation_assumptions(run, law),
        law.noise_assumption,
    )


def _zeroing_assumptions(run: NoisyRounds) -> tuple[str, ...]:
    match run.zeroing:
        case "none" | "adaptive":
            return ()
        case "fixed":
            return ("Whether an update is zeroed depends on that update alone.",)
        case _:
            assert_never(run.zeroing)


def _participation_assumptions(run: NoisyRounds, law: NoiseLaw) -> tuple[str, ...]:
    """The conditions on the schedule, those on real clients first."""
    client = _participation_assumption(run, law, run.client)
    canary = _participation_assumption(run, law, run.canary)
    if client == canary:
        return (client,)
    return f"For real clients: {client}", f"For canaries: {canary}"


def _participation_assumption(run: NoisyRounds, law: NoiseLaw, party: Party) -> str:
    counts_drawing = party.participations is None and law.counts_drawing
    if counts_drawing and run.sampling_probability is not None:
        return (
            "Each client is in each round with probability "
            f"{run.sampling_probability:.3g}, independently, and nobody sees who was."
        )
    if counts_drawing and run.sample_size is not None:
        return (
            f"Each round draws {run.sample_size} of {run.sampled_from} uniformly without "
            "replacement. For Rényi DP nobody sees who was drawn, and a client may even be "
            "replaced by any other; the other accountant lets the attacker see who was."
        )
    return (
        "Nothing is gained from the order of clients being random: the attacker may know "
        "which rounds a client takes part in."
    )


# The noise that a target epsilon needs.


_LARGEST_LOG = 28.0
"""The log of the largest noise multiplier that is tried; nothing is learned with it."""

_STEP = math.log(2.0)
"""The step, in the log of the noise multiplier, of the search for a bracket."""

_LOG_WIDTH = 5e-5
"""The width, in the log of the noise multiplier, to which it is solved for."""

_DIGITS = 6
"""The digits of the noise multiplier that is found, so that it can be copied."""

_LARGE_EXCESS = 50.0
"""The log of a ratio of epsilons that stands for an infinite one."""


def noise_multiplier_for(epsilon: float, epsilon_of: Callable[[float], float | None]) -> float:
    """The smallest noise multiplier whose analytical epsilon is at most a target, to 1e-4.

    It is rounded up to six digits. The one that is returned has been accounted itself, so that the
    target holds for it and not only nearly.

    Args:
      epsilon: The target, above 0 and finite.
      epsilon_of: A function that gives the analytical epsilon of a noise multiplier, and does not
        rise with it; None where none is known.

    Raises:
      InputError: The target is out of range, no epsilon is known, or no noise is enough.

    >>> round(noise_multiplier_for(0.5, lambda z: 1 / z), 3)
    2.0
    """
    if not 0 < epsilon < math.inf:
        raise InputError(f"the target epsilon must be a finite number above 0, got {epsilon}")

    @functools.cache
    def excess(log_multiplier: float) -> float:
        """Log epsilon above the target's, kept finite for the solver."""
        found = epsilon_of(math.exp(log_multiplier))
        if found is None:
            raise InputError("no accountant knows the analytical epsilon of such a run")
        if found == 0:
            return -_LARGE_EXCESS
        return min(max(math.log(found / epsilon), -_LARGE_EXCESS), _LARGE_EXCESS)

    below, above = 0.0, _STEP
    while excess(above) > 0:
        below, above = above, above + _STEP
        if above > _LARGEST_LOG:
            raise InputError(f"no noise gives epsilon {epsilon:g}")
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
    """The least number of so many digits that is not below a positive value."""
    digits = decimal.Context(prec=_DIGITS, rounding=decimal.ROUND_CEILING)
    return float(digits.create_decimal(value))
