"""Systems that train inside Flower or NVFlare, whose adapters score their rounds.

Neither is installed: strategy, aggregator and answers have the shape of theirs (the real ones:
examples). Canary clients answer by the adapter's own functions, and everything else is the
system's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fl_audit.flower import ScoredStrategy, canary_arrays
from fl_audit.nvflare import ScoredAggregator
from fl_audit.participation.placement import spread
from tests.outside.systems import System

LONG = 100.0
"""The length of a canary's answer, which every clip shortens."""


@dataclass(eq=False)
class FlowerSystem(System):
    """A system whose server is a Flower strategy that releases noised means."""

    way: str = "flower"

    def _hand_over(self, folder: Path) -> None:
        """Trains as `Strategy.start` does, under the adapter."""
        scorer = self.scorer(folder)
        length = None if self.promised(self, 0) is None else self._length
        noise = None if self.noise_told is None else self._noise
        strategy = ScoredStrategy(_Strategy(self), scorer, length, noise=noise)
        initial = _Record({"0": _Array(np.ones(self.dim, np.float32))})
        strategy.start(self._replies, initial, num_rounds=self.rounds)

    def _length(self, num_replies: int) -> float:
        return self._promise(self.memory["round"])

    def _noise(self, num_replies: int) -> tuple[float, float]:
        assert self.noise_told is not None
        return self.noise_told(self, self.memory["round"])

    def _replies(self, number: int, arrays: "_Record") -> "Iterator[_Record]":
        """The answers of the canaries of a round, from 1, by the adapter's function."""
        weights = [part.numpy() for part in arrays.values()]
        for canary in np.flatnonzero(self.turns[number - 1] & self.present):
            moved = canary_arrays(weights, self.pool, int(canary), norm=LONG)
            yield _Record({str(i): _Array(part) for i, part in enumerate(moved)}, int(canary))


@dataclass(frozen=True, eq=False)
class _Array:
    values: np.ndarray

    def numpy(self) -> np.ndarray:
        return self.values


class _Record(dict[str, _Array]):
    """Arrays by name, with the canary whose answer they are."""

    def __init__(self, arrays: dict[str, _Array], canary: int | None = None) -> None:
        super().__init__(arrays)
        self.canary = canary

    def has_error(self) -> bool:
        return False


class _Strategy:
    """A strategy with the methods that `flwr.serverapp.strategy.Strategy.start` calls."""

    def __init__(self, system: FlowerSystem) -> None:
        self.system = system

    def start(self, grid: Any, initial_arrays: Any, num_rounds: int) -> SimpleNamespace:
        arrays = initial_arrays
        for number in range(1, num_rounds + 1):
            (sent,) = self.configure_train(number, arrays, {}, grid)
            after, _ = self.aggregate_train(number, grid(number, sent))
            arrays = arrays if after is None else after
        return SimpleNamespace(arrays=arrays)

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> list[Any]:
        return [arrays]

    def aggregate_train(
        self, server_round: int, replies: Any
    ) -> tuple[_Record | None, dict[str, Any]]:
        system, t = self.system, server_round - 1
        answers = list(replies)
        if not system.is_scored(system, t):
            return None, {}
        system.memory["round"] = t
        before = system.memory.setdefault("weights", np.ones(system.dim))
        _check_canaries([answer["0"].numpy() - before for answer in answers], system.dim)
        handed = system.handed_over(t, [answer.canary for answer in answers])
        system.memory["weights"] = (before + handed).astype(np.float32)
        return _Record({"0": _Array(system.memory["weights"])}), {}


def _check_canaries(updates: list[np.ndarray], dim: int) -> None:
    """Canaries arrive at the server as the adapter sends them: long, in every coordinate."""
    for update in updates:
        assert update.shape == (dim,)
        assert abs(np.linalg.norm(update) - LONG) < 0.01 * LONG


@dataclass(eq=False)
class NVFlareSystem(System):
    """A system whose server is an NVFlare aggregator; the server itself plays the canaries."""

    way: str = "nvflare"

    def deal(self) -> None:
        """The rounds are those that the adapter deals."""
        dealt = spread(np.arange(self.count), self.seed, self.rounds, self.repeats)
        for canary, rounds in enumerate(dealt.by_member(self.count)):
            self.turns[np.array(rounds) - 1, canary] = True

    def _hand_over(self, folder: Path) -> None:
        inner = _Aggregator(self)
        promised = self.promised(self, 0)
        told = (None, None) if self.noise_told is None else self.noise_told(self, 0)
        scored = ScoredAggregator(
            inner,
            folder=str(folder),
            num_rounds=self.rounds,
            seed=self.seed,
            canary_norm=LONG,
            canary_length=promised,
            noise_stddev=told[0],
            norm_bound=told[1],
            count=self.count,
            repeats=self.repeats,
        )
        for t in range(self.rounds):
            scored.fl_ctx = "a context"
            scored.reset_stats()
            if self.is_scored(self, t):  # else no site answers
                scored.accept_model(_Answer({"w": np.zeros(self.dim, np.float32)}, t))
            scored.aggregate_model()


@dataclass
class _Answer:
    """What is read of an NVFlare `FLModel`."""

    params: dict[str, np.ndarray]
    current_round: int
    params_type: str = "DIFF"
    meta: dict[str, Any] = field(default_factory=lambda: {"client_name": "site-1"})


class _Aggregator:
    """An aggregator with the methods of NVFlare's `ModelAggregator`."""

    def __init__(self, system: NVFlareSystem) -> None:
        self.system = system
        self.fl_ctx: Any = None
        self.answers: list[_Answer] = []

    def reset_stats(self) -> None:
        self.answers = []

    def accept_model(self, model: _Answer) -> None:
        self.answers.append(model)

    def aggregate_model(self) -> _Answer | None:
        if not self.answers:
            return None
        site, *canaries = self.answers
        names = [int(answer.meta["client_name"].removeprefix("canary-")) for answer in canaries]
        _check_canaries([answer.params["w"] for answer in canaries], self.system.dim)
        here = self.system.turns[site.current_round]
        np.testing.assert_array_equal(names, np.flatnonzero(here & self.system.included))
        present = np.flatnonzero(here & self.system.present)
        handed = self.system.handed_over(site.current_round, present)
        return _Answer({"w": handed.astype(np.float32)}, site.current_round)
