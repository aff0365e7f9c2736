"""The checks of a run's folder, which is new or left by an interrupted run."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fl_audit.config import Config
from fl_audit.config.file import config_to_toml
from fl_audit.errors import InputError
from fl_audit.formats.folders import LOCK_NAME, RunFolder
from fl_audit.formats.text_files import read_foreign, read_toml, unfinished_files, write_text
from fl_audit.kinds.table import Table


def check_new(path: Path) -> RunFolder:
    """Checks that a new run may go into this folder; writes nothing.

    Raises:
      InputError: The path is not a new or empty folder.
    """
    folder = RunFolder(path)
    _check_unfinished(folder)
    if folder.config.exists():
        raise InputError(f"{path}: holds an interrupted run; continue it with --resume")
    if path.is_symlink() and not path.exists():
        raise InputError(f"{path}: is a link to nothing; must be a new or empty folder")
    if path.exists() and (not path.is_dir() or entries(path)):
        raise InputError(f"{path}: must be a new or empty folder")
    return folder


def entries(path: Path) -> list[Path]:
    """What is in a folder beside the leavings of a killed process."""
    left = {path / LOCK_NAME, *unfinished_files(path)}
    return [entry for entry in path.iterdir() if entry not in left]


def check_resumable(path: Path, config: Table) -> RunFolder:
    """Checks that this folder holds an interrupted run of this config; writes nothing.

    Raises:
      InputError: The folder holds no run, a finished run or a run of another config.
    """
    folder = RunFolder(path)
    _check_unfinished(folder)
    try:
        folder.config.stat()
    except OSError as error:
        raise InputError(f"{path}: holds no run to resume; leave out --resume") from error
    check_same_config(folder, config)
    return folder


def check_same_config(folder: RunFolder, config: Table) -> None:
    """Checks that a folder's run, finished or not, is of this config; its cluster may be another.

    Raises:
      InputError: The folder's config cannot be read, or another key or value is in it.
    """
    earlier, now = read_toml(folder.config), tomllib.loads(config_to_toml(config))
    for table in (earlier, now):
        table.pop("ray", None)  # the result is the same wherever it is computed
    difference = _first_difference(earlier, now, "")
    if difference:
        raise InputError(f"{folder.path}: holds a run of another config: {difference}")


def write_identity(folder: RunFolder, config: Config, canaries_csv: str) -> None:
    """Writes the run's config and canaries, which identify it; the config first."""
    write_text(folder.config, config_to_toml(config))
    write_text(folder.canaries, canaries_csv)


def check_same_canaries(folder: RunFolder, canaries_csv: str) -> None:
    """Checks that an interrupted run has the canaries and rounds that it would have today.

    A run without a checkpoint may lack the file, which is then written.

    Args:
      folder: The folder of the interrupted run.
      canaries_csv: The pool as this version's `canaries_csv` writes it.

    Raises:
      InputError: The folder's pool is missing or differs, as one of an older version may.
    """
    if not folder.canaries.exists() and not folder.checkpoint.exists():
        write_text(folder.canaries, canaries_csv)  # the process was killed before it did
    try:
        earlier = read_foreign(folder.canaries).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{folder.canaries}: cannot be read: {error}") from error
    if earlier != canaries_csv:
        raise InputError(
            f"{folder.canaries}: has other canaries or rounds than this version of fl-audit gives "
            "the config; start the run anew, or resume it with the version that began it"
        )


def _check_unfinished(folder: RunFolder) -> None:
    if folder.report_json.exists():
        raise InputError(f"{folder.path}: already holds a finished run; choose another folder")


def _first_difference(earlier: Any, now: Any, prefix: str) -> str | None:
    if isinstance(earlier, Mapping) and isinstance(now, Mapping):
        keys = sorted(set(earlier) | set(now))
        found = (_first_difference(earlier.get(k), now.get(k), f"{prefix}.{k}") for k in keys)
        return next((difference for difference in found if difference), None)
    if earlier == now:
        return None
    return f"`{prefix[1:]}` was {earlier!r} and is now {now!r}"
