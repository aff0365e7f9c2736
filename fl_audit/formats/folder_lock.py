"""A lock on a folder that ends with the process that holds it, however that ends."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from fl_audit.errors import InputError

LOCK_NAME = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder while the block runs.

    The system gives up the lock (flock) of a process that was killed, so that a file which it has
    left keeps nobody out. Programs that the process starts do not hold it.

    Args:
      folder: The folder, which exists.

    Raises:
      InputError: Another process holds the lock.
      OSError: The folder cannot be written.
    """
    path = folder / LOCK_NAME
    descriptor = _lock(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a fork of this process may have it open too
        os.close(descriptor)


@contextlib.contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Waits for the lock of a file, and holds it while the block runs.

    Args:
      path: The file, which is made and stays.

    Raises:
      OSError: The file cannot be written.
    """
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # given up as the file is closed
        yield


def _lock(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who held it before may have removed the file after it was opened here.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError as error:
            holder = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise InputError(
                f"{path.parent}: another process (number {holder}) is at work in this folder; "
                "wait for its end, or choose another folder"
            ) from error
        os.close(descriptor)
