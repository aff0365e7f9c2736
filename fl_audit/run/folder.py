"""The folder of a run that trains: whose it is, the seals of its logs, and its checkpoints.

A run starts in a new or empty folder, and is resumed in one that holds an interrupted run of the
same config. A checkpoint has the state of the engine as plain arrays, without pickle, and the
length and checksum of every log at that time, so that a resume on changed logs is refused.
"""

import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.attacks.audit_table import Audit
from fl_audit.config import Config
from fl_audit.config.file import config_to_toml
from fl_audit.errors import InputError
from fl_audit.formats.folders import LOCK_NAME, RunFolder
from fl_audit.formats.npy_file import opened, read_arrays, read_header
from fl_audit.formats.text_files import (
    atomic_writer,
    read_foreign,
    read_toml,
    unfinished_files,
    write_text,
)
from fl_audit.kinds.table import Table


def check_new(path: Path) -> RunFolder:
    """Checks that a new run may go into this folder; writes nothing.

    Raises:
      InputError: The path is not a new or empty folder.
    """
    folder = RunFolder(path)
    _check_unfinished(folder)
    if folder.config.exists():
        raise InputError(f"{path}: holds an interrupted run; continue it with --resume")
    if path.is_symlink() and not path.exists():
        raise InputError(f"{path}: is a link to nothing; must be a new or empty folder")
    if path.exists() and (not path.is_dir() or entries(path)):
        raise InputError(f"{path}: must be a new or empty folder")
    return folder


def entries(path: Path) -> list[Path]:
    """What is in a folder beside the leavings of a killed process."""
    left = {path / LOCK_NAME, *unfinished_files(path)}
    return [entry for entry in path.iterdir() if entry not in left]


def check_resumable(path: Path, config: Table) -> RunFolder:
    """Checks that this folder holds an interrupted run of this config; writes nothing.

    Raises:
      InputError: The folder holds no run, a finished run or a run of another config.
    """
    folder = RunFolder(path)
    _check_unfinished(folder)
    try:
        folder.config.stat()
    except OSError as error:
        raise InputError(f"{path}: holds no run to resume; leave out --resume") from error
    check_same_config(folder, config)
    return folder


def check_same_config(folder: RunFolder, config: Table) -> None:
    """Checks that a folder's run, finished or not, is of this config; its cluster may be another.

    Raises:
      InputError: The folder's config cannot be read, or another key or value is in it.
    """
    earlier, now = read_toml(folder.config), tomllib.loads(config_to_toml(config))
    for table in (earlier, now):
        table.pop("ray", None)  # the result is the same wherever it is computed
    difference = _first_difference(earlier, now, "")
    if difference:
        raise InputError(f"{folder.path}: holds a run of another config: {difference}")


def write_identity(folder: RunFolder, config: Config, canaries_csv: str) -> None:
    """Writes the run's config and canaries, which identify it; the config first."""
    write_text(folder.config, config_to_toml(config))
    write_text(folder.canaries, canaries_csv)


def check_same_canaries(folder: RunFolder, canaries_csv: str) -> None:
    """Checks that an interrupted run has the canaries and rounds that it would have today.

    A run without a checkpoint may lack the file, which is then written.

    Args:
      folder: The folder of the interrupted run.
      canaries_csv: The pool as this version's `canaries_csv` writes it.

    Raises:
      InputError: The folder's pool is missing or differs, as one of an older version may.
    """
    if not folder.canaries.exists() and not folder.checkpoint.exists():
        write_text(folder.canaries, canaries_csv)  # the process was killed before it did
    try:
        earlier = read_foreign(folder.canaries).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{folder.canaries}: cannot be read: {error}") from error
    if earlier != canaries_csv:
        raise InputError(
            f"{folder.canaries}: has other canaries or rounds than this version of fl-audit gives "
            "the config; start the run anew, or resume it with the version that began it"
        )


def _check_unfinished(folder: RunFolder) -> None:
    if folder.report_json.exists():
        raise InputError(f"{folder.path}: already holds a finished run; choose another folder")


