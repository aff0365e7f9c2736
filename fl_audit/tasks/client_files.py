"""Tasks on a user's data: an NPZ file per client, or one Parquet or CSV table."""

import csv
import io
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError, nearest
from fl_audit.formats.npy_file import AnyArray, read_arrays
from fl_audit.formats.text_files import is_number, plain_header, read_csv_table, reading
from fl_audit.library_words import arrow_words
from fl_audit.progress import warn
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.images import image_classifier
from fl_audit.tasks.learning_task import Examples, InMemoryPopulation, LearningTask, say_left_out
from fl_audit.tasks.task_kinds import ClientFilesTask, NpzTask, TableTask

if TYPE_CHECKING:
    import pyarrow as pa

_HOLD_OUT_EVERY = 10


def load_npz_task(config: NpzTask, seed: int) -> LearningTask:
    """The task of a folder, one NPZ file per client; by default the seed draws a held-out tenth."""
    folder = Path(config.path)
    found = sorted(folder.glob("*.npz")) if folder.is_dir() else []
    paths = [path for path in found if not path.name.startswith(".")]  # macOS adds ._CLIENT.npz
    if not paths:
        raise InputError(f"task.path: {folder} must be a folder with CLIENT.npz files, has none")
    held_out = None if config.held_out is None else Path(config.held_out)
    apart = None if held_out is None else os.path.realpath(held_out)
    read = {path.stem: _read(path) for path in paths if os.path.realpath(path) != apart}
    clients = {name: examples for name, examples in read.items() if examples is not None}
    say_left_out(f"task.path: {folder}", [name for name in read if name not in clients], len(read))
    given = None
    if held_out is not None:
        given = _read(held_out)
        if given is None:
            raise InputError(f"{held_out}: has no example; must hold at least one")
    return clients_task(config, folder.name, clients, given, seed, model=config.model)


def _read(path: Path) -> Examples | None:
    """The examples of a file, images with an axis of channels; None if both arrays are empty."""
    arrays = read_arrays(path, "an NPZ file of plain arrays", ("inputs", "labels"))
    inputs, labels = arrays["inputs"], arrays["labels"]
    if labels.shape == (0,) and inputs.shape[:1] == (0,):
        return None
    examples = as_examples(inputs, labels, str(path))
    return examples if inputs.ndim != 3 else Examples(examples.inputs[..., None], examples.labels)


def as_examples(
    inputs: AnyArray, labels: AnyArray, source: str, columns: Sequence[str] = ()
) -> Examples:
    """Arrays as float32 inputs and int32 classes; `source` and `columns` are for messages."""
    if labels.ndim != 1 or inputs.ndim < 2 or len(inputs) != len(labels) or not inputs.size:
        raise InputError(
            f"{source}: must have one label for each input, at least one; inputs have shape "
            f"{inputs.shape}, labels {labels.shape}"
        )
    labels = labels.astype(np.int32) if labels.dtype.kind == "b" else labels
    if inputs.dtype.kind not in "iufb" or labels.dtype.kind not in "iuf":
        raise InputError(f"{source}: inputs must be finite numbers, labels whole numbers from 0 on")
    with np.errstate(over="ignore"):  # refused below
        features = inputs.astype(np.float32)
    if len(bad := np.argwhere(~np.isfinite(features))):
        row, *at = map(int, bad[0])
        place = columns[at[0]] if columns else "inputs"
        got = inputs[tuple(bad[0])]
        raise InputError(
            f"{source}, row {row + 1}, {place}: must be a finite number in float32, got {got}"
        )
    is_class = (labels >= 0) & (labels < 2**31 - 1) & (labels == np.floor(labels))
    if not is_class.all():
        row = int(np.argmin(is_class))
        raise InputError(
            f"{source}, row {row + 1}: labels must be whole numbers from 0 on, got {labels[row]}"
        )
    return Examples(features, labels.astype(np.int32))


