"""Logs with a row per round: arrays mapped from NPY files, NaN until a row is written.

What is written survives kill -9, and after a flush a power cut.
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
      path: of the file.
      mode: To read only, or to write on.
      dtype: That it has to hold.
      shape: That it has to be of; a word stands for any extent.
      what: It is a log of, for a message.

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
