"""Parts of a task that the runs of a sweep have in common, made by the first and read by the rest.

A part is plain arrays in an NPZ file, which is named by a hash of all that it depends on, so that
another text or another setting is another file. It appears whole.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path

from fl_audit.formats.folders import in_turn
from fl_audit.formats.npy_file import AnyArray, read_or_make
from fl_audit.version import __version__

Arrays = Mapping[str, AnyArray]

_folder: ContextVar[Path | None] = ContextVar("the folder of shared parts", default=None)


@contextlib.contextmanager
def sharing_parts(folder: Path) -> Iterator[None]:
    """Lets the tasks that are loaded inside the block share parts through a folder.

    Args:
      folder: The folder, which is made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def made_once(name: str, source: Path, settings: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays that `make` gives, or has given to another run with this source and settings.

    Outside `sharing_parts` they are made anew. Of several runs that start at one moment one makes
    them, while the others wait.

    Args:
      name: The name of the part, which begins that of its file.
      source: The file that the part is made of; its content counts, not its name.
      settings: All else that it depends on.
      make: A function that makes the arrays.

    Raises:
      OSError: The folder cannot be written.
      InputError: The file of the part is damaged.
    """
    folder = _folder.get()
    if folder is None:
        return make()
    try:
        path = folder / f"{name}-{_key(source, settings)}.npz"
    except OSError:
        return make()  # which says what is wrong with the source
    with in_turn(path.with_suffix(".lock")):
        return read_or_make(path, "a part that the runs of a sweep share; delete it", make)


def _key(source: Path, settings: str) -> str:
    """A hash of the content of a file, of settings, and of this package's version."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(f"\0{__version__}\0{settings}".encode())
    return digest.hexdigest()[:32]
