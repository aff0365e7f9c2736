"""Systems whose noise a matrix or a tree correlates, as engineers would build and account them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.attacks import RoundScorer
from tests.outside.systems import CLIP, COHORT, System

SQRT = [1.0]
for k in range(1, 20):
    SQRT.append(SQRT[-1] * (2 * k - 1) / (2 * k))  # Fichtenberger et al. 2023


Row = Callable[[System, int], np.ndarray]
"""The noise of a round, from 0, in units of z; it keeps what it needs in the system's `memory`."""


def matrix(column: list[float], *, restart: int | None = None, same_seed: bool = False) -> Row:
    """C^-1 z, row by row; with `restart` what is kept is lost before that round, from 0."""

    def row(s: System, t: int) -> np.ndarray:
        z = s.memory.setdefault("drawn", [])
        is_again = same_seed and restart is not None and t >= restart
        z.append(z[t - restart] if is_again else s.random.normal(size=s.dim))
        past = [] if t == restart else s.memory.get("past", [])
        made = z[t] - sum((c * old for c, old in zip(column[1:], past, strict=False)), 0.0)
        s.memory["past"] = [made, *past][: len(column) - 1]
        return made

    return row


def tree(restart_every: int) -> Row:
    """Differences of released sums of a tree with Honaker's estimates."""

    def row(s: System, t: int) -> np.ndarray:
        nodes, before = s.memory.get("nodes", []), s.memory.get("sum", 0.0)
        if t % restart_every == 0:
            nodes, before = [], 0.0
        height, estimate = 0, s.random.normal(size=s.dim)
        while nodes and nodes[-1][0] == height:
            height += 1
            own = 1 / (2 - 0.5**height)
            left = nodes.pop()[1]
            estimate = own * s.random.normal(size=s.dim) + (1 - own) * (left + estimate)
        nodes.append((height, estimate))
        s.memory["nodes"], s.memory["sum"] = nodes, sum(one for _, one in nodes)
        return s.memory["sum"] - before

    return row


def _independent(s: System, t: int) -> np.ndarray:
    return s.random.normal(size=s.dim)


def _kept(s: System, t: int) -> np.ndarray:
    """The matrix, with one z in every two rounds."""
    z = s.random.normal(size=s.dim) if t % 2 == 0 else s.memory["z"]
    past = s.memory.get("past", [])
    made = z - sum((c * old for c, old in zip(SQRT[1:4], past, strict=False)), 0.0)
    s.memory["z"], s.memory["past"] = z, [made, *past][:3]
    return made


FOUR_BANDS = matrix(SQRT[:4])


@dataclass(eq=False)
class CorrelatedSystem(System):
    """A system that says how its noise is correlated.

    Attributes:
      accounted: What the folder says: the content of `noise_correlation.json`.
      row: The noise of a round.
    """

    dim: int = 40_000
    count: int = 100
    accounted: dict[str, Any] = field(default_factory=lambda: {"first_column": SQRT[:4]})
    row: Row = FOUR_BANDS

    def __post_init__(self) -> None:
        """Says the noise of z, and that every client may add up to one clip norm."""
        self.make_noise = lambda s, t: self.noise * CLIP * self.row(self, t)
        self.noise_told = lambda s, t: (
            CLIP / COHORT,
            (COHORT + int((s.turns[t] & s.included).sum())) * CLIP / COHORT,
        )

    def _write_log(self, folder: Path) -> None:
        super()._write_log(folder)
        (folder / "noise_correlation.json").write_text(json.dumps(self.accounted))

    def scorer(self, folder: Path) -> RoundScorer:
        """The scorer of a loop that says the same."""
        said = self.accounted
        if "first_column" in said:
            correlation = Toeplitz.from_column(np.array(said["first_column"]), self.rounds)
        else:
            correlation = Trees(self.rounds, said["tree_rounds"])
        return RoundScorer.create(
            folder, self.pool, self.rounds, self.listed(self), noise_correlation=correlation
        )


_TREES = {"tree_rounds": 8}
_NORM = float(np.linalg.norm(SQRT[:4]))

RIGHT: dict[str, Callable[..., CorrelatedSystem]] = {
    "four bands": CorrelatedSystem,
    "the square root": lambda **k: CorrelatedSystem(
        accounted={"first_column": SQRT}, row=matrix(SQRT), **k
    ),
    "trees of eight rounds": lambda **k: CorrelatedSystem(accounted=_TREES, row=tree(8), **k),
    "columns of norm 1": lambda **k: CorrelatedSystem(
        accounted={"first_column": [c / _NORM for c in SQRT[:4]]},
        row=lambda s, t: _NORM * matrix(SQRT[:4])(s, t),
        **k,
    ),
}
"""Right systems."""

WRONG: dict[str, tuple[Callable[..., CorrelatedSystem], str]] = {
    "half the noise": (lambda **k: CorrelatedSystem(0.5, **k), "enough_noise"),
    "half the noise of trees": (
        lambda **k: CorrelatedSystem(0.5, accounted=_TREES, row=tree(8), **k),
        "enough_noise",
    ),
    "independent noise": (lambda **k: CorrelatedSystem(row=_independent, **k), "bounded_length"),
    "stream and seed restart after a resume": (
        lambda **k: CorrelatedSystem(row=matrix(SQRT[:4], restart=11, same_seed=True), **k),
        "bounded_length",
    ),
    "one z for two rounds": (lambda **k: CorrelatedSystem(row=_kept, **k), "fresh_noise"),
    "columns of norm 1 in accounting alone": (
        lambda **k: CorrelatedSystem(
            accounted={"first_column": [c / _NORM for c in SQRT[:4]]}, **k
        ),
        "enough_noise",
    ),
}
"""Wrong systems, each with the check that is to find it."""
