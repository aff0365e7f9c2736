"""Servers for replay whose noise is correlated over rounds: right ones, and wrong ones.

Each is a function of state, updates and randomness; the state is a dictionary with the `round` and
what the noise needs of earlier ones. As in a server of one's own, noise is made row by row.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fl_audit.accounting.buffered_toeplitz import optimise
from fl_audit.accounting.release import Correlation
from fl_audit.accounting.toeplitz import Toeplitz, sqrt_column
from fl_audit.accounting.tree_nodes import Trees

SHAPES = ((60, 20), (20,), (20, 10))
DIM = sum(int(np.prod(shape)) for shape in SHAPES)
ROUNDS, CLIP, NOISE, DENOMINATOR = 40, 0.5, 1.3, 12.0

BUFFERED = optimise(2, ROUNDS)

Array = np.ndarray
Noise = Callable[[dict[str, Any], np.random.Generator], tuple[dict[str, Any], Array]]
"""The noise of a round in units of z, and what the state keeps of it."""


def server(noise: Noise) -> Callable[..., Any]:
    """A server that clips, adds up, and adds noise."""

    def of_round(state: Any, updates: Any, random: np.random.Generator) -> Any:
        total = np.zeros(DIM)
        for update in updates:
            flat = np.concatenate([part.ravel() for part in update])
            total += flat * min(1.0, CLIP / max(float(np.linalg.norm(flat)), 1e-30))
        kept, drawn = noise(state, random)
        released = (total + NOISE * CLIP * drawn) / DENOMINATOR
        ends = np.cumsum([np.prod(shape) for shape in SHAPES])[:-1]
        parts = [p.reshape(s) for p, s in zip(np.split(released, ends), SHAPES, strict=True)]
        return {**kept, "round": state["round"] + 1}, parts

    return of_round


def solved(column: Array, every: int = ROUNDS) -> Noise:
    """C^-1 z by forward substitution; with `every`, it begins again after so many rounds."""

    def noise(state: dict[str, Any], random: np.random.Generator) -> Any:
        past = state.get("past", []) if state["round"] % every else []
        row = random.normal(size=DIM)
        for entry, earlier in zip(column[1:], past, strict=False):
            row -= entry * earlier
        row /= column[0]
        return {"past": [row, *past][: len(column) - 1]}, row

    return noise


def buffered(state: dict[str, Any], random: np.random.Generator) -> Any:
    """The noise of a BLT of two buffers."""
    buffers = state.get("buffers", np.zeros((2, DIM)))
    row = random.normal(size=DIM) - np.array(BUFFERED.scales) @ buffers
    return {"buffers": np.array(BUFFERED.decays)[:, None] * buffers + row}, row


def treed(restart_every: int, dim: int = DIM) -> Noise:
    """The differences of trees' released sums (Honaker 2015)."""

    def noise(state: dict[str, Any], random: np.random.Generator) -> Any:
        nodes, before = state.get("nodes", []), state.get("sum", 0.0)
        if state["round"] % restart_every == 0:
            nodes, before = [], 0.0
        nodes, height, estimate = list(nodes), 0, random.normal(size=dim)
        while nodes and nodes[-1][0] == height:
            height += 1
            own = 1 / (2 - 2.0**-height)
            estimate = own * random.normal(size=dim) + (1 - own) * (nodes.pop()[1] + estimate)
        nodes.append((height, estimate))
        total = sum(one for _, one in nodes)
        return {"nodes": nodes, "sum": total}, total - before

    return noise


def fresh(state: dict[str, Any], random: np.random.Generator) -> Any:
    """Independent noise in each round."""
    del state
    return {}, random.normal(size=DIM)


def kept_and_used_again(state: dict[str, Any], random: np.random.Generator) -> Any:
    """Every other round takes the z of the round before."""
    z = state["z"] if state["round"] % 2 and "z" in state else random.normal(size=DIM)
    past = state.get("past", np.zeros(DIM))
    row = z - 0.5 * past
    return {"z": z, "past": row}, row


def halved(noise: Noise) -> Noise:
    """Half of a noise; what is kept of it is whole."""

    def half(state: dict[str, Any], random: np.random.Generator) -> Any:
        kept, row = noise(state, random)
        return kept, row / 2

    return half


def without_a_variable(noise: Noise) -> Noise:
    """No noise on the second variable."""

    def silent(state: dict[str, Any], random: np.random.Generator) -> Any:
        kept, row = noise(state, random)
        first = int(np.prod(SHAPES[0]))
        row = row.copy()
        row[first : first + 20] = 0
        return kept, row

    return silent


SQRT = sqrt_column(ROUNDS)
BLT = BUFFERED.column(ROUNDS)


def strategy(column: Array) -> Toeplitz:
    """The strategy with this first column."""
    return Toeplitz.from_column(column, ROUNDS)


RIGHT: dict[str, tuple[Noise, Correlation]] = {
    "square root": (solved(SQRT), strategy(SQRT)),
    "banded": (solved(SQRT[:4]), strategy(SQRT[:4])),
    "banded, columns of norm 1": (solved(0.8 * SQRT[:4]), strategy(0.8 * SQRT[:4])),
    "buffers": (buffered, strategy(BLT)),
    "a tree": (treed(ROUNDS), Trees(ROUNDS)),
    "trees of 6 rounds": (treed(6), Trees(ROUNDS, 6)),
}
"""Right servers' noise, and what is accounted."""

WRONG: dict[str, tuple[Noise, Correlation]] = {
    "half the noise": (halved(solved(SQRT[:4])), strategy(SQRT[:4])),
    "half the noise of a tree": (halved(treed(6)), Trees(ROUNDS, 6)),
    "other bands": (solved(SQRT[:3]), strategy(SQRT[:4])),
    "bands cut short": (solved(SQRT[:5]), strategy(SQRT[:10])),
    "the square root, accounted as banded": (solved(SQRT), strategy(SQRT[:4])),
    "banded, accounted as the square root": (solved(SQRT[:4]), strategy(SQRT)),
    "buffers, accounted as banded": (buffered, strategy(SQRT[:4])),
    "a stream that begins again": (solved(SQRT, every=5), strategy(SQRT)),
    "independent noise": (fresh, strategy(SQRT[:4])),
    "independent noise, accounted as a tree": (fresh, Trees(ROUNDS)),
    "noise used again": (kept_and_used_again, strategy(SQRT[:2])),
    "columns of norm 1 in accounting alone": (solved(SQRT[:4]), strategy(0.8 * SQRT[:4])),
    "trees that do not begin again": (treed(ROUNDS), Trees(ROUNDS, 6)),
    "trees that begin again": (treed(6), Trees(ROUNDS)),
    "a variable without noise": (without_a_variable(solved(SQRT[:4])), strategy(SQRT[:4])),
}
"""Wrong ones, and what is accounted."""
