"""A cached pool of Gaussian canaries with 16 bits per coordinate.

The file of a stored pool is a header, the rows, and their norms: the first 4,096 bytes are a JSON
object padded with spaces; a little-endian int16 per coordinate follows, canary after canary, and
then a little-endian float64 per canary, its row's norm.
"""

import functools
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array
from fl_audit.canaries.canary_tables import Canaries
from fl_audit.canaries.families import (
    FAMILIES,
    LARGEST,
    CanaryFamily,
    Draw,
    GaussianFamily,
    score_on_all_cores,
)
from fl_audit.errors import InputError
from fl_audit.formats.text_files import atomic_writer, open_foreign, reading
from fl_audit.inner_products import inner_product
from fl_audit.resources import available_memory

if TYPE_CHECKING:
    from fl_audit.estimators.null import GaussianCanaryNull
    from fl_audit.estimators.random_signs import Concentration

_FORMAT = "fl-audit canary store"
_VERSION = 1
_HEADER_SIZE = 4096

Rows = npt.NDArray[np.int16]

Identity = Mapping[str, int | str]
"""The keys `family`, `seed`, `count` and `dim` of a pool."""

Put = Callable[[tuple[int, slice], Rows], None]
"""Takes the place of a piece of a row, (canary, coordinates), and the piece; on any thread."""


@dataclass(frozen=True, eq=False)
class StoredPool:
    """A pool's rows, of shape (count, dim), and their norms, float64 of shape (count,)."""

    rows: Rows
    norms: npt.NDArray[np.float64]


def write_pool(
    path: Path, identity: Identity, put_all: Callable[[Put], npt.NDArray[np.float64]]
) -> None:
    """Writes a pool atomically; `put_all` puts every row, and returns the rows' norms."""
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
    """Maps a pool into memory, read-only; refuses another pool and a damaged file."""
    count, dim = _shape(identity)
    with reading(path):
        with open_foreign(path) as file:
            header = file.read(_HEADER_SIZE)
        size = path.stat().st_size
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
    """Writes all of the contents, even if the system writes only a part at a time."""
    while contents:
        written = os.pwrite(descriptor, contents, offset)
        contents, offset = contents[written:], offset + written


_STEPS = np.float32(32_767 / LARGEST)


