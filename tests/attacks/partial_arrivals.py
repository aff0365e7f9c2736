"""Simulated audits in which a part of the canaries, or of each, arrives (docs/canary_check.md).

As in tests/report/wrong_setups.py, without files and models, so that many can be drawn: 400
canaries of random signs in 2,000 dimensions, each in one of 20 rounds, ten other clients in each,
and noise of half a clip norm, which is half of what a claim of ε ≤ 3.14 at δ = 1e-3 promises.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.attacks.measured_canary_check import RoundLengths, canary_check_in_rounds
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.canaries.families import HadamardFamily
from fl_audit.checks import CanaryCheck

Lengths = Callable[[np.random.Generator, int, npt.NDArray[np.bool_]], npt.NDArray[np.float64]]
"""Lengths of canaries in a round over the clip norm, by their number and whether it is first."""


def alike(length: float) -> Lengths:
    return lambda rng, count, is_first: np.full(count, length)


def dropped(share: float) -> Lengths:
    return lambda rng, count, is_first: (rng.random(count) >= share).astype(float)


AS_PROMISED = alike(1.0)


@dataclass(frozen=True)
class Audit:
    """A simulated audit; by default a correct one."""

    lengths: Lengths = AS_PROMISED
    denominator: Callable[[np.random.Generator], float] = lambda rng: 1.0
    sent_excluded: float = 0.0
    is_scored: Callable[[int], bool] = lambda index: True
    repeats: int = 1
    present: float | None = None
    noise: float = 0.5
    dim: int = 2000
    count: int = 400
    rounds: int = 20
    clients: int = 10
    client_length: float = 0.3
    reaction: float = 0.0
    clip_growth: float = 0.0
    family: str = "rademacher"
    knows_length: bool = True

    def run(self, seed: int) -> CanaryCheck:
        """What the audit says of arrival."""
        rng = np.random.default_rng(seed)
        vectors = self._vectors(rng)
        included = rng.random(self.count) < 0.5
        present = self._present(rng)
        is_sent = included | (rng.random(self.count) < self.sent_excluded)
        first = np.argmax(present, axis=1)
        rows, lengths, model = [], np.full((2, self.rounds), np.nan), np.zeros(self.dim)
        for index in range(self.rounds):
            clip = np.exp(self.clip_growth * index)
            total = (
                clip * self.client_length * rng.normal(size=(self.clients, self.dim)).sum(axis=0)
            )
            total = total / np.sqrt(self.dim) - self.reaction * model
            members = np.flatnonzero(is_sent & present[:, index])
            sent = self.lengths(rng, len(members), first[members] == index)
            total += clip * (sent @ vectors[members])
            total += clip * self.noise * rng.normal(size=self.dim)
            aggregate = total / self.denominator(rng)
            model = model + aggregate
            if self.is_scored(index):
                length = float(np.linalg.norm(aggregate))
                cosines = vectors @ aggregate / length if length else np.zeros(self.count)
                rows.append((index, cosines.astype(np.float32)))
                lengths[:, index] = length, clip if self.knows_length else np.nan
        return canary_check_in_rounds(
            rows,
            OwnRounds(tuple(np.flatnonzero(row) for row in present)),
            included,
            lambda: RoundLengths(*lengths),
            dim=self.dim,
            family=self.family,
        )

    def _vectors(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        if self.family == "hadamard":
            made = HadamardFamily(int(rng.integers(2**32)), self.count, self.dim)
            return np.stack([made.vector(canary) for canary in range(self.count)])
        if self.family == "dirac":
            signs = rng.choice([-1.0, 1.0], self.count)
            return signs[:, None] * np.eye(self.dim)[rng.permutation(self.dim)[: self.count]]
        if self.family == "gaussian":
            drawn = rng.normal(size=(self.count, self.dim))
            return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        return rng.choice([-1.0, 1.0], (self.count, self.dim)) / np.sqrt(self.dim)

    def _present(self, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
        if self.present is not None:
            return rng.random((self.count, self.rounds)) < self.present
        ranks = [rng.permutation(self.rounds) for _ in range(self.count)]
        return np.array(ranks) < self.repeats


PARTIAL: Mapping[str, Audit] = {
    "as promised": Audit(),
    "nine tenths as long": Audit(alike(0.9)),
    "three quarters as long (weighted by examples)": Audit(alike(0.75)),
    "0.7 times as long (clipped twice)": Audit(alike(0.7)),
    "a tenth as long (sent below the clip norm)": Audit(alike(0.1)),
    "compressed to a tenth of the coordinates": Audit(alike(0.1**0.5)),
    "three of ten dropped": Audit(dropped(0.3)),
    "half dropped": Audit(dropped(0.5)),
    "half dropped, and half the denominator": Audit(dropped(0.5), lambda rng: 0.5),
    "three of four presentations lost": Audit(dropped(0.75), repeats=4),
    "all lost after their first round": Audit(
        lambda rng, count, is_first: is_first.astype(float), repeats=4
    ),
    "half as long again (not clipped)": Audit(alike(1.5)),
    "a quarter of the excluded ones sent": Audit(sent_excluded=0.25),
    "a tenth of the excluded ones sent": Audit(sent_excluded=0.1),
    "a log of every fifth round": Audit(is_scored=lambda index: index % 5 == 0),
    "a log that ends after 8 of 20 rounds": Audit(is_scored=lambda index: index < 8),
    "Poisson sampling, q T = 0.2": Audit(present=0.01),
    "mean over those who came, 20 expected (opacus 819)": Audit(
        denominator=lambda rng: max(int(rng.poisson(20)), 1) / 20
    ),
    "half the noise (optax 527)": Audit(noise=0.25),
}
"""Audits by the name of what happens to their canaries."""
