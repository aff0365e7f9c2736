"""Servers with correlated noise, and what is accounted of them: right ones, and wrong ones.

Ten clients a round, 12,000 coordinates, 24 rounds; noise of three clip norms on a sum that is
divided by ten. The noise is made here from dense matrices, not as the package makes it.
"""

from collections.abc import Callable

import numpy as np

from fl_audit.accounting.buffered_toeplitz import BufferedToeplitz, optimise
from fl_audit.accounting.release import Correlation
from fl_audit.accounting.toeplitz import Toeplitz, inverse_column, inverse_sqrt_column, sqrt_column
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.mechanisms.kind import NoiseStream
from tests.checks.stream_servers import treed
from tests.checks.told_servers import Server

DIM, ROUNDS, COHORT, CLIP, NOISE = 12_000, 24, 10, 0.5, 3.0
STDDEV, BOUND = NOISE * CLIP / COHORT, CLIP

Array = np.ndarray


def matrix(column: Array) -> Array:
    """The lower-triangular Toeplitz matrix of a first column over all rounds."""
    rounds = np.arange(ROUNDS)
    lag = rounds[:, None] - rounds
    padded = np.concatenate([column, np.zeros(ROUNDS - len(column))])
    return np.where(lag >= 0, padded[lag], 0.0)


def of_matrix(column: Array) -> Callable[[np.random.Generator], Array]:
    """Noise C^-1 z of the strategy with this first column."""
    return lambda random: np.linalg.solve(matrix(column), random.normal(size=(ROUNDS, DIM)))


def of_trees(restart_every: int) -> Callable[[np.random.Generator], Array]:
    """Noise of trees of so many rounds, made node by node."""
    noise = treed(restart_every, DIM)

    def rows(random: np.random.Generator) -> Array:
        state, made = {}, []
        for index in range(ROUNDS):
            state, row = noise({**state, "round": index}, random)
            made.append(row)
        return np.array(made)

    return rows


def server(
    noise: Callable[[np.random.Generator], Array],
    accounted: Correlation | None,
    stream: NoiseStream | None = None,
    *,
    reacts: bool = False,
    divided: float = 1.0,
) -> Callable[[int], Server]:
    """A server by the seed of its noise and updates.

    Args:
      noise: The noise of all rounds, of shape (rounds, dim), in units of z.
      accounted: What is said to correlate it.
      stream: How it is said to be made of few vectors.
      reacts: Whether clients send the last aggregate back, as those of a real training do.
      divided: The factor by which the number that odd rounds are divided by is off.
    """

    def make(seed: int) -> Server:
        random = np.random.default_rng(seed)
        noises = STDDEV * noise(random)
        common = random.normal(size=DIM)
        released: list[Array] = []
        for index in range(ROUNDS):
            sent = random.normal(size=DIM) + common
            if reacts and released:
                sent = -released[-1]
            sent *= BOUND / np.linalg.norm(sent)
            released.append((sent + noises[index]) * (divided if index % 2 else 1.0))
        scale = np.where(np.arange(ROUNDS) % 2, divided, 1.0)
        return Server(np.array(released), STDDEV * scale, BOUND * scale, accounted, stream)

    return make


def accounted(column: Array) -> Toeplitz:
    """The strategy with this first column over all rounds."""
    return Toeplitz.from_column(column, ROUNDS)


SQRT = sqrt_column(ROUNDS)
BANDS = SQRT[:6]
BLT: BufferedToeplitz = optimise(2, ROUNDS)
BLT_STREAM = NoiseStream(1.0, tuple(-scale for scale in BLT.scales), decays=BLT.decays)
INVERSE = inverse_column(inverse_sqrt_column(4), ROUNDS)
INVERSE_STREAM = NoiseStream(1.0, tuple(inverse_sqrt_column(4)[1:].tolist()), keeps_fresh=True)
COLUMN_NORM = float(np.linalg.norm(BANDS))

