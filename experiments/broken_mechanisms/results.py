"""Results of runs: a line of JSON each, in a file that grows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    """What is there so far; nothing where there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Adds a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
