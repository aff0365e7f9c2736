"""An array of an attacker's state, in files of a run's folder while the run trains."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError
from fl_audit.formats.npy_file import AnyArray, read_array
from fl_audit.formats.text_files import atomic_writer


class CheckpointedArray:
    """Files of an array at the last two checkpoints, as a crash may lose the newer checkpoint."""

    def __init__(
        self, path_of: Callable[[int], Path], paths: Callable[[], Iterable[Path]], number: int
    ) -> None:
        """Continues from the last checkpoint, whose array has this number.

        `path_of` returns the path of an array by its number, and `paths` all existing files.
        """
        self._path_of = path_of
        self._paths = paths
        self._last = number
        self._on_disk: int | None = None

    def read(self, what: str, dtype: npt.DTypeLike, dim: int) -> AnyArray:
        """The array of the last checkpoint, which must be of shape (dim,)."""
        self._on_disk = self._last
        return read_state(self._path_of(self._last), what, dtype, dim)

    def write(self, number: int, array: AnyArray | None) -> None:
        """Writes the array, if there is one, for the next checkpoint, and keeps the previous one.

        Arrays with the same number are equal.
        """
        self.keep(self._last, number)
        if array is not None and number != self._on_disk:
            # A run that was killed may have left a file of this name, from rounds with other noise.
            with atomic_writer(self._path_of(number)) as file:
                np.save(file, array)
            self._on_disk = number
        self._last = number

    def keep(self, *numbers: int) -> None:
        """Removes the files of all other numbers."""
        kept = set(map(self._path_of, numbers))
        for path in self._paths():
            if path not in kept:
                path.unlink()


def read_state(path: Path, what: str, dtype: npt.DTypeLike, dim: int) -> AnyArray:
    """Reads an array, which must be of shape (dim,)."""
    array = read_array(path, what)
    if array.shape != (dim,) or array.dtype != dtype:
        raise InputError(f"{path}: must be {np.dtype(dtype)} of shape {(dim,)}")
    return array