def clients_task(
    config: ClientFilesTask,
    name: str,
    clients: Mapping[str, Examples],
    held_out: Examples | None,
    seed: int,
    *,
    model: str = "dense",
) -> LearningTask:
    """A classifier's task on clients' examples; holds out a tenth if `held_out` is None.

    A dense model gets the inputs as rows of numbers.
    """
    if not clients:
        raise InputError(f"task.path: {config.path} has no client other than the held-out examples")
    names = [*clients, "held out"]
    parts = [*clients.values(), *([] if held_out is None else [held_out])]
    if config.num_classes is None:
        parts, num_classes = _numbered(config, parts)
    else:
        _check_labels(config.num_classes, names, parts)
        num_classes = config.num_classes
    shape = parts[0].inputs.shape[1:]
    for client, examples in zip(names, parts, strict=False):
        if examples.inputs.shape[1:] != shape:
            raise InputError(
                f"task.path: {config.path}: an input of client {client!r} has "
                f"{_numbers(examples.inputs.shape[1:])}, an input of client {names[0]!r} has "
                f"{_numbers(shape)}"
            )
    numbers = math.prod(shape)
    if model == "dense":
        parts = [Examples(e.inputs.reshape(-1, numbers), e.labels) for e in parts]
    data, apart = parts[: len(clients)], parts[len(clients) :]
    data, held_out = (data, apart[0]) if apart else _split(config, data, seed)
    description = f"share of {len(held_out):,} held-out examples classified correctly"
    return LearningTask(
        name=f"examples of {name}",
        classifier=dense_classifier([numbers, *config.hidden, num_classes], seed, description)
        if model == "dense"
        else image_classifier(model, shape, num_classes, seed, description),
        population=InMemoryPopulation(client_ids=list(clients), data=data),
        held_out=held_out,
    )


def _numbers(shape: tuple[int, ...]) -> str:
    return f"{' x '.join(map(str, shape))} numbers"


def _numbered(config: ClientFilesTask, parts: Sequence[Examples]) -> tuple[list[Examples], int]:
    """The examples with labels renumbered as classes from 0, and the number of classes."""
    labels = np.unique(np.concatenate([np.unique(examples.labels) for examples in parts]))
    if labels[-1] != len(labels) - 1:
        warn(
            f"task.path: {config.path}: its {len(labels)} distinct labels, from {labels[0]} to "
            f"{labels[-1]}, are taken as classes from 0 on, in their order; set `num_classes` "
            "to keep labels as they are"
        )
    numbered = [
        Examples(e.inputs, np.searchsorted(labels, e.labels).astype(np.int32)) for e in parts
    ]
    return numbered, max(2, len(labels))


def _check_labels(num_classes: int, names: Sequence[str], parts: Sequence[Examples]) -> None:
    for client, examples in zip(names, parts, strict=False):
        if (largest := int(examples.labels.max())) >= num_classes:
            raise InputError(
                f"task.num_classes: client {client!r} has label {largest}, must be below "
                f"{num_classes}"
            )


