"""The correlation of a log's noise over rounds: the file noise_correlation.json.

It holds the first column of a Toeplitz strategy, `{"first_column": [1.0, 0.5]}`, or the number of
rounds after which a new tree begins, `{"tree_rounds": 64}`; null is one tree over all rounds.
"""

import json
from typing import Any

import msgspec
import numpy as np

from fl_audit.accounting.release import Correlation
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.text_files import read_json, write_text
from fl_audit.library_words import json_words


class _Matrix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    first_column: tuple[float, ...]


class _Tree(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tree_rounds: int | None


def write_correlation(folder: LogFolder, correlation: Correlation) -> None:
    fields: dict[str, Any] = (
        {"tree_rounds": correlation.restart_every}
        if isinstance(correlation, Trees)
        else {"first_column": list(correlation.first_column)}
    )
    write_text(folder.noise_correlation, json.dumps(fields) + "\n")


def read_correlation(folder: LogFolder, num_rounds: int) -> Correlation | None:
    """The stated correlation of a log, over `num_rounds` rounds; None without the file."""
    path = folder.noise_correlation
    if not path.exists():
        return None
    fields = read_json(path, dict[str, Any], "what correlates noise over rounds")
    try:
        if "tree_rounds" in fields:
            rounds = msgspec.convert(fields, _Tree).tree_rounds
            if rounds is not None and rounds < 1:
                raise ValueError(f"tree_rounds must be at least 1 or null, got {rounds}")
            return Trees(num_rounds, rounds)
        column = np.array(msgspec.convert(fields, _Matrix).first_column, np.float64)
        if column.size == 0:
            raise ValueError("first_column must have an entry")
        return Toeplitz.from_column(column, num_rounds)
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"{path}: {json_words(error)}") from error
