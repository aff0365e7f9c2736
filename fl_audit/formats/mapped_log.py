"""Logs with one row per round: arrays mapped from NPY files, NaN until a row is written.

Rows that are written survive kill -9, and after a flush also a power failure.
"""

import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError
from fl_audit.formats.npy_file import opened, read_header

MappedArray: TypeAlias = "np.memmap[Any, np.dtype[Any]]"


def create_log(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> MappedArray:
    """Makes a log in which nothing is written yet, with room on the disk for all of it.

    Raises:
      InputError: The disk has no room for it.
    """
    rows = create_zeros(path, dtype, shape)
    rows[:] = np.nan
    return rows


def create_zeros(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> MappedArray:
    """Maps a new NPY file of zeros, with room on the disk for all of it.

    Raises:
      InputError: The disk has no room for it.
    """
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    try:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.flush()
            _make_room(file, math.prod(shape) * np.dtype(dtype).itemsize, f"{path}: a log", shape)
    except InputError:
        path.unlink(missing_ok=True)
        raise
    rows: MappedArray = np.lib.format.open_memmap(path, "r+")
    return rows


def unnamed_log(shape: tuple[int, int]) -> MappedArray:
    """Makes float32 rows in a file without a name, which goes with the array.

    Raises:
      InputError: The disk has no room for them.
    """
    with tempfile.TemporaryFile() as file:
        where = f"{tempfile.gettempdir()} (TMPDIR names another folder): a file"
        _make_room(file, 4 * math.prod(shape), where, shape)
        return np.memmap(file, np.float32, "r+", shape=shape)


def _make_room(file: IO[bytes], num_bytes: int, what: str, shape: tuple[int, ...]) -> None:
    """Takes room on the disk behind the file's position.

    A mapped file that outgrew the disk later would end the program by a signal (SIGBUS).

    Raises:
      InputError: There is no room.
    """
    try:
        if num_bytes:
            os.posix_fallocate(file.fileno(), file.tell(), num_bytes)
    except OSError as error:
        raise InputError(
            f"{what} of shape {shape} takes {num_bytes:,} bytes: {error.strerror}"
        ) from error


def open_log(
    path: Path,
    mode: Literal["r", "r+"],
    dtype: npt.DTypeLike,
    shape: Sequence[int | str],
    what: str,
) -> MappedArray:
    """Opens a log.

    Args:
      path: The path of the file.
      mode: The mode: "r" to read only, "r+" to continue writing.
      dtype: The type that the file has to hold.
      shape: The shape that it has to have; a word stands for any extent.
      what: The contents of the log in words, for a message.

    Raises:
      InputError: The file is missing, damaged, shorter or longer than its header says, or of
        another type or shape.
    """
    with opened(path, f"a log of {what}") as file:
        header = read_header(file)
        num_bytes = os.fstat(file.fileno()).st_size - header.start
    fits = len(header.shape) == len(shape) and all(
        isinstance(asked, str) or extent == asked
        for extent, asked in zip(header.shape, shape, strict=True)
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
