"""Checkpoints of a run: the state of the learning process as plain arrays, without pickle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.errors import InputError
from fl_audit.formats.npy_file import read_arrays
from fl_audit.formats.text_files import atomic_writer
from fl_audit.training.run.sealed_logs import Seal, Seals

_FORMAT_VERSION = 3
"""The current version; version 2 had no seals, version 1 other `hadamard` canaries."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run between two rounds.

    Attributes:
      completed_rounds: Number of completed rounds.
      state: The state of the learning process after these rounds.
      seals: The seals of the files that grow with the rounds; none before the first round.
    """

    completed_rounds: int
    state: Any
    seals: Seals = field(default_factory=dict)


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint; the file appears whole or not at all."""
    leaves = tf.nest.flatten(checkpoint.state)
    arrays = {f"leaf_{i:04d}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
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


def load_checkpoint(path: Path, initial_state: Any) -> Checkpoint:
    """Reads a checkpoint.

    Args:
      path: The file that `save_checkpoint` wrote.
      initial_state: The initial state of the same learning process, which gives the structure,
        shapes and dtypes.

    Raises:
      InputError: The file is damaged or belongs to another process.
    """
    arrays = read_arrays(path, "a checkpoint")
    if _number(path, arrays, "format_version") != _FORMAT_VERSION:
        raise InputError(f"{path}: is no checkpoint of format version {_FORMAT_VERSION}")
    templates = tf.nest.flatten(initial_state)
    names = [f"leaf_{i:04d}" for i in range(len(templates))]
    if set(names) != {name for name in arrays if name.startswith("leaf_")}:
        raise InputError(f"{path}: belongs to another learning process: its state has other parts")
    leaves = [
        _restore(arrays[name], template, path)
        for name, template in zip(names, templates, strict=True)
    ]
    state = tf.nest.pack_sequence_as(initial_state, leaves)
    return Checkpoint(_number(path, arrays, "completed_rounds"), state, _seals(path, arrays))


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
    """Restores a leaf as its template's type: TFF's states hold bytes, NumPy scalars and arrays."""
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
