"""Arrays that are made once: by who first needs their file, and read by all others."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fl_audit.formats.atomic import atomic_writer
from fl_audit.formats.npy_file import AnyArray, read_arrays


def read_or_make(
    path: Path, what: str, make: Callable[[], Mapping[str, AnyArray]]
) -> Mapping[str, AnyArray]:
    """The arrays of an NPZ file, which is written first, whole, where there is none.

    Args:
      path: The path of the file.
      what: What the file should be, for a message, such as "a file of trained models".
      make: What computes the arrays; it is not called where the file is there.

    Raises:
      InputError: The file is damaged.
      OSError: The file cannot be written.
    """
    if not path.exists():
        made = make()
        with atomic_writer(path) as file:
            np.savez(file, **made)
    return read_arrays(path, what)
