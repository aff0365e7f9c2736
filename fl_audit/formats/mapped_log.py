"""Logs with one row per round: arrays mapped from NPY files, NaN until a row is written.

Rows that are written survive kill -9, and after a flush also a power failure.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError

MappedArray: TypeAlias = "np.memmap[Any, np.dtype[Any]]"


def create_log(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> MappedArray:
    """Makes a log in which nothing is written yet."""
    rows: MappedArray = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
    rows[:] = np.nan
    return rows


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
      InputError: The file is missing, damaged, or of another type or shape.
    """
    try:
        rows: MappedArray = np.lib.format.open_memmap(path, mode)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: is not a log of {what}: {error}") from error
    fits = len(rows.shape) == len(shape) and all(
        isinstance(asked, str) or extent == asked
        for extent, asked in zip(rows.shape, shape, strict=True)
    )
    if not fits or rows.dtype != np.dtype(dtype):
        raise InputError(
            f"{path}: holds {rows.dtype} of shape {rows.shape}, must be {np.dtype(dtype)} of "
            f"shape ({', '.join(map(str, shape))})"
        )
    return rows
