"""Samplers of cohorts, a Poisson one and ones that are accounted for as if they were."""

from collections.abc import Callable

import numpy as np

from fl_audit.array_types import IntArray

Sampler = Callable[[np.random.Generator, int, int, float], list[IntArray]]
"""Randomness, members, rounds and the probability of each in; the members of each round out."""


def poisson(
    random: np.random.Generator, members: int, rounds: int, probability: float
) -> list[IntArray]:
    """Every member in every round with one probability, independently."""
    return [np.flatnonzero(random.random(members) < probability) for _ in range(rounds)]


def shuffled(
    random: np.random.Generator, members: int, rounds: int, probability: float
) -> list[IntArray]:
    """Batches of shuffled epochs, in each of which everybody comes once."""
    size = round(members * probability)
    epochs = [random.permutation(members) for _ in range(-(-rounds * size // members))]
    return [np.sort(part) for part in np.split(np.concatenate(epochs)[: rounds * size], rounds)]


def fixed_size(
    random: np.random.Generator, members: int, rounds: int, probability: float
) -> list[IntArray]:
    """Rounds of one size, drawn without replacement."""
    size = round(members * probability)
    return [np.sort(random.choice(members, size, replace=False)) for _ in range(rounds)]


def with_replacement(
    random: np.random.Generator, members: int, rounds: int, probability: float
) -> list[IntArray]:
    """Rounds of one size, drawn with replacement."""
    size = round(members * probability)
    return [np.sort(random.choice(members, size)) for _ in range(rounds)]


def by_weight(
    random: np.random.Generator, members: int, rounds: int, probability: float
) -> list[IntArray]:
    """A sixth of the members comes four times as often as is accounted for, the rest less."""
    often = np.arange(members) % 6 == 0
    share = np.where(often, 4.0, 0.4) * probability
    return [np.flatnonzero(random.random(members) < share) for _ in range(rounds)]
