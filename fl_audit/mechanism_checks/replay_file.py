"""The file in which a run keeps what the replay of its first round found."""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from fl_audit.errors import InputError
from fl_audit.formats.atomic import write_text
from fl_audit.formats.foreign_file import read_foreign
from fl_audit.mechanism_checks.finding import Finding


def write_replay(path: Path, findings: Sequence[Finding]) -> None:
    """Writes the findings as JSON, `null` for what is infinite."""
    write_text(path, json.dumps([_to_json(finding) for finding in findings], indent=1) + "\n")


def read_replay(path: Path) -> tuple[Finding, ...]:
    """Reads the findings; none where there was no replay.

    Raises:
      InputError: The file is damaged.
    """
    try:
        rows = msgspec.json.decode(read_foreign(path), type=list[dict[str, Any]])
        return tuple(msgspec.convert(_from_json(row), Finding) for row in rows)
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.MsgspecError, TypeError) as error:
        raise InputError(f"{path}: is not the record of a replay: {error}") from error


def _to_json(finding: Finding) -> dict[str, Any]:
    fields = dataclasses.asdict(finding)
    return {**fields, **{key: _finite(fields[key]) for key in ("log_p", "ratio")}}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _from_json(row: dict[str, Any]) -> dict[str, Any]:
    infinite = {"log_p": -math.inf, "ratio": math.inf}
    return {**row, **{key: value for key, value in infinite.items() if row.get(key) is None}}
