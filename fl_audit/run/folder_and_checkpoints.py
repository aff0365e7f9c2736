"""The folder of a run during training: identity, chain of logs, and checkpoints.

A run starts in a new or empty folder, and is resumed in one that holds an interrupted run of the
same config. A checkpoint holds the engine's state as plain arrays, without pickle, and a link of
the chain of logs (`formats.round_chain`), so that resuming on changed logs is refused.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.config import Config
from fl_audit.config.file import config_to_toml
from fl_audit.config_tables.audit import Audit
from fl_audit.config_tables.kinds import Table
from fl_audit.errors import InputError
from fl_audit.formats.folders import LOCK_NAME, RunFolder
from fl_audit.formats.npy_file import read_arrays
from fl_audit.formats.participation_files import new_secret, read_secret, write_secret
from fl_audit.formats.round_chain import ChainWriter, Resumed, Saved, digest_of, read_chain
from fl_audit.formats.text_files import (
    OWNER_ALONE,
    atomic_writer,
    check_format_version,
    check_writable,
    read_foreign,
    read_toml,
    reading,
    unfinished_files,
    write_text,
)


def check_new(path: Path) -> RunFolder:
    """Raises InputError unless a new run may use this folder; writes nothing."""
    folder = RunFolder(path)
    _check_unfinished(folder)
    if folder.config.exists():
        raise InputError(f"{path}: holds an interrupted run; continue it with --resume")
    if path.is_symlink() and not path.exists():
        raise InputError(f"{path}: is a link to nothing; must be a new or empty folder")
    if path.exists() and (not path.is_dir() or entries(path)):
        raise InputError(f"{path}: must be a new or empty folder")
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    try:
        check_writable(there / path.name)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    return folder


def entries(path: Path) -> list[Path]:
    """The contents of a folder, without its lock and temporary files of a killed process."""
    left = {path / LOCK_NAME, *unfinished_files(path)}
    return [entry for entry in path.iterdir() if entry not in left]


def check_resumable(path: Path, config: Table) -> RunFolder:
    """Raises InputError unless the folder holds an interrupted run of this config."""
    folder = RunFolder(path)
    _check_unfinished(folder)
    try:
        folder.config.stat()
    except OSError as error:
        raise InputError(f"{path}: holds no run to resume; leave out --resume") from error
    check_same_config(folder, config)
    return folder


def check_same_config(folder: RunFolder, config: Table) -> None:
    """Raises InputError unless a folder's run is of this config.

    The keys of [ray] and `audit.lost_canaries`, which do not affect results, may differ.
    """
    earlier, now = read_toml(folder.config), tomllib.loads(config_to_toml(config))
    for table in (earlier, now):
        table.pop("ray", None)  # the result does not depend on where it is computed
        table.get("audit", {}).pop("lost_canaries", None)
    difference = _first_difference(earlier, now, "")
    if difference:
        raise InputError(f"{folder.path}: holds a run of another config: {difference}")


def write_identity(
    folder: RunFolder, config: Config, canaries_csv: str, secret: int | None = None
) -> None:
    """Writes the files that identify the run, config first; only the owner can read secrets."""
    write_text(folder.config, config_to_toml(config))
    _write_schedule(folder, canaries_csv, secret)


def _write_schedule(folder: RunFolder, canaries_csv: str, secret: int | None) -> None:
    if secret is None:
        write_text(folder.canaries, canaries_csv)
        return
    write_secret(folder.schedule_secret, secret)
    write_text(folder.canaries, canaries_csv, OWNER_ALONE)


def secret_of(folder: RunFolder, config: Config) -> int:
    """A run's secret: from its folder, else from the config's `schedule_secret`, else a new one.

    `schedule_secret` names a file.
    """
    if folder.schedule_secret.exists():
        return read_secret(folder.schedule_secret)
    if isinstance(config.schedule_secret, str):
        return read_secret(Path(config.schedule_secret))
    return new_secret()


def check_same_canaries(folder: RunFolder, canaries_csv: str, secret: int | None = None) -> None:
    """Raises InputError unless config and code still determine the run's canaries and rounds.

    In a run without a checkpoint the file of canaries may be missing, and is then written. `secret`
    is None if the seed draws the schedule.
    """
    if not folder.canaries.exists() and not folder.checkpoint.exists():
        _write_schedule(folder, canaries_csv, secret)  # the process was killed before it wrote them
    if secret is not None and not folder.schedule_secret.exists():
        raise InputError(
            f"{folder.schedule_secret}: is missing, and the run's rounds were drawn from it; put "
            "it back, or start the run anew"
        )
    with reading(folder.canaries):
        earlier = read_foreign(folder.canaries).decode("utf-8")
    if earlier != canaries_csv:
        raise InputError(
            f"{folder.canaries}: has other canaries or rounds than this version of fl-audit draws "
            "for the config; start the run anew, or resume it with the version that began it"
        )


def _check_unfinished(folder: RunFolder) -> None:
    if folder.report_json.exists():
        raise InputError(f"{folder.path}: already holds a finished run; choose another folder")


def _first_difference(earlier: Any, now: Any, prefix: str) -> str | None:
    if isinstance(earlier, Mapping) and isinstance(now, Mapping):
        keys = sorted(set(earlier) | set(now))
        differences = (_first_difference(earlier.get(k), now.get(k), f"{prefix}.{k}") for k in keys)
        return next((difference for difference in differences if difference), None)
    if earlier == now or repr(earlier) == repr(now):  # NaN differs from itself
        return None
    return f"`{prefix[1:]}` was {earlier!r} and is now {now!r}"


# The chain of the run's logs.


def open_chain(folder: RunFolder, completed: int) -> ChainWriter:
    """The chain of a run, started or continued after its completed rounds."""
    if not folder.chain.exists():
        # With the digests of files that hold the rounds, others could test guesses of the rounds.
        mode = OWNER_ALONE if folder.schedule_secret.exists() else 0o666
        return ChainWriter.begin(folder.chain, folder.identity(), mode)
    chain = ChainWriter.go_on(folder.chain)
    then = "restore the original, or start a new run"
    _check_unchanged(folder, read_chain(folder.chain).begun.files, f"the run began; {then}")
    chain.add(Resumed(rounds=completed))
    return chain


def _check_unchanged(folder: RunFolder, digests: Mapping[str, str], since: str) -> None:
    """Raises InputError unless files have these digests; `since` says when, and what to do."""
    for name, expected in digests.items():
        if digest_of(folder.path / name) != expected:
            raise InputError(f"{folder.path / name}: has changed since {since}")


def kept_files(folder: RunFolder, audit: Audit, rounds: range) -> list[Path]:
    """The files other than logs that a checkpoint needs, and that later checkpoints replace.

    `rounds` are those still to be trained.
    """
    files = _sums(folder)
    if rounds and audit.release_every and (since := rounds.start % audit.release_every):
        files.append(folder.released_model(rounds.start - since))  # between two releases
    return files


def _sums(folder: RunFolder) -> list[Path]:
    """The newest sum of directions of each kind; older ones are of the previous checkpoint."""
    by_count = sorted(folder.direction_sums(), key=lambda path: int(path.stem.rpartition("_")[2]))
    return list({path.stem.rpartition("_")[0]: path for path in by_count}.values())


def check_logs(folder: RunFolder, checkpoint: "Checkpoint") -> None:
    """Raises InputError unless chain, logs and kept files match a checkpoint."""
    chain = read_chain(folder.chain)
    chain.check(folder.chain)
    try:
        chain = chain.until(checkpoint.link)
    except ValueError as error:
        raise InputError(
            f"{folder.chain}: lacks the line that was written with {folder.checkpoint.name}; the "
            "run cannot be resumed, start it anew"
        ) from error
    saved = chain.lines[-1]
    saved_files = saved.files if isinstance(saved, Saved) else {}
    logs = {name for line in chain.rounds.values() for name in (*line.rows, *line.step_rows)}
    for name in sorted({*logs, *saved_files}):
        if not (folder.path / name).exists():
            raise InputError(
                f"{folder.path / name}: is missing, and the checkpoint needs it; the run cannot be "
                "resumed without it, start it anew"
            )
    for row in chain.changed_rows(folder.path):
        raise InputError(
            f"{folder.path / row.name}: round {row.round} has changed since it was logged; the run "
            "cannot be resumed, start it anew"
        )
    unusable = "the run cannot be resumed, start it anew"
    _check_unchanged(folder, saved_files, f"the checkpoint; {unusable}")


# Checkpoints.


_FORMAT_VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """A run between two rounds."""

    completed_rounds: int
    leaves: Sequence[Any]  # the parts of the engine's state: arrays, NumPy scalars and bytes
    link: str = ""  # the link of the checkpoint's line in the chain of the logs


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint atomically."""
    arrays = {f"leaf_{i:04d}": np.asarray(leaf) for i, leaf in enumerate(checkpoint.leaves)}
    with atomic_writer(path, OWNER_ALONE) as file:  # it may hold future noise, or its key
        np.savez(
            file,
            format_version=np.int64(_FORMAT_VERSION),
            completed_rounds=np.int64(checkpoint.completed_rounds),
            link=np.array(checkpoint.link),
            **arrays,
        )


