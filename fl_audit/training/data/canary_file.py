"""A user's own examples as canaries, one canary for each client of a file."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError, nearest
from fl_audit.formats.npy_file import read_arrays
from fl_audit.formats.text_files import read_csv
from fl_audit.tasks.classifier import Classifier, Examples, ExamplesOfSentences, LearningTask
from fl_audit.tasks.text import read_sentences


def read_canary_file(path: Path, task: LearningTask) -> Sequence[Examples]:
    """The examples of each client of a file, in the order in which they appear.

    A task of text takes a CSV with the columns `client_id` and `text`, one sentence in each row.
    Other tasks take an NPZ file with the arrays `inputs` (examples, ...), `labels` (examples,) and
    optionally `client_id` (examples,), without which each example is a client; or a CSV with the
    columns `client_id` and `label`, followed by those of a flattened input, one example in each
    row. Inputs are scaled as the task's are.

    Args:
      path: The file.
      task: The task that the examples are for.

    Raises:
      InputError: The file cannot be read, or an example does not fit the task.
    """
    if task.examples_of_sentences is not None:
        return _of_text(path, task.examples_of_sentences)
    rows = _read_npz(path) if path.suffix == ".npz" else _read_numbers(path)
    examples = _checked(path, rows, task.classifier)
    _, first, owner = np.unique(rows.client_ids, return_index=True, return_inverse=True)
    return [examples.take(np.flatnonzero(owner == client)) for client in np.argsort(first)]


def _of_text(path: Path, examples_of_sentences: ExamplesOfSentences) -> Sequence[Examples]:
    sentences: dict[str, list[Sequence[str]]] = {}
    for sentence in read_sentences(path):
        sentences.setdefault(sentence.client_id, []).append(sentence.words)
    return [examples_of_sentences(of_client) for of_client in sentences.values()]


@dataclass(frozen=True, eq=False)
class _Rows:
    """The contents of a file of numbers, one example in each row.

    Attributes:
      client_ids: The client of each example, of shape (examples,).
      inputs: The inputs, numbers whose first axis is the example.
      labels: The labels, numbers of shape (examples,).
    """

    client_ids: npt.NDArray[Any]
    inputs: npt.NDArray[Any]
    labels: npt.NDArray[Any]


def _read_npz(path: Path) -> _Rows:
    arrays = read_arrays(path, "an NPZ file of plain arrays")
    for name in ("inputs", "labels"):
        if name not in arrays:
            raise InputError(f"{path}: array `{name}` is missing; {nearest(name, arrays)}")
    ids = arrays.get("client_id", np.arange(arrays["labels"].size))
    if not ids.shape == arrays["labels"].shape == arrays["inputs"].shape[:1]:
        raise InputError(
            f"{path}: inputs {arrays['inputs'].shape}, labels {arrays['labels'].shape} and "
            f"client_id {ids.shape} must have one first extent, and the last two no other"
        )
    return _Rows(ids, arrays["inputs"], arrays["labels"])


def _read_numbers(path: Path) -> _Rows:
    rows = read_csv(path, ("client_id", "label"))
    if not rows:
        raise InputError(f"{path}: has no row; must have one an example")
    columns = [name for name in rows[0] if name not in ("client_id", "label")]
    inputs = [[_number(path, i, row, name) for name in columns] for i, row in enumerate(rows, 1)]
    labels = [_number(path, i, row, "label") for i, row in enumerate(rows, 1)]
    return _Rows(np.array([row["client_id"] for row in rows]), np.array(inputs), np.array(labels))


def _number(path: Path, number: int, row: dict[str, str], column: str) -> float:
    try:
        return float(row[column])
    except ValueError as error:
        raise InputError(
            f"{path}, row {number}: column `{column}` must be a number, got {row[column]!r}"
        ) from error


def _checked(path: Path, rows: _Rows, classifier: Classifier) -> Examples:
    """The rows as examples of the model.

    Raises:
      InputError: The rows are of another size, not finite, or of an unknown class.
    """
    shape, dtype = tuple(classifier.input_spec.shape[1:]), classifier.input_spec.dtype
    size, num_classes = math.prod(shape), classifier.num_classes
    if not (np.issubdtype(rows.inputs.dtype, np.number) and rows.inputs.ndim > 0):
        raise InputError(f"{path}: inputs must be numbers, got {rows.inputs.dtype}")
    if math.prod(rows.inputs.shape[1:]) != size:
        raise InputError(
            f"{path}: an input has {math.prod(rows.inputs.shape[1:])} numbers; must have {size}, "
            f"of shape {shape}"
        )
    _refuse_rows(path, ~np.isfinite(rows.inputs.reshape(-1, size)).all(1), "inputs must be finite")
    is_class = np.isin(rows.labels, np.setdiff1d(range(num_classes), [classifier.padding_label]))
    _refuse_rows(path, ~is_class, f"label must be a class, 0 to {num_classes - 1}")
    inputs = rows.inputs.reshape(-1, *shape).astype(dtype.as_numpy_dtype)
    return Examples(inputs, rows.labels.astype(np.int32))


def _refuse_rows(path: Path, is_bad: npt.NDArray[np.bool_], text: str) -> None:
    if is_bad.any():
        raise InputError(f"{path}, row {int(np.argmax(is_bad)) + 1}: {text}")
