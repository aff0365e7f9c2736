"""The secret that a schedule is drawn from: 256 bits as 64 hexadecimal digits in a file.

The seed makes a run repeatable and may be printed. The secret makes its sampling private: it is in
this file alone, which only its owner may read.
"""

import re
import secrets
from pathlib import Path

from fl_audit.errors import InputError
from fl_audit.formats.text_files import OWNER_ALONE, read_foreign, reading, write_text

_BITS = 256


def new_secret() -> int:
    """A secret from the operating system's entropy."""
    return secrets.randbits(_BITS)


def write_secret(path: Path, secret: int) -> None:
    """Writes a secret for its owner alone."""
    write_text(path, f"{secret:0{_BITS // 4}x}\n", OWNER_ALONE)


def read_secret(path: Path) -> int:
    """Reads a secret."""
    with reading(path):
        text = read_foreign(path).decode("ascii", errors="replace").strip()
    if not re.fullmatch(rf"[0-9a-f]{{{_BITS // 4}}}", text):
        raise InputError(
            f"{path}: holds no secret of a schedule; must be {_BITS // 4} hexadecimal digits, such "
            "as `openssl rand -hex 32` prints"
        )
    return int(text, 16)
