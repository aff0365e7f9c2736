"""The file of a stored pool: a header, the rows, and their norms.

The first 4,096 bytes are a JSON object padded with spaces; a little-endian int16 per coordinate
follows, canary after canary, and then a little-endian float64 per canary, its row's norm.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError
from fl_audit.formats.text_files import atomic_writer, open_foreign

_FORMAT = "fl-audit canary store"
_VERSION = 1
_HEADER_SIZE = 4096

Rows = npt.NDArray[np.int16]

Identity = Mapping[str, int | str]
"""The identity of a pool: `family`, `seed`, `count` and `dim`."""

Put = Callable[[tuple[int, slice], Rows], None]
"""A function that takes pieces of rows in any order and thread: ((canary, coordinates), piece)."""


@dataclass(frozen=True, eq=False)
class StoredPool:
    """A pool's rows, of shape (count, dim), and their norms, float64 of shape (count,)."""

    rows: Rows
    norms: npt.NDArray[np.float64]


def write_pool(
    path: Path, identity: Identity, put_all: Callable[[Put], npt.NDArray[np.float64]]
) -> None:
    """Writes a pool, whole or not at all.

    Args:
      path: The path of the file.
      identity: The identity of the pool.
      put_all: A function that puts every piece of every row, and returns the norms of the rows.

    Raises:
      InputError: The file cannot be written.
    """
    count, dim = _shape(identity)
    try:
        with atomic_writer(path) as file:
            descriptor = file.fileno()

            def put(place: tuple[int, slice], piece: Rows) -> None:
                canary, coordinates = place
                offset = _HEADER_SIZE + 2 * (canary * dim + coordinates.start)
                _write_at(descriptor, offset, piece.astype("<i2", copy=False).tobytes())

            _write_at(descriptor, 0, _header(identity))
            norms = put_all(put)
            _write_at(
                descriptor,
                _HEADER_SIZE + 2 * count * dim,
                norms.astype("<f8", copy=False).tobytes(),
            )
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def open_pool(path: Path, identity: Identity) -> StoredPool:
    """Maps a pool into memory, read-only.

    Raises:
      InputError: The file is not of this format and version, holds another pool, or is damaged.
    """
    count, dim = _shape(identity)
    try:
        with open_foreign(path) as file:
            header = file.read(_HEADER_SIZE)
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if header != _header(identity):
        raise InputError(
            f"{path}: must start with {_header(identity).rstrip().decode()}, starts with "
            f"{header[:200].rstrip()!r}; delete it or choose another canaries.store_path"
        )
    end_of_rows = _HEADER_SIZE + 2 * count * dim
    if size != end_of_rows + 8 * count:
        raise InputError(
            f"{path}: has {size:,} bytes, must have {end_of_rows + 8 * count:,}; delete it"
        )
    rows = np.memmap(path, "<i2", "r", offset=_HEADER_SIZE, shape=(count, dim))
    return StoredPool(rows, np.fromfile(path, "<f8", offset=end_of_rows))


def _shape(identity: Identity) -> tuple[int, int]:
    return int(identity["count"]), int(identity["dim"])


def _header(identity: Identity) -> bytes:
    fields = {"format": _FORMAT, "version": _VERSION, **identity}
    return json.dumps(fields).encode("ascii").ljust(_HEADER_SIZE)


def _write_at(descriptor: int, offset: int, contents: bytes) -> None:
    """Writes all of the contents, where the system may take a part at a time."""
    while contents:
        written = os.pwrite(descriptor, contents, offset)
        contents, offset = contents[written:], offset + written
