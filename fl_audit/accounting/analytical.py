"""The analytical epsilon of a run, which its noise guarantees against every attacker."""

from dataclasses import dataclass
from typing import assert_never

from fl_audit.accounting.guarantee import Guarantee, none_known
from fl_audit.accounting.noise_laws import NoiseLaw, noise_law_named, without_noise
from fl_audit.accounting.noisy_rounds import NoisyRounds, Party

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
