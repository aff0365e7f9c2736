"""Correct mechanisms under every kind of participation, whose claims are their analytical epsilon.

All have digits of 40 clients and 10 rounds; the models have 610, 2,410 or 4,810 parameters, and
there are 100, 200 or 300 canaries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fl_audit import config as tables

ROUNDS = 10
CLIP = 0.3

Family = Literal["gaussian", "rademacher", "hadamard"]
Strategy = Literal["banded_sqrt", "sqrt", "blt"]


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
    config: tables.Config
    is_tested_live: bool


ONCE = tables.Shuffle(rounds=ROUNDS, clients_per_round=4)
TWO_EPOCHS = tables.Shuffle(rounds=ROUNDS, clients_per_round=8, canaries="once_per_epoch")
EVERY = tables.EveryRound(rounds=ROUNDS)


def variants() -> Iterator[Variant]:
    """All of them, first those that are tested live; the others' claims are about 2."""
    yield _variant("one presentation", ONCE, _fixed(1.43), "rademacher")
    yield _variant("one presentation", ONCE, _fixed(0.5), "hadamard", count=300, width=8)
    yield _variant("one presentation", ONCE, _fixed(1.43), "gaussian")
    yield _variant("one presentation", ONCE, _adaptive(0.5), "rademacher", width=64)
    yield _variant("one presentation", ONCE, _adaptive(1.0), "hadamard", count=100)
    yield _variant("one presentation", ONCE, _adaptive(0.5), "gaussian")
    yield _variant("one presentation", ONCE, _tree(2.9), "rademacher")
    yield _variant("one presentation", ONCE, _matrix("banded_sqrt", bands=4), "rademacher")
    yield _variant("one presentation", ONCE, _matrix("blt", buffers=2), "hadamard", width=8)
    yield _variant("one presentation", ONCE, _distributed(1.5), "rademacher", count=300)
    yield _variant("two epochs", TWO_EPOCHS, _fixed(2.0), "rademacher")
    yield _variant("two epochs", TWO_EPOCHS, _adaptive(2.0), "hadamard", width=64)
    yield _variant("two epochs", TWO_EPOCHS, _matrix("sqrt", noise=2.5), "rademacher")
    yield _variant("every round", EVERY, _fixed(4.5), "gaussian", count=100)
    yield _variant("every round", EVERY, _tree(16.0), "rademacher")
    drawn = {"rounds": ROUNDS, "clients_per_round": 8}
    yield _variant("bernoulli", tables.Bernoulli(**drawn), _adaptive(1.3), "rademacher")
    yield _variant("bernoulli", tables.Bernoulli(**drawn), _fixed(1.0), "hadamard", count=300)
    yield _variant("uniform", tables.Uniform(**drawn), _fixed(2.4), "hadamard", width=8)
    cyclic = tables.CyclicPoisson(rounds=ROUNDS, clients_per_round=4, separation=5)
    yield _variant("cyclic_poisson", cyclic, _matrix("banded_sqrt", bands=4), "rademacher")
    apart = tables.MinSeparation(**drawn, separation=4)
    yield _variant("min. separation", apart, _adaptive(2.5), "gaussian", count=100)


def _fixed(noise: float) -> tables.Mechanism:
    return tables.GaussianFixed(noise_multiplier=noise, clip_norm=CLIP)


def _adaptive(noise: float) -> tables.Mechanism:
    return tables.GaussianAdaptive(noise_multiplier=noise, clip_norm=CLIP, clipped_count_stddev=5.0)


def _tree(noise: float) -> tables.Mechanism:
    return tables.TreeAggregation(noise_multiplier=noise, clip_norm=CLIP)


def _matrix(strategy: Strategy, *, noise: float = 1.8, **keys: int) -> tables.Mechanism:
    return tables.MatrixFactorisation(
        noise_multiplier=noise, clip_norm=CLIP, strategy=strategy, **keys
    )


def _distributed(noise: float) -> tables.Mechanism:
    return tables.Distributed(noise_multiplier=noise)


def _variant(
    pattern: str,
    participation: tables.Participation,
    mechanism: tables.Mechanism,
    family: Family,
    *,
    count: int = 200,
    width: int = 32,
) -> Variant:
    config = tables.Config(
        task=tables.DigitsTask(num_clients=40, hidden=(width,)),
        mechanism=mechanism,
        participation=participation,
        canaries=tables.Canaries(count=count, family=family),
        client=tables.FedAvg(learning_rate=0.1, batch_size=20),
        audit=tables.Audit(delta=1e-3),
        log=tables.Log(checkpoint_every=ROUNDS, evaluate_every=ROUNDS),
        runtime="local",
    )
    kind = str(mechanism.__struct_config__.tag)
    name = f"{kind}, noise {mechanism.noise_multiplier:g}"
    return Variant(pattern, name, family, config, is_tested_live=participation is ONCE)
