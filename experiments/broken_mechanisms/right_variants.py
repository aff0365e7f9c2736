"""Correct mechanisms under every kind of participation, whose claims are their analytical epsilon.

All have digits of 40 clients, a model of 2,410 parameters, 200 canaries and 10 rounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fl_audit.config import (
    Audit,
    Bernoulli,
    Canaries,
    Config,
    DigitsTask,
    EveryRound,
    FedAvg,
    GaussianAdaptive,
    GaussianFixed,
    Log,
    Mechanism,
    MinSeparation,
    Participation,
    Shuffle,
    TreeAggregation,
    Uniform,
)

ROUNDS = 10
CLIP = 0.3

Family = Literal["gaussian", "rademacher", "hadamard"]


@dataclass(frozen=True)
class Variant:
    """A correct mechanism under a pattern, audited with canaries of a family.

    Attributes:
      pattern: Name of the pattern.
      mechanism: Name of the mechanism.
      family: The canaries' family.
      config: The config at seed 0, without a claim.
      is_tested_live: Whether each canary has one round, so that the claim is tested in each round.
    """

    pattern: str
    mechanism: str
    family: Family
    config: Config
    is_tested_live: bool


ONCE = Shuffle(rounds=ROUNDS, clients_per_round=4)
TWO_EPOCHS = Shuffle(rounds=ROUNDS, clients_per_round=8, canaries="once_per_epoch")
EVERY = EveryRound(rounds=ROUNDS)


def variants() -> Iterator[Variant]:
    """All of them, first those that are tested live; the others' claims are about 2."""
    families: tuple[Family, ...] = ("rademacher", "hadamard", "gaussian")
    for family in families:
        yield _variant("one presentation", ONCE, _fixed(1.43), family)
        yield _variant("one presentation", ONCE, _adaptive(0.5), family)
    yield _variant("one presentation", ONCE, _tree(2.9), "rademacher")
    yield _variant("two epochs", TWO_EPOCHS, _fixed(2.0), "rademacher")
    yield _variant("two epochs", TWO_EPOCHS, _adaptive(2.0), "hadamard")
    yield _variant("every round", EVERY, _fixed(4.5), "gaussian")
    yield _variant("every round", EVERY, _tree(16.0), "rademacher")
    drawn = {"rounds": ROUNDS, "clients_per_round": 8}
    yield _variant("bernoulli", Bernoulli(**drawn), _adaptive(1.3), "rademacher")
    yield _variant("uniform", Uniform(**drawn), _fixed(2.4), "hadamard")
    yield _variant(
        "min. separation", MinSeparation(**drawn, separation=4), _adaptive(2.5), "gaussian"
    )


def _fixed(noise: float) -> Mechanism:
    return GaussianFixed(noise_multiplier=noise, clip_norm=CLIP)


def _adaptive(noise: float) -> Mechanism:
    return GaussianAdaptive(noise_multiplier=noise, clip_norm=CLIP, clipped_count_stddev=5.0)


def _tree(noise: float) -> Mechanism:
    return TreeAggregation(noise_multiplier=noise, clip_norm=CLIP)


def _variant(
    pattern: str, participation: Participation, mechanism: Mechanism, family: Family
) -> Variant:
    config = Config(
        task=DigitsTask(num_clients=40, hidden=(32,)),
        mechanism=mechanism,
        participation=participation,
        canaries=Canaries(count=200, family=family),
        client=FedAvg(learning_rate=0.1, batch_size=20),
        audit=Audit(delta=1e-3),
        log=Log(checkpoint_every=ROUNDS, evaluate_every=ROUNDS),
        runtime="local",
    )
    kind = str(mechanism.__struct_config__.tag)
    name = f"{kind}, noise {mechanism.noise_multiplier:g}"
    return Variant(pattern, name, family, config, is_tested_live=participation is ONCE)
