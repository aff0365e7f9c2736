"""The rows of C^-1 z, one after the other, from a few vectors kept in memory.

Solving C x = z row by row needs the last bands - 1 rows of x; if C^-1 has few bands, the last
rows of z; and if C is a buffered linear Toeplitz matrix, its buffers (McMahan et al. 2024,
arXiv:2408.08868, algorithm 3).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class NoiseStream:
    """How the noise of a round is computed from fresh noise and kept vectors.

    The noise is `fresh` times the fresh noise plus `weights` times the kept vectors, which start at
    zero. Then the kept vectors are updated: with `decays` each is decayed and the noise is added to
    it; without, they are the last vectors of fresh noise (`keeps_fresh`) or of noise, newest first.
    """

    fresh: float
    weights: tuple[float, ...]
    decays: tuple[float, ...] | None = None
    keeps_fresh: bool = False

    @classmethod
    def from_column(cls, first_column: tuple[float, ...]) -> "NoiseStream":
        """The stream of a Toeplitz strategy with this first column, whose first entry is not 0."""
        first, *below = first_column
        return cls(1 / first, tuple(-entry / first for entry in below))
