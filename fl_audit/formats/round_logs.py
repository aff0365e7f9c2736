"""Logs with one row per round: arrays mapped from NPY files, NaN until a row is written.

Written rows survive kill -9, and after a flush also a power failure. All logs are `RoundArray`s:
canaries' cosines with aggregates (`CosineLog`) or with their own uploads (`UploadCosines`), the
aggregates' norms (`LengthLog`), concentrations (`ConcentrationLog`) and directions
(`DirectionLog`), and the measurements of `checks.measured_rounds`. A sum over rounds is replaced
after each round (`LoggedTotal`).
"""

import math
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.errors import InputError
from fl_audit.formats.npy_file import AnyArray, next_array, opened, read_header
from fl_audit.formats.text_files import atomic_writer

MappedArray: TypeAlias = "np.memmap[Any, np.dtype[Any]]"

Mode: TypeAlias = Literal["w+", "r+", "a+", "r"]
"""How a log is opened: "w+" creates it, "r+" continues it, "a+" continues it or creates a missing
one atomically, "r" only reads it.
"""


def mode_after(completed: int) -> Mode:
    """The mode for a log of a run after `completed` rounds."""
    return "r+" if completed else "w+"


def create_log(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> MappedArray:
    """Creates a log of NaN, with disk space allocated for all of it."""
    rows = create_zeros(path, dtype, shape)
    rows[:] = np.nan
    return rows


def create_zeros(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> MappedArray:
    """Maps a new NPY file of zeros, with disk space allocated for all of it."""
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    try:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.flush()
            _make_room(file, math.prod(shape) * np.dtype(dtype).itemsize, str(path), shape)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    rows: MappedArray = np.lib.format.open_memmap(path, "r+")
    return rows


def unnamed_log(shape: tuple[int, int]) -> MappedArray:
    """Creates float32 rows in an anonymous temporary file, which is deleted with the array."""
    with tempfile.TemporaryFile() as file:
        where = f"{tempfile.gettempdir()} (set TMPDIR to use another folder)"
        _make_room(file, 4 * math.prod(shape), where, shape)
        return np.memmap(file, np.float32, "r+", shape=shape)


def _make_room(file: IO[bytes], num_bytes: int, name: str, shape: tuple[int, ...]) -> None:
    """Allocates disk space after the file's position; raises OSError if there is too little.

    Otherwise a full disk would end the program by a signal (SIGBUS).
    """
    try:
        if num_bytes:
            os.posix_fallocate(file.fileno(), file.tell(), num_bytes)
    except OSError as error:
        why = f"a log of shape {shape} takes {num_bytes:,} bytes: {error.strerror}"
        raise OSError(error.errno, why, name) from error


def open_log(
    path: Path,
    mode: Literal["r", "r+"],
    dtype: npt.DTypeLike,
    shape: Sequence[int | str],
    what: str,
) -> MappedArray:
    """Opens a log of this dtype and shape.

    A string in `shape`, such as "rounds", matches any extent.

    Raises InputError if the dtype or shape differs, or the file's size does not fit its header.
    """
    with opened(path, f"a log of {what}") as file:
        header = read_header(file)
        num_bytes = os.fstat(file.fileno()).st_size - header.start
    fits = len(header.shape) == len(shape) and all(
        isinstance(expected, str) or extent == expected
        for extent, expected in zip(header.shape, shape, strict=True)
    )
    if not fits or header.dtype != np.dtype(dtype):
        raise InputError(
            f"{path}: holds {header.dtype} of shape {header.shape}, must be {np.dtype(dtype)} of "
            f"shape ({', '.join(map(str, shape))})"
        )
    if num_bytes != header.num_bytes:
        raise InputError(
            f"{path}: is not a log of {what}: its header asks for {header.num_bytes:,} bytes, the "
            f"file has {num_bytes:,}"
        )
    with opened(path, f"a log of {what}"):
        rows: MappedArray = np.lib.format.open_memmap(path, mode)
    return rows


class RoundArray:
    """An NPY file with a row for each round; NaN until a round is written."""

    dtype: ClassVar[npt.DTypeLike] = np.float32
    what: ClassVar[str]
    row_shape: ClassVar[tuple[int, ...]] = ()
    """The shape of a row, for kinds where it is fixed."""

    def __init__(self, array: MappedArray) -> None:
        self.array = array

    @classmethod
    def opened(cls, mode: Mode, path: Path, *shape: int | str) -> Self:
        """Opens or creates a log.

        For an existing log, a string in `shape`, such as "rounds", matches any extent.
        """
        if mode == "a+" and not path.exists():
            unfinished = path.with_name(f".{path.name}.part")
            cls.opened("w+", unfinished, *shape).flush()
            unfinished.rename(path)
        whole = (*shape, *cls.row_shape)
        if mode == "w+":
            return cls(cls._created(path, tuple(map(int, whole))))
        return cls(open_log(path, "r" if mode == "r" else "r+", cls.dtype, whole, cls.what))

    @classmethod
    def _created(cls, path: Path, shape: tuple[int, ...]) -> MappedArray:
        return create_log(path, cls.dtype, shape)

    @property
    def num_rounds(self) -> int:
        """The number of rounds for which the log has room."""
        return int(self.array.shape[0])

    def write_round(self, round_index: int, row: npt.ArrayLike) -> None:
        self.array[round_index] = row

    def flush(self) -> None:
        self.array.flush()

    def values(self) -> AnyArray:
        return np.array(self.array)


class CosineLog(RoundArray):
    """Cosines with every canary, float32 of shape (rounds, canaries)."""

    what = "cosines"

    @classmethod
    def read(cls, path: Path, num_canaries: int) -> Self:
        """Opens a log of any number of rounds, read-only."""
        return cls.opened("r", path, "rounds", num_canaries)

    @property
    def num_canaries(self) -> int:
        return int(self.array.shape[1])

    def written(self) -> npt.NDArray[np.bool_]:
        """Which rounds are written in full, bool of shape (rounds,)."""
        return np.array([bool(np.isfinite(row).all()) for row in self.array], dtype=bool)

    def row(self, round_index: int) -> npt.NDArray[np.float32] | None:
        """One round's row, float32 of shape (canaries,); None until it is written."""
        row: npt.NDArray[np.float32] = np.array(self.array[round_index])
        return row if np.isfinite(row).all() else None

    def rows(self, rounds: range | None = None) -> Iterator[npt.NDArray[np.float32]]:
        """The written rows of all rounds, or of some, one at a time."""
        selected = self.array if rounds is None else self.array[rounds.start : rounds.stop]
        return (row for row in selected if np.isfinite(row).all())


class UploadCosines(CosineLog):
    """Canaries' cosines with their own uploads, float32 of shape (rounds, canaries).

    NaN if a canary has no upload in a round, so a row may stay incomplete.
    """

    def write(self, round_index: int, canary: int, cosine: float) -> None:
        self.array[round_index, canary] = cosine


class LengthLog(RoundArray):
    """Two norms for each round, float64 of shape (rounds, 2).

    A row holds the aggregate's norm, and the largest norm that one client may contribute to it
    (clip norm / denominator).
    """

    dtype, what, row_shape = np.float64, "lengths", (2,)


class ConcentrationLog(RoundArray):
    """Two sums for each round's vector, float64 of shape (rounds, 2).

    A row holds the sums of |a|^3 and of a^4 over the entries a of the vector scaled to norm 1; both
    are 0 for a zero vector, NaN for an unknown one.
    """

    dtype, what, row_shape = np.float64, "concentrations", (2,)

    @classmethod
    def opened(cls, mode: Mode, path: Path, *shape: int | str) -> Self:
        """Also raises InputError for sums that no vector has."""
        log = super().opened(mode, path, *shape)
        rows = log.array
        cubes, fourths = rows.T
        rounding = 1 + 1e-7
        is_sum = (fourths > 0) & (fourths <= rounding * cubes) & (cubes <= 1)
        is_sum &= cubes**2 <= rounding * fourths  # Cauchy and Schwarz
        possible = is_sum | (rows == 0).all(1) | np.isnan(rows).any(1)
        if not possible.all():
            bad = int(np.argmin(possible))
            raise InputError(
                f"{path}: round {bad + 1} has the sums {rows[bad, 0]:g} and {rows[bad, 1]:g}, must "
                "be those of a vector of norm 1, or both 0, or NaN"
            )
        return log


_COLUMNS = 1 << 14
"""Columns per read: 128 MB of float32 for 2,048 rounds."""


class DirectionLog(RoundArray):
    """Directions with their 4-norms, float32 of shape (rounds, 1 + width).

    A row is the 4-norm of a direction (NaN until it is written, 0 for a zero vector), then the
    direction's image: itself, or a random map of it (`attacks.directions`).
    """

    what = "directions"

    @classmethod
    def _created(cls, path: Path, shape: tuple[int, ...]) -> MappedArray:
        return cls.from_rows(create_zeros(path, cls.dtype, shape)).array

    @classmethod
    def from_rows(cls, rows: MappedArray) -> Self:
        """Turns a new array into a log in which no row is written yet."""
        rows[:, 0] = np.nan
        return cls(rows)

    @property
    def width(self) -> int:
        """The number of entries of an image."""
        return int(self.array.shape[1]) - 1

    def forget(self, round_index: int) -> None:
        """Makes a round's direction unknown."""
        self.array[round_index, 0] = np.nan

    def write_direction(self, round_index: int, fourth_norm: float, image: Float32Array) -> None:
        """Writes a round's row; its 4-norm comes last, because it marks the row as written."""
        self.forget(round_index)
        self.array[round_index, 1:] = image
        self.array[round_index, 0] = fourth_norm

    def fourth_norms(self) -> FloatArray:
        """The directions' 4-norms, or NaN or 0 as in `DirectionLog`, float64 of shape (rounds,)."""
        return np.array(self.array[:, 0], np.float64)

    def columns(self, rounds: IntArray) -> Iterator[FloatArray]:
        """The images of some rounds in float64, some columns at a time."""
        for start in range(1, self.array.shape[1], _COLUMNS):
            yield self.array[rounds, start : start + _COLUMNS].astype(np.float64)


LOGGED_SUM = "a sum of directions"
"""The name of a sum's file in error messages."""


class LoggedTotal:
    """A sum of vectors over rounds, with the exact set of its rounds.

    If a round is scored again, the sum becomes unknown: the round's old vector is lost and cannot
    be subtracted. The file is replaced atomically after each round.

    Attributes:
      rounds: The rounds in the sum, counted from 0; None if the sum is unknown.
      total: The sum, float64 of shape (dim,).
    """

    def __init__(self, path: Path, dim: int) -> None:
        """Reads the file; without a file the sum is unknown."""
        self._path = path
        self.rounds: set[int] | None = None
        self.total = np.zeros(dim)
        if path.exists():
            self._read()

    @classmethod
    def create(cls, path: Path) -> None:
        """Writes the file of an empty sum."""
        _write(path, set(), None)

    def forget(self, round_index: int) -> None:
        """Makes the sum unknown if it contains a round that is about to be scored again."""
        if self.rounds is not None and round_index in self.rounds:
            self.rounds = None
            self._path.unlink()

    def add(self, round_index: int, change: Callable[[FloatArray], None]) -> None:
        """Adds a round by `change`, in place, and writes the sum.

        Does nothing if the sum is unknown or has the round.
        """
        if self.rounds is None or round_index in self.rounds:
            return
        change(self.total)
        self.rounds.add(round_index)
        _write(self._path, self.rounds, self.total)

    def _read(self) -> None:
        with opened(self._path, LOGGED_SUM) as file:
            rounds = next_array(file)
            total = next_array(file) if len(rounds) else self.total
            seal = next_array(file) if len(rounds) else None
        if rounds.dtype != np.int64 or rounds.ndim != 1:
            raise InputError(f"{self._path}: must begin with the rounds, int64 of shape (rounds,)")
        if total.dtype != np.float64 or total.shape != self.total.shape:
            raise InputError(
                f"{self._path}: holds {total.dtype} of shape {total.shape}, must be float64 of "
                f"shape {self.total.shape}"
            )
        if seal is not None and not np.array_equal(seal, _seal(rounds, total)):
            raise InputError(
                f"{self._path}: is damaged: its checksum differs; delete the file to go on: "
                "statistics then use a bound that holds whatever the sum is"
            )
        self.rounds, self.total = set(rounds.tolist()), total


def _write(path: Path, rounds: set[int], total: FloatArray | None) -> None:
    """Writes the rounds, the sum and the checksum of both, as three arrays in one file."""
    numbers = np.array(sorted(rounds), dtype=np.int64)
    with atomic_writer(path) as file:
        np.save(file, numbers)
        if total is not None:
            np.save(file, total)
            np.save(file, _seal(numbers, total))


def _seal(rounds: AnyArray, total: AnyArray) -> AnyArray:
    """The checksum (CRC-32) of both arrays, which detects a flipped bit; int64 of shape (1,)."""
    return np.array([zlib.crc32(total.data, zlib.crc32(rounds.data))], np.int64)
