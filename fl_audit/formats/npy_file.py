"""NPY and NPZ files from untrusted sources, which may be cut or claim to be huge; NPZ caches."""

import contextlib
import math
import os
import tokenize
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError, nearest
from fl_audit.formats.text_files import atomic_writer, open_foreign

AnyArray: TypeAlias = npt.NDArray[Any]

_MOST_UNPACKED = 2**31
"""The largest unpacked size of an NPZ file in bytes, unless the file itself is larger."""

_ZIP = b"PK\x03\x04"

_DAMAGES = (
    OSError, ValueError, EOFError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError,
    OverflowError, NotImplementedError, RuntimeError, tokenize.TokenError, zipfile.BadZipFile,
)  # fmt: skip
"""The errors of NumPy and zipfile on damaged files."""


@dataclass(frozen=True)
class Header:
    """The header of an NPY file; its array begins at the offset `start`."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int

    @property
    def num_bytes(self) -> int:
        """The number of bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> Header:
    """Reads the header of an array at the file's position; refuses arrays that need pickle."""
    start = file.read(len(_ZIP))
    if start == _ZIP:
        raise ValueError("is an NPZ file, must be one array")
    file.seek(-len(start), os.SEEK_CUR)
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"has NPY format version {version}, must be (1, 0) or (2, 0)")
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("holds Python objects, which are never loaded")
    if any(extent < 0 or isinstance(extent, bool) for extent in shape):
        raise ValueError(f"has shape {shape}")
    return Header(shape, dtype, file.tell())


def read_array(path: Path, what: str) -> AnyArray:
    """Reads an NPY file of one array; an error message says that the file is not `what`."""
    with opened(path, what) as file:
        return next_array(file)


def next_array(file: IO[bytes]) -> AnyArray:
    """Reads the array at the file's position; refuses a file that is too short for it."""
    at = file.tell()
    header = read_header(file)
    num_bytes = os.fstat(file.fileno()).st_size - header.start
    if header.num_bytes > num_bytes:
        raise ValueError(
            f"its header asks for {header.num_bytes:,} bytes, the file has {num_bytes:,}"
        )
    file.seek(at)
    array: AnyArray = np.lib.format.read_array(file, allow_pickle=False)
    return array


def read_arrays(path: Path, what: str, required: Sequence[str] = ()) -> Mapping[str, AnyArray]:
    """Reads an NPZ file; refuses missing arrays, two of one name, and large or other content."""
    with opened(path, what) as file, zipfile.ZipFile(file) as members:
        size = sum(member.file_size for member in members.infolist())
        if len({*members.namelist()}) < len(members.namelist()):
            raise ValueError("holds two arrays of one name")
        start = min((member.header_offset for member in members.infolist()), default=0)
        if members.comment or start > 0:
            raise ValueError("holds more than arrays")
        most = max(_MOST_UNPACKED, os.fstat(file.fileno()).st_size)
        if size > most:
            raise ValueError(f"unpacks to {size:,} bytes, must be at most {most:,}")
        arrays = {
            member.filename.removesuffix(".npy"): _unpacked(members, member)
            for member in members.infolist()
        }
    for name in required:
        if name not in arrays:
            raise InputError(f"{path}: array `{name}` is missing; {nearest(name, arrays)}")
    return arrays


def _unpacked(members: zipfile.ZipFile, member: zipfile.ZipInfo) -> AnyArray:
    with members.open(member) as packed:
        header = read_header(packed)
        if header.num_bytes != member.file_size - header.start:
            raise ValueError(
                f"the header of {member.filename} asks for {header.num_bytes:,} bytes, it has "
                f"{member.file_size - header.start:,}"
            )
    with members.open(member) as packed:
        array: AnyArray = np.lib.format.read_array(packed, allow_pickle=False)
        return array


@contextlib.contextmanager
def opened(path: Path, what: str) -> Iterator[IO[bytes]]:
    """Opens a file; errors in the block on a damaged file become an `InputError`."""
    try:
        with open_foreign(path) as file:
            yield file
    except InputError:
        raise
    except _DAMAGES as error:
        raise InputError(f"{path}: is not {what}: {_reason(error)}") from error


_OURS = ("is ", "its ", "has ", "holds ", "unpacks ", "the header of ")
"""The beginnings of reasons by this module, unlike messages of NumPy and zipfile."""


def _reason(error: BaseException) -> str:
    """Why a file is refused, without messages of NumPy or zipfile."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, zipfile.BadZipFile):
        return "is damaged, or no NPZ file"
    said = str(error)
    return said if said.startswith(_OURS) else "its header or content is damaged or cut"


def read_or_make(
    path: Path, what: str, make: Callable[[], Mapping[str, AnyArray]]
) -> Mapping[str, AnyArray]:
    """The arrays of an NPZ file; a missing file is first written with what `make` returns."""
    if not path.exists():
        arrays = make()
        with atomic_writer(path) as file:
            np.savez(file, **arrays)
    return read_arrays(path, what)