def _first_difference(earlier: Any, now: Any, prefix: str) -> str | None:
    if isinstance(earlier, Mapping) and isinstance(now, Mapping):
        keys = sorted(set(earlier) | set(now))
        found = (_first_difference(earlier.get(k), now.get(k), f"{prefix}.{k}") for k in keys)
        return next((difference for difference in found if difference), None)
    if earlier == now:
        return None
    return f"`{prefix[1:]}` was {earlier!r} and is now {now!r}"


# Seals of the files that grow.


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


# Checkpoints.


_FORMAT_VERSION = 3
"""The current version; version 2 had no seals, version 1 other `hadamard` canaries."""


@dataclass(frozen=True)
class Checkpoint:
    """What a file keeps of a run between two rounds.

    Attributes:
      completed_rounds: Number of completed rounds.
      leaves: The parts of the engine's state after these rounds: arrays, NumPy scalars and bytes.
      seals: The seals of the files that grow with the rounds; none before the first round.
    """

    completed_rounds: int
    leaves: Sequence[Any]
    seals: Seals = field(default_factory=dict)


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint; the file appears whole or not at all."""
    arrays = {f"leaf_{i:04d}": np.asarray(leaf) for i, leaf in enumerate(checkpoint.leaves)}
    with atomic_writer(path) as file:
        np.savez(
            file,
            format_version=np.int64(_FORMAT_VERSION),
            completed_rounds=np.int64(checkpoint.completed_rounds),
            sealed_files=np.array(list(checkpoint.seals), dtype=np.str_),
            seals=np.array(
                [(seal.length, seal.checksum) for seal in checkpoint.seals.values()], np.int64
            ).reshape(-1, 2),
            **arrays,
        )


def load_checkpoint(path: Path, like: Sequence[Any]) -> Checkpoint:
    """Reads a checkpoint.

    Args:
      path: The file that `save_checkpoint` wrote.
      like: The parts of the initial state of the same engine and model, which give number, shapes
        and dtypes.

    Raises:
      InputError: The file is damaged or belongs to another process.
    """
    arrays = read_arrays(path, "a checkpoint")
    if _number(path, arrays, "format_version") != _FORMAT_VERSION:
        raise InputError(f"{path}: is no checkpoint of format version {_FORMAT_VERSION}")
    names = [f"leaf_{i:04d}" for i in range(len(like))]
    if set(names) != {name for name in arrays if name.startswith("leaf_")}:
        raise InputError(f"{path}: belongs to another learning process: its state has other parts")
    leaves = [
        _restore(arrays[name], template, path) for name, template in zip(names, like, strict=True)
    ]
    return Checkpoint(_number(path, arrays, "completed_rounds"), leaves, _seals(path, arrays))


def _number(path: Path, arrays: Mapping[str, npt.NDArray[Any]], name: str) -> int:
    array = arrays.get(name)
    if array is None or array.shape != () or array.dtype != np.int64 or array < 0:
        raise InputError(f"{path}: is not a checkpoint: {name} must be a whole number from 0 on")
    return int(array)


def _seals(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> Seals:
    names, seals = arrays.get("sealed_files"), arrays.get("seals")
    if (
        names is None
        or seals is None
        or names.ndim != 1
        or names.dtype.kind != "U"
        or seals.dtype != np.int64
        or seals.shape != (names.size, 2)
        or any(Path(name).name != name for name in names.ravel().tolist())
    ):
        raise InputError(f"{path}: is not a checkpoint: has no checksums of the run's logs")
    return {name: Seal(*seal) for name, seal in zip(names.tolist(), seals.tolist(), strict=True)}


def _restore(array: npt.NDArray[Any], template: Any, path: Path) -> Any:
    """Restores a part as its template's type: bytes, a NumPy scalar or an array."""
    if isinstance(template, bytes):
        if array.shape != () or array.dtype.kind != "S":
            raise InputError(f"{path}: belongs to another model: a part must be bytes")
        return array.item()
    if not _fits(array.shape, np.shape(template)) or array.dtype != np.asarray(template).dtype:
        raise InputError(
            f"{path}: belongs to another model: a part has shape {array.shape}, "
            f"must be {np.shape(template)}"
        )
    return array[()]


def _fits(shape: tuple[int, ...], initial: tuple[int, ...]) -> bool:
    """Whether a shape is allowed; trees of tensorflow-privacy begin with one row and may grow."""
    return shape == initial or (initial[:1] == (1,) and shape[1:] == initial[1:] and shape[0] > 0)