def _split(
    config: ClientFilesTask, data: Sequence[Examples], seed: int
) -> tuple[list[Examples], Examples]:
    client = np.repeat(np.arange(len(data)), [len(examples) for examples in data])
    order = generator(seed, Stream.PARTITION).permutation(len(client))
    _, first = np.unique(client[order], return_index=True)  # each client keeps one
    free = np.delete(order, first)
    held = free[: len(client) // _HOLD_OUT_EVERY]
    if not len(held):
        raise InputError(
            f"task.path: {config.path} has too few examples to hold any out; name some in "
            "`held_out`"
        )
    is_held: npt.NDArray[np.bool_] = np.zeros(len(client), bool)
    is_held[held] = True
    parts = np.split(is_held, np.flatnonzero(np.diff(client)) + 1)
    left = [e.take(np.flatnonzero(~part)) for e, part in zip(data, parts, strict=True)]
    taken = [e.take(np.flatnonzero(part)) for e, part in zip(data, parts, strict=True)]
    return left, Examples.concatenate(taken)


# A table with an example in each row.


_INDEX_NAMES = re.compile(r"|Unnamed: 0(\.\d+)?|__index_level_0__")
"""The names of a column of pandas' row numbers: in CSV, in CSV after a second pass, in Parquet."""


def _is_index(name: str, column: AnyArray) -> bool:
    """Whether a column holds row numbers; `index` or `level_0` does if its values count by one."""
    if name in ("index", "level_0"):
        return column.dtype.kind in "iu" and bool(np.all(np.diff(column) == 1))
    return _INDEX_NAMES.fullmatch(name) is not None


def load_table_task(config: TableTask, seed: int) -> LearningTask:
    """The task of a table with an example per row; by default the seed draws a held-out tenth."""
    path = Path(config.path)
    columns = _read_table(path, config.client_column)
    owners = _column(path, columns, config.client_column)
    owners = np.char.strip(owners) if owners.dtype.kind == "U" else owners
    is_empty = owners == "" if owners.dtype.kind == "U" else np.isnan(owners)
    if is_empty.any():
        row = int(np.argmax(is_empty)) + 1
        raise InputError(f"{path}, row {row}: column `{config.client_column}` is empty")
    examples, features = _examples(path, columns, config, None)
    names, first, owner = np.unique(owners, return_index=True, return_inverse=True)
    ends = np.cumsum(np.bincount(owner))
    rows = np.split(np.argsort(owner, kind="stable"), ends[:-1])  # each client's rows, in order
    clients = {str(names[client]): examples.take(rows[client]) for client in np.argsort(first)}
    held_out = None
    if config.held_out is not None:
        held_out_path = Path(config.held_out)
        apart = _read_table(held_out_path, config.client_column)
        held_out, _ = _examples(held_out_path, apart, config, features)
    return clients_task(config, path.name, clients, held_out, seed)


def _examples(
    path: Path, columns: dict[str, AnyArray], config: TableTask, features: list[str] | None
) -> tuple[Examples, list[str]]:
    """The rows as examples, and the names of the features.

    These are `features`, or by default all columns except clients, labels and row numbers.
    """
    not_features = (config.client_column, config.label_column)
    others = [name for name in columns if name not in not_features]
    index = [name for name in others if _is_index(name, columns[name])]
    names = features or [name for name in others if name not in index]
    if not names:
        raise InputError(f"{path}: has no column of features besides {' and '.join(not_features)}")
    for name in (config.label_column, *names):
        columns[name] = _as_numbers(path, name, _column(path, columns, name))
    inputs = np.stack([columns[name] for name in names], axis=1)
    places = [f"column `{name}`" for name in names]
    examples = as_examples(inputs, columns[config.label_column], str(path), places)
    if features is None and index:
        warn(f"{path}: column {index[0]!r} is the rows' index and no feature; it is left out")
    return examples, names


def _column(path: Path, columns: dict[str, AnyArray], name: str) -> AnyArray:
    if name not in columns:
        raise InputError(f"{path}: column `{name}` is missing; {nearest(name, columns)}")
    return columns[name]


def _as_numbers(path: Path, name: str, column: AnyArray) -> AnyArray:
    """A column of numbers, which Parquet may hold as text or as decimal numbers."""
    if column.dtype.kind in "iufb":
        return column
    for row, text in enumerate(column, start=1):
        if not is_number(text):
            raise InputError(f"{path}, row {row}: column `{name}` must be a number, got {text:.60}")
    return column.astype(np.float64)


def _read_table(path: Path, client_column: str) -> dict[str, AnyArray]:
    """The columns of a table by name, as numbers if possible, otherwise as text.

    Names have no blanks around them. Clients of a CSV are text: as numbers, 007 and 7 would be one
    client.
    """
    import pyarrow as pa
    import pyarrow.parquet

    try:
        with reading(path):
            is_parquet = path.suffix == ".parquet"
            table = pa.parquet.read_table(path) if is_parquet else _read_csv(path, client_column)
        names = [name.strip() for name in table.column_names]
        columns = dict(zip(names, map(_array, table.columns), strict=True))
    except pa.ArrowException as error:
        raise InputError(f"{path}: {arrow_words(error)}") from error
    if len(columns) < table.num_columns or not table.num_rows:
        raise InputError(f"{path}: must have columns of distinct names and at least one row")
    return columns


def _read_csv(path: Path, client_column: str) -> "pa.Table":
    """A CSV; of one that is not UTF-8 with commas between columns, a converted copy is read."""
    import pyarrow as pa
    import pyarrow.csv

    source: Path | io.BytesIO = path
    if (plain := plain_header(path)) is not None:
        header, lines = plain
    else:
        table, text = read_csv_table(path, (), names=(client_column,)), io.StringIO(newline="")
        header, lines = table.header, 1
        csv.writer(text).writerows([range(len(header)), *table.rows])  # names may have line breaks
        source = io.BytesIO(text.getvalue().encode())
    read = pa.csv.ReadOptions(
        use_threads=False,  # with threads, errors do not name a row
        column_names=header,
        skip_rows=lines,
    )
    convert = pa.csv.ConvertOptions(column_types={client_column: pa.string()})
    try:
        return pa.csv.read_csv(source, read, convert_options=convert)
    except pa.ArrowException as error:
        raise InputError(f"{path}: {arrow_words(error, lines)}") from error


def _array(column: "pa.ChunkedArray") -> AnyArray:
    """Numbers, and NaN in empty cells, or text, empty in empty cells; dates and times are text."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
        column = column.cast(pa.string())
    array: AnyArray = np.asarray(column.to_numpy())
    if array.dtype.kind == "m":
        texts = np.array([str(duration) for duration in array], dtype=str)  # astype cuts them
        return np.where(np.isnat(array), "", texts)
    if array.dtype.kind in "iuf":
        return array
    return np.array(["" if value is None else str(value) for value in array.tolist()], dtype=str)
