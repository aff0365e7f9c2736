"""Simulated logs of a system that is set up wrongly, in one way each (docs/canary_check.md counts them).

A correct system has 20 rounds whose denominator is 20, a clip norm that grows from round to
round, Gaussian noise of 0.5 clip norms, and 400 Rademacher canaries in 1,000 dimensions, each in
one round.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from fl_audit.attacks import CanaryPool, Participation, RoundScorer
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.participation_files import canaries_text
from fl_audit.formats.round_chain import ChainWriter
from fl_audit.participation.placement import spread

DIM, COUNT, ROUNDS, COHORT, NOISE = 1000, 400, 20, 20, 0.5


class System:
    """A correct system; a fault overrides one of these methods or fields."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool = CanaryPool(seed=seed, count=COUNT, dim=DIM)
        self.vectors = np.stack([self.pool.vector(canary) for canary in range(COUNT)])
        self.included = self.pool.included  # who takes part
        participations = spread(np.arange(COUNT), seed, ROUNDS, 1)
        members = [
            participations.of_canaries(np.ones(COUNT, bool)).members_in(r) for r in range(ROUNDS)
        ]
        self.round_of = np.empty(COUNT, np.int64)
        for index, canaries in enumerate(members):
            self.round_of[canaries] = index
        self.listed_pool = self.pool
        self.listed_included = self.included
        self.listed_rounds = self.round_of
        self.model = 3 * self.rng.normal(size=DIM) / np.sqrt(DIM)
        self.before = np.zeros(DIM)

    def clip_norm(self, index: int) -> float:
        return 0.1 * 1.1**index

    def update(self, canary: int, clip_norm: float, index: int) -> np.ndarray:
        return clip_norm * self.vectors[canary]

    def noise(self, clip_norm: float) -> np.ndarray:
        return NOISE * clip_norm * self.rng.normal(size=DIM)

    def aggregate(self, index: int) -> np.ndarray:
        clip_norm = self.clip_norm(index)
        present = np.flatnonzero(self.included & (self.round_of == index))
        others = self.rng.normal(size=(10, DIM)) * clip_norm * 0.3 / np.sqrt(DIM)
        total = others.sum(axis=0) + sum(
            (self.update(canary, clip_norm, index) for canary in present), np.zeros(DIM)
        )
        return (total + self.noise(clip_norm)) / COHORT

    def scored(self, index: int, aggregate: np.ndarray) -> np.ndarray:
        return aggregate

    def promised(self, index: int) -> float:
        return self.clip_norm(index) / COHORT

    def write(self, path: Path) -> LogFolder:
        """Trains, and leaves the log of it."""
        rounds = [[int(index) + 1] for index in self.listed_rounds]
        RoundScorer.create(
            path,
            self.listed_pool,
            ROUNDS,
            rounds,
            participation=Participation("none", client_rounds=1),
        )
        folder = LogFolder(path)
        counted = [[number - 1 for number in own] for own in rounds]
        folder.canaries.write_text(canaries_text(self.listed_included, counted))
        ChainWriter.begin(folder.chain, folder.identity())  # the list is as wrong from the start
        scorer = RoundScorer.open(path)
        for index in range(ROUNDS):
            seen = self.scored(index, self.aggregate(index)).astype(np.float32)
            scorer.score_round(index + 1, seen, canary_length=self.promised(index))
        scorer.finish()
        return folder


def _scored(function: Callable[[System, int, np.ndarray], np.ndarray]) -> type[System]:
    return type("Faulty", (System,), {"scored": function})


def _update(function: Callable[[System, int, float, int], np.ndarray]) -> type[System]:
    return type("Faulty", (System,), {"update": function})


def _promised(function: Callable[[System, int], float]) -> type[System]:
    return type("Faulty", (System,), {"promised": function})


def _listed(change: Callable[[System], dict[str, object]]) -> type[System]:
    def init(self: System, seed: int = 1) -> None:
        System.__init__(self, seed)
        vars(self).update(change(self))

    return type("Faulty", (System,), {"__init__": init})


def _lost(share: float) -> Callable[[System, int, float, int], np.ndarray]:
    return lambda s, c, clip, _: (s.rng.random() >= share) * clip * s.vectors[c]


def _masked(system: System, clip_norm: float, canary: int, kept: int) -> np.ndarray:
    return np.where(np.arange(DIM) < kept, clip_norm * system.vectors[canary], 0)


def _momentum(system: System, index: int, aggregate: np.ndarray) -> np.ndarray:
    del index
    system.before = 0.9 * system.before + aggregate
    return system.before


