"""The analytical epsilon of a run: what its noise guarantees, whatever the attacker does."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

from fl_audit.accounting.accountants import (
    AccountedEpsilon,
    FixedSizeRounds,
    SampledRounds,
    account_fixed_size,
    account_gaussian,
    account_sampled,
)
from fl_audit.formats.run_folder import NoiseLaw, RunRecord, ZeroingKind

ADD_OR_REMOVE = "one client more or less in the population (add or remove one)"
ZERO_OUT = "one client replaced by one that sends nothing (zero-out); the schedule stays the same"

_MOVING_ZEROING = (
    "the zeroing norm follows a quantile of the updates that is not noised, so that one client can "
    "decide whether others are zeroed in later rounds"
)
_SKELLAM = (
    "neither dp-accounting nor TensorFlow Federated has an accountant for Skellam noise under a "
    "clip norm that moves"
)
_SAMPLED_TREE = (
    "no accountant at hand counts noise that is correlated over rounds together with rounds that "
    "are drawn at random"
)


@dataclass(frozen=True)
class NoisyRounds:
    """All that accounting needs to know of a run.

    Attributes:
      rounds: rounds of training.
      delta: in (0, 1).
      noise_multiplier: effective noise multiplier of one round, everything released counted; of
        one node under tree aggregation.
      sum_noise_multiplier: noise on the sum of updates over the clip norm; likewise.
      count_noise_stddev: noise on the adaptive clip's count, in clients; 0 without one.
      sampling_probability: of one client in one round under Poisson sampling, which holds for
        everybody whose participations are None; else None.
      client_participations: rounds that a real client takes part in at most; None if random.
      canary_participations: the same for an included canary.
      sample_size: like `sampling_probability`, how many every round draws uniformly without
        replacement; else None.
      sampled_from: out of how many.
      noise_law: what noise is added.
      zeroing: what is done to updates before they are clipped.
      client_squared_sensitivity: under tree aggregation, how far a real client moves the nodes of
        all trees together, squared, in clip norms; None where its rounds are random.
      canary_squared_sensitivity: the same for an included canary.

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
    sample_size: int | None = None
    sampled_from: int | None = None
    noise_law: NoiseLaw = "gaussian"
    zeroing: ZeroingKind = "none"
    client_squared_sensitivity: int | None = None
    canary_squared_sensitivity: int | None = None

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
        if self.sample_size is not None and not 0 < self.sample_size <= (self.sampled_from or 0):
            raise ValueError(
                f"sample_size must be from 1 to sampled_from, which is {self.sampled_from}, got "
                f"{self.sample_size}"
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
class Guarantee:
    """What the noise guarantees to one party.

    Attributes:
      participations: rounds it takes part in at most; None where sampling decides, or unknown.
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
    parties = (run.client_participations, run.canary_participations)
    sensitivities = (run.client_squared_sensitivity, run.canary_squared_sensitivity)
    client, canary = (_guarantee(run, *party) for party in zip(parties, sensitivities, strict=True))
    # Under Poisson sampling, a client that sends nothing is one that is not there.
    is_poisson = parties == (None, None) and run.sampling_probability is not None
    neighbours = ADD_OR_REMOVE if is_poisson and run.noise_law == "gaussian" else ZERO_OUT
    return Accounting(run.delta, neighbours, _assumptions(run), client, canary)


def _guarantee(
    run: NoisyRounds, participations: int | None, squared_sensitivity: int | None
) -> Guarantee:
    if run.noise_law == "gaussian" and run.zeroing != "adaptive":
        return _independent(run, participations)
    if run.noise_multiplier == 0:
        return Guarantee(participations, account_gaussian(0.0, 1, run.delta))
    if run.zeroing == "adaptive":
        return _none_known(participations, _MOVING_ZEROING)
    if run.noise_law == "skellam":
        return _none_known(participations, _SKELLAM)
    if participations is None or squared_sensitivity is None:
        return _none_known(participations, _SAMPLED_TREE)
    by_accountant = account_gaussian(run.noise_multiplier, squared_sensitivity, run.delta)
    return Guarantee(participations, by_accountant)


def _none_known(participations: int | None, reason: str) -> Guarantee:
    return Guarantee(participations, (AccountedEpsilon("none_known", None, reason),))


def _independent(run: NoisyRounds, participations: int | None) -> Guarantee:
    """Of Gaussian noise that every round draws anew."""
    if participations is not None:
        return _fixed_participation(run, participations)
    if run.sampling_probability is not None:
        return _poisson(run, run.sampling_probability)
    if run.sample_size is not None and run.sampled_from is not None:
        return _fixed_size(run, run.sample_size, run.sampled_from)
    return _none_known(None, "the number of rounds that it takes part in is not known")


def _fixed_participation(run: NoisyRounds, participations: int) -> Guarantee:
    by_accountant = account_gaussian(run.noise_multiplier, participations, run.delta)
    return Guarantee(participations, by_accountant)


def _poisson(run: NoisyRounds, probability: float) -> Guarantee:
    if probability == 1:
        return _fixed_participation(run, run.rounds)
    rounds = SampledRounds(probability, run.noise_multiplier, run.rounds)
    return Guarantee(None, account_sampled(rounds, run.delta))


def _fixed_size(run: NoisyRounds, sample_size: int, sampled_from: int) -> Guarantee:
    if sample_size == sampled_from:
        return _fixed_participation(run, run.rounds)
    rounds = FixedSizeRounds(sample_size, sampled_from, run.noise_multiplier, run.rounds)
    return Guarantee(None, account_fixed_size(rounds, run.delta))


def _assumptions(run: NoisyRounds) -> tuple[str, ...]:
    return (
        "The attacker sees the noised sum of every round"
        + (" and the noised count that moves the clip norm" if run.count_noise_stddev else "")
        + ", and the initial model; not a round's unnoised loss or accuracy.",
        *_mechanism_assumptions(run),
        *_participation_assumptions(run),
        _NOISE_ASSUMPTIONS[run.noise_law],
    )


_NOISE_ASSUMPTIONS: dict[NoiseLaw, str] = {
    "gaussian": "Noise is exactly Gaussian: the limits of floating point are not counted.",
    "tree": (
        "Noise is exactly Gaussian and cannot be guessed: neither the limits of floating point nor "
        "that tensorflow-privacy takes the trees' seed from the clock are counted."
    ),
    "skellam": "Noise is exactly Skellam, and every client adds its share.",
}


def _mechanism_assumptions(run: NoisyRounds) -> Iterator[str]:
    if run.noise_law == "tree":
        yield (
            "Every noised node of a tree counts as released, which covers all sums that are made "
            "of nodes; rounds are the worst that the schedule can give."
        )
    if run.zeroing == "fixed":
        yield "Whether an update is zeroed depends on that update alone."


def _participation_assumptions(run: NoisyRounds) -> tuple[str, ...]:
    """What is taken for granted of the schedule, of real clients first."""
    client = _participation_assumption(run, run.client_participations)
    canary = _participation_assumption(run, run.canary_participations)
    if client == canary:
        return (client,)
    return f"For real clients: {client}", f"For canaries: {canary}"


def _participation_assumption(run: NoisyRounds, participations: int | None) -> str:
    is_drawn = participations is None and run.noise_law == "gaussian"
    if is_drawn and run.sampling_probability is not None:
        return (
            "Each client is in each round with probability "
            f"{run.sampling_probability:.3g}, independently, and nobody sees who was."
        )
    if is_drawn and run.sample_size is not None:
        return (
            f"Each round draws {run.sample_size} of {run.sampled_from} uniformly without "
            "replacement. For Rényi DP nobody sees who was drawn, and a client may even be "
            "replaced by any other; the other accountant lets the attacker see who was."
        )
    return (
        "Nothing is gained from the order of clients being random: the attacker may know "
        "which rounds a client takes part in."
    )
