"""Servers that say how their noise should be: right ones, and ones that are each wrong in one way.

Twenty clients a round, 2,000 coordinates, noise of half a clip norm on a sum that is divided by 20.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fl_audit.accounting.release import Correlation
from fl_audit.checks import MechanismWatch
from fl_audit.mechanisms.kind import NoiseStream

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
    correlation: Correlation | None = None
    stream: NoiseStream | None = None

    def watched(self, sizes: tuple[int, ...] = ()) -> MechanismWatch:
        """Its rounds as checks see them; by default of a model of one variable."""
        sizes = sizes or self.released.shape[1:]
        watch = MechanismWatch(sizes, correlation=self.correlation, stream=self.stream)
        bounds = itertools.repeat(None) if self.bound is None else self.bound
        for released, stddev, bound in zip(self.released, self.stddev, bounds, strict=False):
            watch.see_round(released.astype(np.float32), noise_stddev=stddev, norm_bound=bound)
        return watch

    def failed(self, sizes: tuple[int, ...] = ()) -> set[str]:
        return {check.name for check in self.watched(sizes).checks() if check.failed}


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
    "short updates": _server(length=0.2 * CLIP),
    "correlated noise": _correlated,
    "noise said with three digits": _three_digits,
}
"""Right servers; more that are unusual are in loops.py."""
