"""The log of every canary's cosine with every round's aggregate, a file of its own on disk."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError

FloatArray = npt.NDArray[np.float64]

# Canaries reduced at a time: 4096 columns of 2,048 rounds are 32 MiB.
_BLOCK = 4096


@dataclass(frozen=True)
class CosineLog:
    """Cosines, float32 of shape (rounds, canaries), mapped from an NPY file.

    A row is written when its round ends and flushed before the checkpoint that counts it.
    """

    _cosines: "np.memmap[Any, np.dtype[np.float32]]"

    @classmethod
    def create(cls, path: Path, num_rounds: int, num_canaries: int) -> "CosineLog":
        """Makes an empty log of this shape."""
        shape = (num_rounds, num_canaries)
        return cls(np.lib.format.open_memmap(path, "w+", np.float32, shape))

    @classmethod
    def open(cls, path: Path, num_rounds: int, num_canaries: int) -> "CosineLog":
        """Opens the log of an interrupted run.

        Raises:
          InputError: the file is missing, damaged, or of another shape.
        """
        try:
            cosines = np.lib.format.open_memmap(path, "r+")
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: is not a log of cosines: {error}") from error
        if cosines.shape != (num_rounds, num_canaries) or cosines.dtype != np.float32:
            raise InputError(
                f"{path}: holds {cosines.dtype} of shape {cosines.shape}, must be float32 of "
                f"shape {(num_rounds, num_canaries)}"
            )
        return cls(cosines)

    def write_round(self, round_index: int, cosines: FloatArray) -> None:
        """Writes one round's row."""
        self._cosines[round_index] = cosines

    def flush(self) -> None:
        """Writes what is in memory to the disk."""
        self._cosines.flush()

    def maxima(self) -> FloatArray:
        """Maximum over rounds, of shape (canaries,) (Andrew et al. Algorithm 2)."""
        return self._reduce(lambda block: block.max(axis=0))

    def sums(self) -> FloatArray:
        """Sum over rounds, of shape (canaries,)."""
        return self._reduce(lambda block: block.sum(axis=0))

    def _reduce(self, reduction: Callable[[FloatArray], FloatArray]) -> FloatArray:
        columns = range(0, self._cosines.shape[1], _BLOCK)
        return np.concatenate(
            [reduction(self._cosines[:, c : c + _BLOCK].astype(np.float64)) for c in columns]
        )
