"""40 systems with less noise than claimed, through all ways in, and the same ones with all of it.

With less noise no verdict is consistent where the truth is above what it says is detectable. With
nothing wrong and a claim of 1.5 times the truth none is contradicted.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize

from tests.outside.frameworks import FlowerSystem, NVFlareSystem
from tests.outside.right import amplified
from tests.outside.systems import Answer, System, ask, gaussian_epsilon

RATE, ROUNDS = 0.1, 20


def _of_rounds(most: int, least: int) -> Callable[[System], np.ndarray]:
    """Canaries of so many rounds each, drawn at random."""

    def drawn(s: System) -> np.ndarray:
        order = np.argsort(s.random.random((s.rounds, s.count)), axis=0)
        s.turns = order < s.random.integers(least, most + 1, s.count)
        return s.included

    return drawn


def _sampled(s: System) -> np.ndarray:
    s.turns = s.random.random((s.rounds, s.count)) < RATE
    return s.included


@dataclass(frozen=True)
class Kind:
    """How canaries participate, and what a client's epsilon is with some noise."""

    drawn: Callable[[System], np.ndarray] | None
    said: dict[str, Any]
    epsilon: Callable[[float], float]
    repeats: int = 1

    def noise(self, epsilon: float) -> float:
        return float(optimize.brentq(lambda z: self.epsilon(z) - epsilon, 0.2, 20.0, xtol=1e-3))


def _known(most: int, least: int) -> Kind:
    said = {"sampling": "none", "client_rounds": most, "client_weight": 1.0}
    return Kind(_of_rounds(most, least), said, lambda z: gaussian_epsilon(z / math.sqrt(most)))


KINDS = {
    "one round": _known(1, 1),
    "three rounds": _known(3, 3),
    "one to five rounds": _known(5, 1),
    "Poisson": Kind(
        _sampled,
        {"sampling": "poisson", "probability": RATE, "client_weight": 1.0},
        lambda z: amplified(z, RATE, ROUNDS),
    ),
}
WAYS: dict[str, Callable[..., System]] = {
    "log": System,
    "loop": lambda **rest: System(way="loop", **rest),
    "cosines": lambda **rest: System(way="cosines", **rest),
    "Flower": FlowerSystem,
    "NVFlare": NVFlareSystem,
}
DEALT = {
    f"dealt {rounds} times": replace(_known(rounds, rounds), drawn=None, repeats=rounds)
    for rounds in (1, 2, 3, 5)
}
"""An NVFlare adapter deals the rounds of canaries itself."""

SHARES = (0.2, 0.5, 0.8)
CLAIM = 5.0


def _crowd(s: System, t: int) -> np.ndarray:
    """The sum of 30 clients whose updates have a cosine of 0.2, in one direction in all rounds."""
    common = s.memory.setdefault("common", s.random.normal(0, s.dim**-0.5, s.dim))
    apart = s.random.normal(0, s.dim**-0.5, s.dim)
    return np.asarray(s.clip(s, t) * (30 * math.sqrt(0.2) * common + math.sqrt(30 * 0.8) * apart))


Case = tuple[str, str, bool, float]
"""The way, the kind, whether there is a crowd, and the share of the noise."""

CASES: list[Case] = [
    (way, kind, is_crowd, SHARES[(at + number + is_crowd) % len(SHARES)])
    for at, way in enumerate(WAYS)
    for number, kind in enumerate(DEALT if way == "NVFlare" else KINDS)
    for is_crowd in (False, True)
]


def system_of(case: Case, seed: int) -> tuple[System, float]:
    """The system and the true epsilon of a client; with a share of 1 all of the noise is there."""
    way, name, is_crowd, share = case
    kind = {**KINDS, **DEALT}[name]
    stated = kind.noise(CLAIM / 1.5 if share == 1 else CLAIM)
    rest: dict[str, Any] = {"clients": _crowd} if is_crowd else {}
    if share == 1 or (way in ("log", "loop") and seed % 2):
        rest["noise_told"] = lambda s, t: (
            stated * s.clip(s, t) / s.denominator(s, t),
            (40 + s.count) * s.clip(s, t) / s.denominator(s, t),
        )
    made = WAYS[way](
        noise=share * stated,
        seed=seed,
        rounds=ROUNDS,
        takes_part=kind.drawn,
        repeats=kind.repeats,
        claim=CLAIM,
        participation=lambda s: kind.said,
        **rest,
    )
    return made, kind.epsilon(share * stated)


def verdicts(case: Case, seed: int) -> Iterator[tuple[str, float, Answer]]:
    """The claim as a point and, of known rounds, as a curve; the truth; and the answer."""
    made, truth = system_of(case, seed)
    with tempfile.TemporaryDirectory() as parent:
        arguments = made.write(Path(parent) / "audit")
        yield "ε", truth, ask([*arguments, "--claimed-epsilon", str(CLAIM)])
        if case[1] != "Poisson":
            yield "μ", truth, ask([*arguments, "--claimed-mu", str(made.claimed_mu())])


def is_wrong(share: float, truth: float, found: Answer) -> bool:
    if share == 1:
        return found.outcome not in ("consistent", "inconclusive")
    is_seen = found.detectable is not None and truth <= found.detectable
    return found.outcome == "consistent" and not is_seen
