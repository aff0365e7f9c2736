"""Lengths and checksums of a run's growing files, which a checkpoint stores and a resume checks."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fl_audit.attacks.audit_table import Audit
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.npy_file import opened, read_header

_PIECE = 1 << 20


@dataclass(frozen=True)
class Seal:
    """The beginning of a file, of which nothing may change any more.

    Attributes:
      length: The length of the beginning, in bytes.
      checksum: The CRC-32 of these bytes.
    """

    length: int
    checksum: int


Seals = Mapping[str, Seal]
"""The seals of the files of a folder, by name."""


def seal_logs(folder: RunFolder, audit: Audit, rounds: range, earlier: Seals) -> Seals:
    """Seals what the logs say of the rounds that are completed; reads only what is new.

    Args:
      folder: The folder of the run, whose files are written to the disk.
      audit: The audit of the run.
      rounds: The rounds of the run from the first one that is not completed to the end.
      earlier: The seals at the last checkpoint, none for a new run.
    """
    lengths = _lengths(folder, audit, rounds)
    return {path.name: _sealed(path, n, earlier.get(path.name)) for path, n in lengths.items()}


def check_logs(folder: RunFolder, seals: Seals) -> None:
    """Checks that files still begin as they did at a checkpoint.

    Args:
      folder: The folder of the run.
      seals: The seals of the checkpoint.

    Raises:
      InputError: A file is missing, shorter than it was, or holds something else.
    """
    for name, seal in seals.items():
        path = folder.path / name
        with opened(path, "what the checkpoint goes with") as file:
            size = file.seek(0, 2)
        if size < seal.length:
            raise InputError(
                f"{path}: has {size:,} bytes, had at least {seal.length:,} at the checkpoint; the "
                "run cannot go on without them, start it anew"
            )
        if _sealed(path, seal.length, None) != seal:
            raise InputError(
                f"{path}: its first {seal.length:,} bytes have changed since the checkpoint; the "
                "run cannot go on with them, start it anew"
            )


def _lengths(folder: RunFolder, audit: Audit, rounds: range) -> dict[Path, int]:
    """The length of the part of each file that is about completed rounds."""
    completed = rounds.start
    every = audit.release_every or rounds.stop
    steps = completed // every if rounds else -(-completed // every)
    rows = {
        folder.round_cosines: completed,
        folder.round_concentrations: completed,
        folder.round_directions: completed,
        folder.round_products: completed,
        folder.aggregates: completed,
        folder.release_cosines: steps,
        folder.release_concentrations: steps,
    }
    lengths = {path: _length(path, count) for path, count in rows.items() if path.exists()}
    wholes = [folder.metrics, *_sums(folder)]
    if rounds and completed % every:  # between two releases
        wholes.append(folder.released_model(completed - completed % every))
    return lengths | {path: path.stat().st_size for path in wholes if path.exists()}


def _sums(folder: RunFolder) -> list[Path]:
    """The sums of directions that this checkpoint goes with, not the last one's beside them."""
    by_count = sorted(folder.direction_sums(), key=lambda path: int(path.stem.rpartition("_")[2]))
    return list({path.stem.rpartition("_")[0]: path for path in by_count}.values())


def _length(path: Path, num_rows: int) -> int:
    """The length of an NPY file up to the end of so many rows."""
    with opened(path, "a log") as file:
        header = read_header(file)
    return header.start + (header.num_bytes // header.shape[0]) * num_rows


def _sealed(path: Path, length: int, earlier: Seal | None) -> Seal:
    at, checksum = (0, 0) if earlier is None else (earlier.length, earlier.checksum)
    with path.open("rb") as file:
        file.seek(at)
        while piece := file.read(min(_PIECE, length - at)):
            at, checksum = at + len(piece), zlib.crc32(piece, checksum)
    return Seal(at, checksum)
