"""Servers that say how their noise should be: right ones, and ones that are each wrong in one way.

Twenty clients a round, 2,000 coordinates, noise of half a clip norm on a sum that is divided by 20.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

DIM, COHORT, CLIP, NOISE = 2000, 20, 0.1, 0.5
STDDEV, BOUND = NOISE * CLIP / COHORT, CLIP
SIZES = (1500, 400, 90, 10)

Array = np.ndarray


def updates(random: np.random.Generator, length: float = CLIP) -> Array:
    """The sum of what clients send: half of each has the same direction in all rounds."""
    drawn = random.normal(size=DIM) / np.sqrt(DIM * COHORT)
    common = np.where(np.arange(DIM) % 2, 1, -1) / np.sqrt(DIM)
    return COHORT * length * (drawn + common) / np.sqrt(2)


@dataclass(frozen=True)
class Server:
    """What a server releases in each round, of shape (rounds, dim), and what it says of it."""

    released: Array
    stddev: Array
    bound: Array | None


def _server(
    noise: Callable[[np.random.Generator, int], Array] = lambda random, rounds: random.normal(
        size=(rounds, DIM)
    ),
    length: float = CLIP,
    denominator: Callable[[np.random.Generator], float] = lambda random: COHORT,
) -> Callable[[int, int], Server]:
    def make(seed: int, rounds: int) -> Server:
        random = np.random.default_rng(seed)
        noises = NOISE * CLIP * noise(random, rounds)
        sums = np.stack([updates(random, length) for _ in range(rounds)])
        divided = np.array([denominator(random) for _ in range(rounds)])
        released = (sums + noises) / divided[:, None]
        return Server(released, np.full(rounds, STDDEV), np.full(rounds, BOUND))

    return make


def _tenth(random: np.random.Generator, rounds: int) -> Array:
    keeps = random.permutation(DIM) >= DIM // 10
    return random.normal(size=(rounds, DIM)) * keeps


def _same(random: np.random.Generator, rounds: int) -> Array:
    return np.tile(random.normal(size=DIM), (rounds, 1))


WRONG: dict[str, tuple[Callable[[int, int], Server], str]] = {
    "a tenth of the coordinates without noise": (_server(_tenth), "noise_everywhere"),
    "the same noise in every round": (_server(_same), "fresh_noise"),
    "clients unclipped": (_server(length=4 * CLIP), "bounded_length"),
    "a private denominator": (
        _server(denominator=lambda random: COHORT + random.integers(-6, 7)),
        "fresh_noise",
    ),
    "noise split over two micro-batches": (
        _server(lambda random, rounds: random.normal(size=(rounds, DIM)) / np.sqrt(2)),
        "enough_noise",
    ),
    "half the noise": (
        _server(lambda random, rounds: random.normal(size=(rounds, DIM)) / 2),
        "enough_noise",
    ),
}
"""Wrong servers, each with a check that is to find it."""


def _adaptive(seed: int, rounds: int) -> Server:
    """The clip norm grows by a tenth in each round, and the noise with it."""
    made = RIGHT["as told"](seed, rounds)
    scale = 1.1 ** np.arange(rounds)
    return Server(made.released * scale[:, None], made.stddev * scale, made.bound * scale)


def _rounded(step: float) -> Callable[[int, int], Server]:
    """Fixed-point numbers whose step is so large, over the noise."""

    def make(seed: int, rounds: int) -> Server:
        made = RIGHT["as told"](seed, rounds)
        grid = step * STDDEV
        return Server(grid * np.round(made.released / grid), made.stddev, made.bound)

    return make


def _half_precision(seed: int, rounds: int) -> Server:
    made = RIGHT["as told"](seed, rounds)
    released = made.released.astype(np.float16).astype(np.float64)
    return Server(released, made.stddev, made.bound)


def _correlated(seed: int, rounds: int) -> Server:
    """Half of each round's noise is taken off in the next; what is said is the part that is new."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=(rounds + 1, DIM)) * NOISE * CLIP
    sums = np.stack([updates(random) for _ in range(rounds)])
    released = (sums + noise[1:] - 0.5 * noise[:-1]) / COHORT
    return Server(released, np.full(rounds, STDDEV), None)


def _three_digits(seed: int, rounds: int) -> Server:
    made = RIGHT["as told"](seed, rounds)
    return Server(made.released, np.full(rounds, 1.004 * STDDEV), made.bound)


RIGHT: dict[str, Callable[[int, int], Server]] = {
    "as told": _server(),
    "no client sends anything": _server(length=0.0),
    "short updates": _server(length=0.2 * CLIP),
    "an adaptive clip": _adaptive,
    "float16": _half_precision,
    "a grid of a quarter of the noise": _rounded(0.25),
    "correlated noise": _correlated,
    "noise said with three digits": _three_digits,
}
