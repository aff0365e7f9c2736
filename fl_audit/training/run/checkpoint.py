"""Checkpoints of a run: the state of the learning process as plain arrays, without pickle."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.errors import InputError
from fl_audit.formats.atomic import atomic_writer

_FORMAT_VERSION = 2
"""The current version; version 1 had other `hadamard` canaries and no log of concentrations."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run between two rounds.

    Attributes:
      completed_rounds: Number of completed rounds.
      state: The state of the learning process after these rounds.
    """

    completed_rounds: int
    state: Any


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint; the file appears whole or not at all."""
    leaves = tf.nest.flatten(checkpoint.state)
    arrays = {f"leaf_{i:04d}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    with atomic_writer(path) as file:
        np.savez(
            file,
            format_version=np.int64(_FORMAT_VERSION),
            completed_rounds=np.int64(checkpoint.completed_rounds),
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
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: is not a checkpoint: {error}") from error
    if int(arrays.get("format_version", -1)) != _FORMAT_VERSION:
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
    return Checkpoint(int(arrays["completed_rounds"]), state)


def _restore(array: npt.NDArray[Any], template: Any, path: Path) -> Any:
    """Restores a leaf as its template's type: TFF's states hold bytes, NumPy scalars and arrays."""
    if isinstance(template, bytes):
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
