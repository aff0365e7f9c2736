"""Tasks on examples of one's own with a dense model: a Parquet or CSV table."""

from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.errors import InputError, nearest
from fl_audit.formats.npy_file import AnyArray
from fl_audit.tasks.classifier import Examples, LearningTask
from fl_audit.tasks.client_files import as_examples, clients_task
from fl_audit.tasks.tables import TableTask


def load_table_task(config: TableTask, seed: int) -> LearningTask:
    """The task of a table with an example in each row.

    Args:
      config: The table, its columns, the held-out table and the widths of the model.
      seed: The seed of the run; it decides the initial weights, and what is held out.

    Raises:
      InputError: A table cannot be read, a column is missing, or a feature is no number.
    """
    path = Path(config.path)
    columns = _read(path)
    owners = _column(path, columns, config.client_column)
    if np.any(owners == "") if owners.dtype.kind == "U" else np.isnan(owners).any():
        raise InputError(f"{path}: column `{config.client_column}` is empty in a row")
    examples, features = _examples(path, columns, config, None)
    names, first, owner = np.unique(owners, return_index=True, return_inverse=True)
    ends = np.cumsum(np.bincount(owner))
    rows = np.split(np.argsort(owner, kind="stable"), ends[:-1])  # of each client, as they stand
    clients = {str(names[client]): examples.take(rows[client]) for client in np.argsort(first)}
    held_out = None
    if config.held_out is not None:
        apart = Path(config.held_out)
        held_out, _ = _examples(apart, _read(apart), config, features)
    return clients_task(config, path.name, clients, held_out, seed)


def _examples(
    path: Path, columns: dict[str, AnyArray], config: TableTask, features: list[str] | None
) -> tuple[Examples, list[str]]:
    """The rows as examples, and the names of the features, in their order.

    Args:
      path: The table.
      columns: Its columns.
      config: The names of the columns that are no features.
      features: The names of the features, if another table has fixed them.
    """
    labels = _column(path, columns, config.label_column)
    apart = (config.client_column, config.label_column)
    names = [name for name in columns if name not in apart] if features is None else features
    if not names:
        raise InputError(f"{path}: has no column of features beside {' and '.join(apart)}")
    for name in (config.label_column, *names):
        if _column(path, columns, name).dtype.kind not in "iufb":
            raise InputError(f"{path}: column `{name}` must hold numbers in every row")
    inputs = np.stack([columns[name].astype(np.float32) for name in names], axis=1)
    return as_examples(inputs, labels, str(path)), names


def _column(path: Path, columns: dict[str, AnyArray], name: str) -> AnyArray:
    if name not in columns:
        raise InputError(f"{path}: column `{name}` is missing; {nearest(name, columns)}")
    return columns[name]


def _read(path: Path) -> dict[str, AnyArray]:
    """The columns of a table: numbers, or text where a column holds anything else."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    try:
        read = pa.parquet.read_table if path.suffix == ".parquet" else pa.csv.read_csv
        table = read(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    if len(set(table.column_names)) < table.num_columns or not table.num_rows:
        raise InputError(f"{path}: must have columns of distinct names and at least one row")
    return {
        name: _array(column) for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _array(column: Any) -> AnyArray:
    array: AnyArray = np.asarray(column.to_numpy())
    if array.dtype.kind in "iufb":
        return array
    return np.array(["" if value is None else str(value) for value in array.tolist()], dtype=str)
