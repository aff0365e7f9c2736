"""The sum of the directions of vectors, which reduces a sum of cosines to one cosine.

For a unit vector c and vectors v_1 to v_T the sum of the cosines of c is <c, U>, where U is the sum
of v_t / |v_t|; this is |U| times the cosine of c with U. So its null law is that of one vector,
however alike the vectors are. U takes the memory of one more model, in float64, and is saved with
the rest of the state that survives a crash.
"""

from pathlib import Path

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.compared_vectors import ComparedVectors, one_vector
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.npy_file import read_array
from fl_audit.formats.text_files import atomic_writer
from fl_audit.inner_products import euclidean_norm

CANCELLED = 0.1
"""The length below which a sum is mostly rounding error, as its directions cancel."""

LOGGED_SUM = "a sum of directions"
"""The name of a sum in the message that its file is damaged."""

_PIECE = 1 << 15
"""The number of coordinates worked on at a time: 256 kB, which fits into a cache."""


def add_direction(total: FloatArray, vector: Float32Array) -> None:
    """Adds a vector's direction to a sum in place; a zero vector adds nothing.

    Args:
      total: The sum, float64 of shape (dim,).
      vector: The vector, float32 of shape (dim,).
    """
    norm = euclidean_norm(vector)
    if norm == 0:
        return
    for start in range(0, len(vector), _PIECE):
        piece = vector[start : start + _PIECE].astype(np.float64)
        piece /= norm
        total[start : start + _PIECE] += piece


def sum_of_cosines(family: str | None, total: FloatArray) -> ComparedVectors | None:
    """What is known of a sum of cosines, as a multiple of the cosine with the sum of directions.

    Args:
      family: The canaries' family.
      total: The sum of directions, float64 of shape (dim,).

    Returns:
      The vector and the multiple; None where directions cancel.
    """
    length = euclidean_norm(total)
    compared = one_vector(family, total) if length > CANCELLED else None
    return None if compared is None else ComparedVectors(compared.vectors, length)


class DirectionSum:
    """The sum of directions in a run that trains.

    The disk holds the sum at the last checkpoint and, while the next checkpoint is saved, its sum
    too.
    """

    def __init__(self, folder: RunFolder, name: str, dim: int, count: int) -> None:
        """Starts at zero, or continues after a checkpoint.

        Args:
          folder: The folder of the run.
          name: The name of the statistic, for file names.
          dim: The length of a vector.
          count: The number of vectors added until the checkpoint.

        Raises:
          InputError: Vectors were added, and the sum is missing or damaged.
        """
        self._folder = folder
        self._name = name
        self._count = self._saved = self._on_disk = count
        self._total = np.zeros(dim) if count == 0 else read_sum(self._path(count), dim)

    def add(self, vector: Float32Array) -> None:
        """Adds the direction of a vector."""
        add_direction(self._total, vector)
        self._count += 1

    def flush(self) -> None:
        """Writes the sum that the next checkpoint will need, and keeps that of the last one."""
        kept = {self._path(self._saved), self._path(self._count)}
        for path in self._folder.direction_sums(self._name):
            if path not in kept:
                path.unlink()
        if self._count != self._on_disk:
            # A run that was killed may have left a file of this name, from rounds with other noise.
            with atomic_writer(self._path(self._count)) as file:
                np.save(file, self._total)
            self._on_disk = self._count
        self._saved = self._count

    def compared(self, family: str | None) -> ComparedVectors | None:
        """What is known of the sum of cosines; None where directions cancel."""
        return sum_of_cosines(family, self._total)

    def _path(self, count: int) -> Path:
        return self._folder.direction_sum(self._name, count)


def read_sum(path: Path, dim: int) -> FloatArray:
    """Reads a sum of directions, float64 of shape (dim,).

    Raises:
      InputError: The file is missing or damaged.
    """
    total: FloatArray = read_array(path, LOGGED_SUM)
    shape = (dim,)
    if total.shape != shape or total.dtype != np.float64:
        raise InputError(f"{path}: must be float64 of shape {shape}")
    return total