def load_checkpoint(path: Path, like: Sequence[Any]) -> Checkpoint:
    """Reads a checkpoint of the same engine and model, whose initial state is `like`."""
    arrays = read_arrays(path, "a checkpoint")
    check_format_version(path, _number(path, arrays, "format_version"), _FORMAT_VERSION)
    names = [f"leaf_{i:04d}" for i in range(len(like))]
    if set(names) != {name for name in arrays if name.startswith("leaf_")}:
        raise InputError(
            f"{path}: belongs to another learning process: the saved state has other parts"
        )
    leaves = [
        _restore(arrays[name], template, path) for name, template in zip(names, like, strict=True)
    ]
    return Checkpoint(_number(path, arrays, "completed_rounds"), leaves, _link(path, arrays))


def _number(path: Path, arrays: Mapping[str, npt.NDArray[Any]], name: str) -> int:
    array = arrays.get(name)
    if array is None or array.shape != () or array.dtype != np.int64 or array < 0:
        raise InputError(f"{path}: is not a checkpoint: {name} must be a whole number from 0 on")
    return int(array)


def _link(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    link = arrays.get("link")
    if link is None or link.shape != () or link.dtype.kind != "U":
        raise InputError(f"{path}: is not a checkpoint: has no link in the chain of the logs")
    return str(link)


def _restore(array: npt.NDArray[Any], template: Any, path: Path) -> Any:
    """Restores a part with its template's type: bytes, a NumPy scalar or an array."""
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
    """Whether a shape is allowed; tensorflow-privacy's trees start with one row and may grow."""
    return shape == initial or (initial[:1] == (1,) and shape[1:] == initial[1:] and shape[0] > 0)