def _delayed(system: System, index: int, aggregate: np.ndarray) -> np.ndarray:
    del index
    last, system.before = system.before, aggregate
    return last if last.any() else system.noise(0.01)


def _model(system: System, index: int, aggregate: np.ndarray) -> np.ndarray:
    del index
    system.model = system.model + aggregate
    return system.model


def _first_of_all(system: System, index: int, aggregate: np.ndarray) -> np.ndarray:
    system.before = aggregate if index == 0 else system.before
    return system.before


def _by_columns(_: System, index: int, aggregate: np.ndarray) -> np.ndarray:
    del index
    return aggregate.reshape(20, 50).T.ravel()


_Quiet = type("Faulty", (System,), {"noise": lambda s, clip: np.zeros(DIM)})
_rng = SimpleNamespace(order=np.random.default_rng(7).permutation)

SETUPS: dict[str, type[System]] = {
    "as promised": System,
    "wrong sign": _scored(lambda s, i, a: -a),
    "wrong sign in every other round": _scored(lambda s, i, a: a if i % 2 else -a),
    "canaries sent with the wrong sign": _update(lambda s, c, clip, i: -clip * s.vectors[c]),
    "canaries zeroed": _update(lambda s, c, clip, i: np.zeros(DIM)),
    "canaries of weight 0.1": _update(lambda s, c, clip, i: 0.1 * clip * s.vectors[c]),
    "canaries half as long as the clip norm": _update(
        lambda s, c, clip, i: 0.5 * clip * s.vectors[c]
    ),
    "clipped twice, to half the norm": _update(
        lambda s, c, clip, i: min(1.0, 0.5) * clip * s.vectors[c]
    ),
    "half of the canaries dropped": _update(_lost(0.5)),
    "three of four canaries dropped": _update(_lost(0.75)),
    "zeroed from the middle of training on": _update(
        lambda s, c, clip, i: (i < ROUNDS // 2) * clip * s.vectors[c]
    ),
    "compressed to a tenth of the coordinates": _update(
        lambda s, c, clip, i: _masked(s, clip, c, DIM // 10)
    ),
    "half of the variables frozen": _update(lambda s, c, clip, i: _masked(s, clip, c, DIM // 2)),
    "a canary shares its update with nine clients": _update(
        lambda s, c, clip, i: clip * s.vectors[c] / 10
    ),
    "canaries sent twice": _update(lambda s, c, clip, i: 2 * clip * s.vectors[c]),
    "canaries not clipped": _update(lambda s, c, clip, i: 10 * clip * s.vectors[c]),
    "aggregate before noise": _Quiet,
    "sum divided by twice the denominator": _scored(lambda s, i, a: a / 2),
    "sum divided by half the denominator": _scored(lambda s, i, a: 2 * a),
    "sum not divided": _scored(lambda s, i, a: COHORT * a),
    "aggregate in units of the clip norm": _scored(lambda s, i, a: a / s.clip_norm(i)),
    "promise of the first round's clip norm": _promised(lambda s, i: s.clip_norm(0) / COHORT),
    "promise without the denominator": _promised(lambda s, i: s.clip_norm(i)),
    "noise of another run": _scored(lambda s, i, a: s.noise(s.clip_norm(i)) / COHORT),
    "rounds shuffled": _listed(lambda s: {"listed_rounds": _rng.order(s.round_of)}),
    "rounds counted from 0": _listed(lambda s: {"listed_rounds": np.maximum(s.round_of - 1, 0)}),
    "aggregate of the round before": _scored(_delayed),
    "the first aggregate in every round": _scored(_first_of_all),
    "the model instead of its movement": _scored(_model),
    "momentum instead of the aggregate": _scored(_momentum),
    "coordinates reversed": _scored(lambda s, i, a: a[::-1]),
    "weights by columns instead of rows": _scored(_by_columns),
    "variables in another order": _scored(lambda s, i, a: np.roll(a, 100)),
    "canaries of another seed": _listed(
        lambda s: {"listed_pool": CanaryPool(seed=99, count=COUNT, dim=DIM)}
    ),
    "canaries of another family": _listed(
        lambda s: {"listed_pool": CanaryPool(seed=1, count=COUNT, dim=DIM, family="gaussian")}
    ),
    "coins inverted": _listed(lambda s: {"listed_included": ~s.included}),
    "coins shuffled": _listed(lambda s: {"listed_included": _rng.order(s.included)}),
    "excluded canaries take part too": _listed(lambda s: {"included": np.ones(COUNT, bool)}),
    "canaries numbered in another order": _listed(lambda s: {"vectors": _rng.order(s.vectors)}),
}
"""The systems by the name of the fault."""