@dataclass(frozen=True)
class StoredGaussianFamily(CanaryFamily):
    """Gaussian canaries rounded to 16 bits a coordinate, in memory or in a mapped file (`path`).

    A row holds normal numbers divided by `LARGEST`, times 32,767, rounded to whole numbers. The
    same rounded vector is injected and scored, so no score is biased, but the distribution changes
    slightly. A rounded vector is within an angle of 1.02e-4 of the exact vector (for many
    parameters; half a step over a coordinate's root mean square), and no cosine moves by more than
    this angle. A cosine with a vector that is independent of the rounding moves by 5.9e-5 of the
    null's standard deviation (root mean square: a step over sqrt(12)). With as many bits, IEEE half
    precision would move it by 2e-4 and bfloat16 by 1.5e-3, and NumPy converts both more slowly.

    The pool is generated at its first use. An existing file must hold this pool; a file of another
    pool is refused and left unchanged.
    """

    path: Path | None = None

    @classmethod
    def null_tail(cls, dim: int, concentration: "Concentration | None") -> "GaussianCanaryNull":
        """The tail for exact vectors, before rounding."""
        return GaussianFamily.null_tail(dim, concentration)

    def __post_init__(self) -> None:
        """Refuses a pool that does not fit in memory or on the disk."""
        size = 2 * self.num_canaries * self.dim
        if self.path is None:
            _check_room(size, available_memory(), "memory")
        elif not self.path.parent.is_dir():
            raise InputError(f"canaries.store_path: {self.path.parent} is not a folder")
        elif not self.path.exists():
            if not os.access(self.path.parent, os.W_OK | os.X_OK):
                raise InputError(f"canaries.store_path: {self.path.parent} cannot be written")
            free = shutil.disk_usage(self.path.parent).free
            _check_room(size, free, f"the disk of {self.path}")

    def check_file(self) -> None:
        """Refuses an existing file that does not hold this pool."""
        if self.path is not None and self.path.exists():
            open_pool(self.path, self._identity)

    def vector(self, canary: int) -> Float32Array:
        vector: Float32Array = self._pool.rows[canary].astype(np.float32)
        vector /= np.float32(self._pool.norms[canary])
        return vector

    def inner_products(self, target: Float32Array) -> npt.NDArray[np.float64]:
        self._check_shape(target)
        rows = self._pool.rows

        def product(canary: int) -> float:
            return inner_product(rows[canary], target)

        return score_on_all_cores(self.num_canaries, lambda: product) / self._pool.norms

    @functools.cached_property
    def _pool(self) -> StoredPool:
        if self.path is None:
            rows = np.empty((self.num_canaries, self.dim), np.int16)
            return StoredPool(rows, self._round_all(rows.__setitem__))
        if not self.path.exists():
            write_pool(self.path, self._identity, self._round_all)
        pool = open_pool(self.path, self._identity)
        self._check_first_and_last(pool.rows)
        return pool

    def _round_all(self, put: Put) -> npt.NDArray[np.float64]:
        """Puts every rounded piece; returns the rows' norms."""

        def new_rounder() -> Callable[[int], float]:
            draw = self._exact.new_draw()

            def round_canary(canary: int) -> float:
                squares = 0.0
                for coordinates, values in self._rounded_pieces(canary, draw):
                    put((canary, coordinates), values.astype(np.int16))
                    squares += inner_product(values, values)
                return math.sqrt(squares)

            return round_canary

        return score_on_all_cores(self.num_canaries, new_rounder)

    def _rounded_pieces(self, canary: int, draw: Draw) -> Iterator[tuple[slice, Float32Array]]:
        """Pieces of the canary's coordinates, as whole numbers of rounding steps."""
        for start, values in self._exact.pieces(canary, draw):
            np.multiply(values, _STEPS, out=values)
            np.rint(values, out=values)
            yield slice(start, start + values.size), values

    @property
    def _identity(self) -> Identity:
        return {
            "family": "gaussian",
            "seed": self.seed,
            "count": self.num_canaries,
            "dim": self.dim,
        }

    @property
    def _exact(self) -> GaussianFamily:
        return GaussianFamily(self.seed, self.num_canaries, self.dim)

    def _check_first_and_last(self, rows: Rows) -> None:
        draw = self._exact.new_draw()
        for canary in (0, self.num_canaries - 1):
            for coordinates, values in self._rounded_pieces(canary, draw):
                # On another processor last bits may differ, so that a value rounds to a neighbour.
                if np.abs(rows[canary, coordinates] - values).max() > 1:
                    raise InputError(
                        f"{self.path}: canary {canary} is not the one that seed {self.seed} gives: "
                        "the file is damaged or from another version; delete it, and the next run "
                        "makes it anew"
                    )


def _check_room(needed: int, room: int, where: str) -> None:
    if needed > room:
        raise InputError(
            f"canaries.store: the pool takes {needed:,} bytes (2 x canaries.count x parameters), "
            f"{where} has {room:,} free; use fewer canaries or canaries.store 'none'"
        )


def make_family(config: Canaries, seed: int, dim: int) -> CanaryFamily:
    """The family of a config's canaries, cached if the config says so."""
    if (config.store == "disk") != (config.store_path is not None):
        raise InputError(
            "canaries.store_path must name a file where canaries.store is 'disk', and only there; "
            f"got store {config.store!r} and path {config.store_path!r}"
        )
    if config.store == "none":
        return FAMILIES[config.family](seed, config.count, dim)
    if config.family != "gaussian":
        raise InputError(
            f"canaries.store must be 'none' for {config.family} canaries, which are made faster "
            f"than they are read, got {config.store!r}"
        )
    path = None if config.store_path is None else Path(config.store_path)
    return StoredGaussianFamily(seed, config.count, dim, path)
