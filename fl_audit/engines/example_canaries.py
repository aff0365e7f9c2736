"""Canaries that hold examples: from the task's clients, from a user's file, or at random.

`make_example_pool` also returns the task without the clients whose data canaries hold.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.attacks.threat_models import check_scored
from fl_audit.canaries.canary_tables import (
    random_inputs,
    random_labels,
    random_sentences,
    wrong_labels,
)
from fl_audit.config import Config, ExampleCanaries
from fl_audit.errors import InputError
from fl_audit.formats.npy_file import read_arrays
from fl_audit.formats.text_files import number_in, read_csv
from fl_audit.participation import PATTERNS
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.client_text import read_sentences
from fl_audit.tasks.learning_task import (
    Examples,
    LearningTask,
    NetworkModel,
    PartOfPopulation,
)


@dataclass(frozen=True, eq=False)
class ExamplePool:
    """The examples of each canary, and the task without the clients whose data canaries hold."""

    task: LearningTask
    examples: Sequence[Examples]


def make_example_pool(config: Config, canaries: ExampleCanaries, task: LearningTask) -> ExamplePool:
    """Takes the canaries' data out of a task's population or a user's file, or draws it.

    Steinke et al. (2023) draw canaries from the test set. Here canaries from the population hold
    the data of randomly sampled training clients, who are no longer real clients. So an
    in-distribution canary is like any other client, and the held-out data that measures accuracy
    stays separate.
    """
    check_scored(canaries, config.audit)
    if canaries.source == "file":
        return ExamplePool(task, _pool_from_file(canaries, task))
    if canaries.source == "random":
        random = generator(config.seed, Stream.CANARY_EXAMPLES)
        return ExamplePool(task, _random(canaries, task, canaries.count or 0, random))
    pattern = PATTERNS.kind_of(config.participation)
    if pattern.names_clients:
        raise InputError(
            f"canaries.source: {canaries.source!r} takes clients out of the population, and the "
            f"log of participation.kind {pattern.table.__struct_config__.tag!r} may name them; "
            "must be 'file'"
        )
    pool = _pool_from_clients(canaries, task, generator(config.seed, Stream.CANARY_EXAMPLES))
    if canaries.source == "mislabelled":
        random = generator(config.seed, Stream.WRONG_LABELS)
        pool = ExamplePool(pool.task, _mislabelled(pool.examples, task, random))
    return pool


def _num_classes(task: LearningTask) -> int:
    """The number of classes: by the outputs or, with one output, by the held-out labels."""
    return max(task.classifier.num_classes, int(task.held_out.labels.max(initial=0)) + 1, 2)


def _refuse_numbers(source: str, task: LearningTask) -> None:
    if task.labels == "numbers":
        raise InputError(
            f"canaries.source: {source!r} is for labels that are classes; must be "
            "'in_distribution' or 'file' for a regression"
        )


def _pool_from_file(config: ExampleCanaries, task: LearningTask) -> Sequence[Examples]:
    path = Path(str(config.path))
    examples = read_canary_file(path, task)
    least = config.count or 2
    if len(examples) < least:
        raise InputError(
            f"{path}: holds {len(examples)} clients, a canary each; must hold at least {least}"
        )
    return examples[: config.count]


def _pool_from_clients(
    config: ExampleCanaries, task: LearningTask, random: np.random.Generator
) -> ExamplePool:
    """Removes random clients from the task until their data suffices for `count` canaries."""
    population, count = task.population, config.count or 0
    is_real = np.ones(len(population.client_ids), bool)
    canaries: list[Examples] = []
    for client in random.permutation(len(is_real)):
        of_client = population.examples(int(client))
        parts = list(parts_of(of_client, config.examples_per_canary or len(of_client)))
        if parts:
            is_real[client] = False
            canaries += parts[: count - len(canaries)]
        if len(canaries) == count:
            break
    if len(canaries) < count or not is_real.any():
        size = config.examples_per_canary
        held = "all examples of a client" if size is None else f"{size} examples of one client"
        raise InputError(
            f"canaries.count: {count} canaries with {held} each need more than the "
            f"{len(is_real)} clients of the task have, as one client must remain; must be smaller"
        )
    left = PartOfPopulation(population, np.flatnonzero(is_real))
    return ExamplePool(dataclasses.replace(task, population=left), canaries)


def parts_of(examples: Examples, size: int) -> Iterator[Examples]:
    """Splits examples into parts of equal size; a smaller last part is dropped."""
    for start in range(0, len(examples) - size + 1, size):
        yield examples.take(np.arange(start, start + size))


def _mislabelled(
    canaries: Sequence[Examples], task: LearningTask, random: np.random.Generator
) -> Sequence[Examples]:
    _refuse_numbers("mislabelled", task)
    num_classes, padding = _num_classes(task), task.classifier.padding_label

    def relabelled(labels: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        return wrong_labels(labels, num_classes, padding, random)

    return [Examples(canary.inputs, relabelled(canary.labels)) for canary in canaries]


# Random examples, and held-out examples like those of canaries.

_SIZES_ASKED = 101


def usual_size(task: LearningTask) -> int:
    """The median number of examples that a client trains on in a pass, over up to 101 clients."""
    population = task.population
    sampled = np.linspace(0, len(population.client_ids) - 1, _SIZES_ASKED).astype(int)
    size = int(np.median([population.num_examples(int(client)) for client in np.unique(sampled)]))
    return min(size, task.max_examples_per_client or size)


def _random(
    canaries: ExampleCanaries, task: LearningTask, count: int, random: np.random.Generator
) -> list[Examples]:
    """Canaries of random examples (`fl_audit.canaries.canary_tables`)."""
    _refuse_numbers("random", task)
    size = canaries.examples_per_canary or usual_size(task)
    design = canaries.design or "signs"
    like, model = task.held_out, task.classifier
    uncounted = model.uncounted_labels if isinstance(model, NetworkModel) else ()
    classes = np.setdiff1d(np.arange(_num_classes(task)), (model.padding_label, *uncounted))
    if like.inputs.dtype.kind == "f" and like.labels.ndim == 1:
        inputs = random_inputs(like.inputs.astype(np.float32), design, count * size, random)
        examples = Examples(inputs, random_labels(classes, count * size, random))
    elif like.inputs.dtype.kind == "i" and like.labels.shape == like.inputs.shape:
        words = np.setdiff1d(classes, like.inputs[:, 0])
        examples = Examples(*random_sentences(like.inputs, words, count * size, random))
    else:
        raise InputError(
            "canaries.source: 'random' is for inputs that are numbers with a class each, and for "
            "sentences with a next word each; must be 'file' for this task"
        )
    return list(parts_of(examples, size))


def alike_canaries(
    canaries: ExampleCanaries, task: LearningTask, count: int, random: np.random.Generator
) -> list[Examples]:
    """Up to `count` further canaries like the run's.

    They are random examples, or mislabelled held-out data; there are none for other sources.
    """
    if canaries.source == "random":
        return _random(canaries, task, count, random)
    if canaries.source != "mislabelled":
        return []
    size = canaries.examples_per_canary or usual_size(task)
    order = random.permutation(len(task.held_out))[: count * size]
    parts = list(parts_of(task.held_out.take(order), size))
    return list(_mislabelled(parts, task, random))


# A user's file of examples, one canary per client.


def read_canary_file(path: Path, task: LearningTask) -> Sequence[Examples]:
    """The examples of each client of a file, in the file's order.

    A text task takes a CSV with the columns `client_id` and `text`, one sentence per row. Other
    tasks take an NPZ file with the arrays `inputs` (examples, ...), `labels` (examples,) and
    optionally `client_id` (examples,), without which each example is a client; or a CSV with the
    columns `client_id` and `label`, followed by a flattened input, one example per row. Inputs must
    be scaled like the task's.
    """
    if task.examples_of_sentences is not None:
        sentences: dict[str, list[Sequence[str]]] = {}
        for sentence in read_sentences(path):
            sentences.setdefault(sentence.client_id, []).append(sentence.words)
        return [task.examples_of_sentences(of_client) for of_client in sentences.values()]
    rows = _read_npz(path) if path.suffix == ".npz" else _read_numbers(path)
    examples = _checked(path, rows, task)
    _, first, owner = np.unique(rows.client_ids, return_index=True, return_inverse=True)
    return [examples.take(np.flatnonzero(owner == client)) for client in np.argsort(first)]


@dataclass(frozen=True, eq=False)
class _Rows:
    """A file of numbers with one example per row."""

    client_ids: npt.NDArray[Any]  # (examples,)
    inputs: npt.NDArray[Any]  # (examples, ...)
    labels: npt.NDArray[Any]  # (examples,)


def _read_npz(path: Path) -> _Rows:
    arrays = read_arrays(path, "an NPZ file of plain arrays", ("inputs", "labels"))
    ids = arrays.get("client_id", np.arange(arrays["labels"].size))
    if not ids.shape == arrays["labels"].shape == arrays["inputs"].shape[:1]:
        raise InputError(
            f"{path}: inputs {arrays['inputs'].shape}, labels {arrays['labels'].shape} and "
            f"client_id {ids.shape} must have the same number of rows, and labels and client_id "
            "only one dimension"
        )
    return _Rows(ids, arrays["inputs"], arrays["labels"])


def _read_numbers(path: Path) -> _Rows:
    rows = read_csv(path, ("client_id", "label"), names=("client_id",))
    if not rows:
        raise InputError(f"{path}: has no row; must have one per example")
    columns = [name for name in rows[0] if name not in ("client_id", "label")]
    inputs = [[number_in(row, name, path, i) for name in columns] for i, row in enumerate(rows, 1)]
    labels = [number_in(row, "label", path, i) for i, row in enumerate(rows, 1)]
    clients = [row["client_id"].strip() for row in rows]
    return _Rows(np.array(clients), np.array(inputs), np.array(labels))


def _checked(path: Path, rows: _Rows, task: LearningTask) -> Examples:
    """The rows as examples; an `InputError` names a wrong shape, value or label."""
    like = task.held_out.inputs
    shape = like.shape[1:]
    size = math.prod(shape)
    if not (np.issubdtype(rows.inputs.dtype, np.number) and rows.inputs.ndim > 0):
        raise InputError(f"{path}: inputs must be numbers, got {rows.inputs.dtype}")
    if math.prod(rows.inputs.shape[1:]) != size:
        raise InputError(
            f"{path}: an input has {math.prod(rows.inputs.shape[1:])} numbers; must have {size}, "
            f"of shape {shape}"
        )
    inputs, labels = rows.inputs.reshape(-1, size), rows.labels
    is_bad = ~_is_kept_as(inputs, like.dtype).all(1)
    _refuse_rows(path, is_bad, f"inputs must be {_kind_of(like.dtype)} numbers in {like.dtype}")
    if task.labels == "numbers":
        is_number, dtype = np.issubdtype(labels.dtype, np.number), task.held_out.labels.dtype
        is_label = _is_kept_as(labels, dtype) if is_number else np.zeros(labels.shape, bool)
        allowed = f"a {_kind_of(dtype)} number in {dtype}"
    else:
        num_classes = _num_classes(task)
        is_label = np.isin(
            labels, np.setdiff1d(range(num_classes), [task.classifier.padding_label])
        )
        allowed = f"a class, 0 to {num_classes - 1}"
    _refuse_rows(path, ~is_label, f"label must be {allowed}")
    of_shape: npt.NDArray[Any] = inputs.reshape(-1, *shape).astype(like.dtype)
    return Examples(of_shape, labels.astype(task.held_out.labels.dtype))


def _is_kept_as(numbers: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    """Whether numbers are real and finite in a dtype and, if it has whole numbers alone, equal."""
    if np.iscomplexobj(numbers):
        return np.zeros(numbers.shape, bool)
    with np.errstate(over="ignore", invalid="ignore"):  # such numbers are refused
        kept = numbers.astype(dtype)
    is_finite = np.isfinite(numbers) & np.isfinite(kept)
    return np.asarray(is_finite & (kept == numbers) if dtype.kind in "iu" else is_finite)


def _kind_of(dtype: np.dtype[Any]) -> str:
    return "whole" if dtype.kind in "iu" else "finite"


def _refuse_rows(path: Path, is_bad: npt.NDArray[np.bool_], text: str) -> None:
    if is_bad.any():
        raise InputError(f"{path}, row {int(np.argmax(is_bad)) + 1}: {text}")
