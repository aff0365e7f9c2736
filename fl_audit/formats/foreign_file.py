"""The door for files from outside: what is opened is a regular file, and text has a bounded size.

A folder that a stranger has made may hold pipes, whose reading never ends, and links to devices, to
other files of the reader's, or to nothing.
"""

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from fl_audit.errors import InputError

_OF_THE_CALL = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
"""Where a shell puts the pipes that it names in a call, such as /dev/stdin or `<(zcat …)`."""

_MOST_BYTES = 1 << 28
"""The most bytes of a file that is read as a whole, such as the report of a run."""

_LONGEST_LINE = 1 << 24

_KINDS = (
    (stat.S_ISFIFO, "is a pipe"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)


def open_foreign(path: Path) -> io.BufferedReader:
    """Opens a regular file to read from; or a pipe that the call itself names.

    Raises:
      OSError: The file cannot be opened, or is a folder, pipe or device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # waits for no writer
    try:
        _check_kind(path, os.fstat(descriptor).st_mode)
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _check_kind(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode) or (stat.S_ISFIFO(mode) and path.parent in _OF_THE_CALL):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "is no file")
    raise OSError(errno.EINVAL, f"{kind}, must be a regular file", str(path))


def read_foreign(path: Path, most_bytes: int = _MOST_BYTES) -> bytes:
    """Reads a file as a whole.

    Args:
      path: The file.
      most_bytes: The most bytes that it may have.

    Raises:
      OSError: See `open_foreign`; or the file is too large to be what anybody reads as a whole.
    """
    with open_foreign(path) as file:
        too_large = os.fstat(file.fileno()).st_size > most_bytes
        content = b"" if too_large else file.read(most_bytes + 1)
    if too_large or len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"has more than {most_bytes:,} bytes", str(path))
    return content


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 text with their ends, without the mark at the start that some have.

    Raises:
      OSError: See `open_foreign`; or a line is too long.
      UnicodeDecodeError: The text is not UTF-8.
    """
    with io.TextIOWrapper(open_foreign(path), encoding="utf-8-sig", newline="") as file:
        while line := file.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE:
                reason = f"has a line of {_LONGEST_LINE:,} characters or more"
                raise OSError(errno.EFBIG, reason, str(path))
            yield line


@contextlib.contextmanager
def linked_unquoted(path: Path, what: str) -> Iterator[None]:
    """Lets errors of the block quote a file, but not what a link points to.

    A stranger's folder may link to a key of the reader's, whose first line an error would show.

    Args:
      path: The file that is read in the block.
      what: What the file should be, for a message, such as "a score file".

    Raises:
      InputError: The block has raised one.
    """
    try:
        yield
    except InputError:
        if not path.is_symlink():
            raise
        raise InputError(
            f"{path}: is a link to {path.readlink()}, which is not {what}; put the file itself "
            "there to be told what is wrong with it"
        ) from None
