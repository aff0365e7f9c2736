"""One DP feature of a released library, run unchanged, and its documentation.

A feature is a server in the sense of `fl_audit.replay_round`: it gets a state, the updates of a
round and the round's randomness, calls the library, and gives back what the library releases. All
randomness that the library can draw from is seeded by the round's generator (`pin_randomness`), so
that nothing of the library has to be written anew.
"""

import random as python_random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from fl_audit import Promise, replay_round

SHAPES = ((20, 5), (5,), (5, 3), (3,))
"""The shapes of a small model's variables."""

COHORT, CLIP_NORM, NOISE_MULTIPLIER = 20, 0.3, 1.0

Update = Sequence[np.ndarray]


def pin_randomness(generator: np.random.Generator) -> int:
    """Seeds all global randomness: Python's, NumPy's, PyTorch's and TensorFlow's.

    Returns:
      A seed for what takes one, such as JAX.
    """
    seeds = generator.integers(2**31, size=4)
    python_random.seed(int(seeds[0]))
    np.random.seed(seeds[1])
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(int(seeds[2]))
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].random.set_seed(int(seeds[2]))
    return int(seeds[3])


@dataclass(frozen=True)
class Feature:
    """A DP feature and its stated guarantee.

    Attributes:
      name: The feature, as its library calls it.
      library: The distribution that it comes from, as pip knows it.
      stated: What its documentation states, quoted.
      source: The place in the documentation.
      reading: The weakest reading of it, which is what is tested.
      promise: That reading in numbers.
      server: The round of the library.
      start: A function to the state before the first round.
      warned: Questions of a replay whose failure the documentation warns of: reported, not counted.
    """

    name: str
    library: str
    stated: str
    source: str
    reading: str
    promise: Promise
    server: Callable[[Any, list[list[np.ndarray]], np.random.Generator], tuple[Any, Any]]
    start: Callable[[], Any] = lambda: None
    warned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a replay found of a feature.

    Attributes:
      feature: The feature.
      violated: The questions that failed, without those that the documentation warns of, each with
        what was measured.
      warned: Those that failed and of which it warns.
      open: The questions that could not be answered.
    """

    feature: Feature
    violated: dict[str, str]
    warned: tuple[str, ...]
    open: tuple[str, ...]

    @property
    def word(self) -> str:
        """`held`, `violated` or `cannot tell`."""
        if self.violated:
            return "violated"
        return "cannot tell" if "one_client" in self.open else "held"


def updates(cohort: int = COHORT, scale: float = 0.1) -> list[list[np.ndarray]]:
    """The updates of a round's clients: Gaussian, most of them longer than the clip norm."""
    generator = np.random.default_rng(1)
    return [[generator.normal(0, scale, shape) for shape in SHAPES] for _ in range(cohort)]


def replayed(feature: Feature) -> Outcome:
    """Replays a round of a feature."""
    found = replay_round(
        feature.server, feature.start(), updates(), seed=1, promise=feature.promise
    )
    failed = {one.name: one.measured for one in found.findings if one.failed}
    return Outcome(
        feature,
        {name: said for name, said in failed.items() if name not in feature.warned},
        tuple(name for name in failed if name in feature.warned),
        found.inconclusive,
    )


def released_as(feature: Feature) -> str:
    """The library and its version."""
    return f"{feature.library} {version(feature.library)}"
