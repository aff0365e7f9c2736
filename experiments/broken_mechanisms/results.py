"""Results of runs in a file to which a line of JSON is added per run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    """The results so far; none where there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Adds one result to the file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
