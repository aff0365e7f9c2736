"""The laws of noise that accounting knows: what each guarantees, and on what condition.

A mechanism names its law explicitly, and run.json names it by its name. A user's own law is a
`NoiseLaw` that is registered here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fl_audit.accounting.guarantee import Guarantee, none_known
from fl_audit.accounting.noisy_rounds import NoisyRounds, Party
from fl_audit.registry import Registry


@dataclass(frozen=True)
class NoiseLaw:
    """The record of all that accounting knows of one law of noise.

    Attributes:
      name: The name of the law in run.json.
      guarantee: The guarantee to a party from the noise of some rounds, zeroing left out.
      counts_drawing: Whether the guarantee relies on nobody knowing who is drawn into a round,
        where rounds are drawn.
      release_assumptions: Sentences that say what counts as released.
      noise_assumption: A sentence that says what has to hold of the noise.
    """

    name: str
    guarantee: Callable[[NoisyRounds, Party], Guarantee]
    counts_drawing: bool
    release_assumptions: tuple[str, ...]
    noise_assumption: str


NOISE_LAWS = Registry[NoiseLaw]("noise law")
"""All laws of noise, by their names in run.json."""

register_noise_law = NOISE_LAWS.register
remove_noise_law = NOISE_LAWS.remove


def noise_law_named(name: str) -> NoiseLaw:
    """The law with a name.

    Raises:
      ValueError: No law of this name is registered.
    """
    if name not in NOISE_LAWS:
        raise ValueError(f"noise_law must be one of {', '.join(NOISE_LAWS)}, got {name!r}")
    return NOISE_LAWS[name]


def without_noise(run: NoisyRounds, party: Party) -> Guarantee:
    """The guarantee of no noise at all, whatever its law: epsilon is infinite."""
    from fl_audit.accounting.accountants import account_gaussian  # takes a second to import

    return Guarantee(party.participations, account_gaussian(0.0, 1, run.delta))


def _independent(run: NoisyRounds, party: Party) -> Guarantee:
    """The guarantee of Gaussian noise that every round draws anew."""
    if party.participations is not None:
        return _fixed_participation(run, party.participations)
    if run.sampling_probability is not None:
        return _poisson(run, run.sampling_probability)
    if run.sample_size is not None and run.sampled_from is not None:
        return _fixed_size(run, run.sample_size, run.sampled_from)
    return none_known(None, "the number of rounds that it takes part in is not known")


def _fixed_participation(run: NoisyRounds, participations: int) -> Guarantee:
    from fl_audit.accounting.accountants import account_gaussian

    by_accountant = account_gaussian(run.noise_multiplier, participations, run.delta)
    return Guarantee(participations, by_accountant)


def _poisson(run: NoisyRounds, probability: float) -> Guarantee:
    from fl_audit.accounting.accountants import SampledRounds, account_sampled

    if probability == 1:
        return _fixed_participation(run, run.rounds)
    rounds = SampledRounds(probability, run.noise_multiplier, run.rounds)
    return Guarantee(None, account_sampled(rounds, run.delta))


def _fixed_size(run: NoisyRounds, sample_size: int, sampled_from: int) -> Guarantee:
    from fl_audit.accounting.accountants import FixedSizeRounds, account_fixed_size

    if sample_size == sampled_from:
        return _fixed_participation(run, run.rounds)
    rounds = FixedSizeRounds(sample_size, sampled_from, run.noise_multiplier, run.rounds)
    return Guarantee(None, account_fixed_size(rounds, run.delta))


def _tree(run: NoisyRounds, party: Party) -> Guarantee:
    """The guarantee of Gaussian noise on the nodes of trees, all of which are one release."""
    from fl_audit.accounting.accountants import account_gaussian

    if run.noise_multiplier == 0:
        return without_noise(run, party)
    if party.participations is None or party.squared_sensitivity is None:
        return none_known(
            party.participations,
            "no accountant at hand counts noise that is correlated over rounds together with "
            "rounds that are drawn at random",
        )
    by_accountant = account_gaussian(run.noise_multiplier, party.squared_sensitivity, run.delta)
    return Guarantee(party.participations, by_accountant)


def _skellam(run: NoisyRounds, party: Party) -> Guarantee:
    """The guarantee of Skellam noise under an adaptive clip norm."""
    if run.noise_multiplier == 0:
        return without_noise(run, party)
    return none_known(
        party.participations,
        "neither dp-accounting nor TensorFlow Federated has an accountant for Skellam noise under "
        "a clip norm that moves",
    )


GAUSSIAN = register_noise_law(
    NoiseLaw(
        name="gaussian",
        guarantee=_independent,
        counts_drawing=True,
        release_assumptions=(),
        noise_assumption=(
            "Noise is exactly Gaussian: the limits of floating point are not counted."
        ),
    )
)

TREE = register_noise_law(
    NoiseLaw(
        name="tree",
        guarantee=_tree,
        counts_drawing=False,
        release_assumptions=(
            "Every noised node of a tree counts as released, which covers all sums that are made "
            "of nodes; rounds are the worst that the schedule can give.",
        ),
        noise_assumption=(
            "Noise is exactly Gaussian and cannot be guessed: neither the limits of floating point "
            "nor that tensorflow-privacy takes the trees' seed from the clock are counted."
        ),
    )
)

SKELLAM = register_noise_law(
    NoiseLaw(
        name="skellam",
        guarantee=_skellam,
        counts_drawing=False,
        release_assumptions=(),
        noise_assumption="Noise is exactly Skellam, and every client adds its share.",
    )
)