RIGHT: dict[str, Callable[[int], Server]] = {
    "square root": server(of_matrix(SQRT), accounted(SQRT)),
    "banded square root": server(of_matrix(BANDS), accounted(BANDS)),
    "one band, as independent noise": server(of_matrix(SQRT[:1]), accounted(SQRT[:1])),
    "a matrix scaled to columns of norm 1": server(
        of_matrix(BANDS / COLUMN_NORM), accounted(BANDS / COLUMN_NORM)
    ),
    "banded inverse": server(of_matrix(INVERSE), accounted(INVERSE), INVERSE_STREAM),
    "banded inverse, by its matrix": server(of_matrix(INVERSE), accounted(INVERSE)),
    "buffers": server(of_matrix(BLT.column(ROUNDS)), accounted(BLT.column(ROUNDS)), BLT_STREAM),
    "a tree": server(of_trees(ROUNDS), Trees(ROUNDS)),
    "trees of 8 rounds": server(of_trees(8), Trees(ROUNDS, 8)),
    "trees of 6 rounds": server(of_trees(6), Trees(ROUNDS, 6)),
    "clients that follow the noise": server(of_matrix(BANDS), accounted(BANDS), reacts=True),
    "clients that follow a tree": server(of_trees(8), Trees(ROUNDS, 8), reacts=True),
    "rounds divided by other numbers": server(of_matrix(BANDS), accounted(BANDS), divided=0.6),
}
"""Right servers."""


def _restarted(column: Array, *, same_seed: bool) -> Callable[[np.random.Generator], Array]:
    """The stream begins again after a resume in the middle, and its seed too if said."""
    half = ROUNDS // 2
    inverse = np.linalg.inv(matrix(column)[:half, :half])

    def noise(random: np.random.Generator) -> Array:
        first, second = random.normal(size=(2, half, DIM))
        return np.concatenate([inverse @ first, inverse @ (first if same_seed else second)])

    return noise


def _kept(column: Array) -> Callable[[np.random.Generator], Array]:
    """One z for all rounds."""
    return lambda random: np.linalg.solve(
        matrix(column), np.tile(random.normal(size=DIM), (ROUNDS, 1))
    )


def _of_unit_length(column: Array) -> Callable[[np.random.Generator], Array]:
    """Noise whose released rows, and not those of z, have the standard deviation of z."""
    inverse = np.linalg.inv(matrix(column))
    rows = inverse / np.linalg.norm(inverse, axis=1, keepdims=True)
    return lambda random: rows @ random.normal(size=(ROUNDS, DIM))


def scaled(
    noise: Callable[[np.random.Generator], Array], factor: float
) -> Callable[[np.random.Generator], Array]:
    """The noise, times a factor."""
    return lambda random: factor * noise(random)


WRONG: dict[str, tuple[Callable[[int], Server], str]] = {
    "half the noise": (server(scaled(of_matrix(BANDS), 0.5), accounted(BANDS)), "enough_noise"),
    "half the noise of a tree": (
        server(scaled(of_trees(8), 0.5), Trees(ROUNDS, 8)),
        "enough_noise",
    ),
    "half the noise of buffers": (
        server(
            scaled(of_matrix(BLT.column(ROUNDS)), 0.5), accounted(BLT.column(ROUNDS)), BLT_STREAM
        ),
        "enough_noise",
    ),
    "other bands than accounted": (
        server(of_matrix(SQRT[:2]), accounted(SQRT[:6])),
        "bounded_length",
    ),
    "bands cut short": (server(of_matrix(SQRT[:6]), accounted(SQRT[:12])), "bounded_length"),
    "the square root, accounted as banded": (
        server(of_matrix(SQRT), accounted(SQRT[:4])),
        "bounded_length",
    ),
    "the stream begins again after a resume": (
        server(_restarted(SQRT, same_seed=False), accounted(SQRT)),
        "bounded_length",
    ),
    "stream and seed begin again after a resume": (
        server(_restarted(BANDS, same_seed=True), accounted(BANDS)),
        "bounded_length",
    ),
    "independent noise, accounted as correlated": (
        server(of_matrix(SQRT[:1]), accounted(BANDS)),
        "bounded_length",
    ),
    "correlated noise, accounted as independent": (
        server(of_matrix(BANDS), None),
        "bounded_length",
    ),
    "independent noise, accounted as trees": (
        server(of_matrix(SQRT[:1]), Trees(ROUNDS, 8)),
        "bounded_length",
    ),
    "one tree, accounted as trees of 8 rounds": (
        server(of_trees(ROUNDS), Trees(ROUNDS, 8)),
        "bounded_length",
    ),
    "noise kept and used again": (server(_kept(BANDS), accounted(BANDS)), "fresh_noise"),
    "columns of norm 1 in accounting alone": (
        server(of_matrix(BANDS), accounted(BANDS / COLUMN_NORM)),
        "enough_noise",
    ),
    "the noise of z on what is released": (
        server(_of_unit_length(SQRT), accounted(SQRT)),
        "enough_noise",
    ),
    "C in place of its inverse": (
        server(lambda random: matrix(BANDS) @ random.normal(size=(ROUNDS, DIM)), accounted(BANDS)),
        "bounded_length",
    ),
}
"""Wrong servers, each with a check that is to find it."""
