"""Files that TFF downloads, or that the user has downloaded already."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tensorflow_federated.python.simulation.datasets import download

from fl_audit.errors import InputError

_ORIGIN = "https://storage.googleapis.com/tff-datasets-public"


def tff_database(path: str | None, kind: str, name: str) -> Path:
    """The SQLite file of one of TFF's data sets.

    Args:
      path: The path of a file that is there already; without it TFF's downloader fetches the file,
        once, to ~/.tff.
      kind: The kind of the task.
      name: The name of the file at TFF, such as "emnist_all.sqlite".

    Raises:
      InputError: The file cannot be downloaded.
    """
    if path is not None:
        return Path(path)
    with download_of(kind, "path"):
        return Path(download.get_compressed_file(f"{_ORIGIN}/{name}.lzma"))


@contextlib.contextmanager
def download_of(kind: str, key: str) -> Iterator[None]:
    """Turns a failed download into an error of one line that names the key to set instead."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, OSError):  # Keras raises that one
            raise
        raise InputError(
            f"task.kind {kind!r}: TFF could not load its data: {error}; the first run has to be "
            f"able to download it, or the key `task.{key}` to name the file"
        ) from error
