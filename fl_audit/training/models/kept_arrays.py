"""What was computed of trained models, kept in files that are named by all that decides it.

A killed process loses what it was computing and no more: what a file holds is read.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError
from fl_audit.formats.npy_file import AnyArray, read_or_make

Shapes = Mapping[str, tuple[int, ...]]
"""The shape of each array of a file."""


def digest_of(facts: Any, arrays: Sequence[AnyArray]) -> "hashlib._Hash":
    """The digest of all that decides the content of several files; more may be added to a copy.

    Args:
      facts: Numbers, words, and lists and tables of these.
      arrays: Arrays of numbers.
    """
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest


def name_of(common: "hashlib._Hash", training: npt.NDArray[np.bool_], first: int) -> str:
    """The end of a file's name: the number of its first model and a digest of what decides it.

    Args:
      common: The digest of what all models have in common.
      training: What each model is trained on, bool of shape (models, members).
      first: The number of the first model.
    """
    digest = common.copy()
    digest.update(f"{first} {training.shape}".encode() + np.packbits(training).tobytes())
    return f"{first:06d}-{digest.hexdigest()[:24]}.npz"


def kept_arrays(
    path: Path, shapes: Shapes, make: Callable[[], Mapping[str, AnyArray]]
) -> Mapping[str, AnyArray]:
    """The arrays of a file, which is written first where there is none.

    Args:
      path: The file.
      shapes: The shape of each array.
      make: What computes the arrays; it is not called where the file is there.

    Raises:
      InputError: The file is damaged.
    """
    found = read_or_make(path, "a file of trained models", make)
    if {name: array.shape for name, array in found.items()} != shapes:
        raise InputError(f"{path}: is damaged; remove it to train its models again")
    return found
