"""Tasks on examples of one's own: a folder of NPZ files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError, nearest
from fl_audit.formats.npy_file import AnyArray, read_arrays
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Examples, InMemoryPopulation, LearningTask
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.image_models import image_classifier
from fl_audit.tasks.tables import ClientFilesTask, NpzTask

_HOLD_OUT_EVERY = 10


def load_npz_task(config: NpzTask, seed: int) -> LearningTask:
    """The task of a folder with an NPZ file for each client, which is named as the file is.

    Args:
      config: The folder, the held-out file and the model.
      seed: The seed of the run; it decides the initial weights, and what is held out.

    Raises:
      InputError: A file cannot be read, or the files do not go together.
    """
    shaped = _flat if config.model == "dense" else _with_channels
    folder = Path(config.path)
    paths = sorted(folder.glob("*.npz")) if folder.is_dir() else []
    if not paths:
        raise InputError(f"task.path: {folder} must be a folder with CLIENT.npz files, has none")
    held_out = None if config.held_out is None else Path(config.held_out)
    clients = {path.stem: shaped(_read(path)) for path in paths if path != held_out}
    given = None if held_out is None else shaped(_read(held_out))
    return clients_task(config, folder.name, clients, given, seed, model=config.model)


def _flat(examples: Examples) -> Examples:
    return Examples(examples.inputs.reshape(len(examples), -1), examples.labels)


def _with_channels(examples: Examples) -> Examples:
    """Images of height x width with one channel."""
    inputs = examples.inputs[..., None] if examples.inputs.ndim == 3 else examples.inputs
    return Examples(inputs, examples.labels)


def _read(path: Path) -> Examples:
    arrays = read_arrays(path, "an NPZ file of plain arrays")
    for name in ("inputs", "labels"):
        if name not in arrays:
            raise InputError(f"{path}: array `{name}` is missing; {nearest(name, arrays)}")
    return as_examples(arrays["inputs"], arrays["labels"], str(path))


def as_examples(inputs: AnyArray, labels: AnyArray, source: str) -> Examples:
    """Numbers as examples of a classifier: inputs in float32, labels classes from 0.

    Args:
      inputs: Numbers whose first axis is the example.
      labels: Whole numbers, one for each example.
      source: Where they are from, for messages.

    Raises:
      InputError: They are no such numbers.
    """
    if labels.ndim != 1 or inputs.ndim < 2 or len(inputs) != len(labels) or not inputs.size:
        raise InputError(
            f"{source}: must have one label for each input, at least one; inputs have shape "
            f"{inputs.shape}, labels {labels.shape}"
        )
    if inputs.dtype.kind not in "iufb" or not np.isfinite(inputs).all():
        raise InputError(f"{source}: inputs must be finite numbers")
    is_class = labels.dtype.kind in "iuf" and bool(
        np.all((labels >= 0) & (labels < 2**31 - 1) & (labels == np.floor(labels)))
    )
    if not is_class:
        raise InputError(f"{source}: labels must be whole numbers from 0 on")
    return Examples(inputs.astype(np.float32), labels.astype(np.int32))


def clients_task(
    config: ClientFilesTask,
    name: str,
    clients: Mapping[str, Examples],
    held_out: Examples | None,
    seed: int,
    *,
    model: str = "dense",
) -> LearningTask:
    """The task of clients with examples of a classifier.

    Args:
      config: The widths of a dense model and the number of classes.
      name: The name of the data, for people.
      clients: The examples of each client.
      held_out: Examples that no client has; None takes a tenth of the clients' examples.
      seed: The seed of the run.
      model: The model, `dense` or one of images.

    Raises:
      InputError: Two clients differ in their features, the model does not take these, a label is
        no class, there is no client, or too little data to hold any out.
    """
    if not clients:
        raise InputError(f"task.path: {config.path} has no client beside the held-out examples")
    everything = {**clients, **({} if held_out is None else {"held out": held_out})}
    (first, *_), num_classes = clients, _num_classes(config, everything)
    shape = clients[first].inputs.shape[1:]
    for client, examples in everything.items():
        if examples.inputs.shape[1:] != shape:
            raise InputError(
                f"task.path: {config.path}: an input of client {client!r} has "
                f"{_numbers(examples.inputs.shape[1:])}, one of {first!r} has {_numbers(shape)}"
            )
    data: Sequence[Examples] = list(clients.values())
    if held_out is None:
        data, held_out = _split(config, data, seed)
    description = f"share of {len(held_out):,} held-out examples classified correctly"
    return LearningTask(
        name=f"examples of {name}",
        classifier=dense_classifier([shape[0], *config.hidden, num_classes], seed, description)
        if model == "dense"
        else image_classifier(model, shape, num_classes, seed, description),
        population=InMemoryPopulation(client_ids=list(clients), data=data),
        held_out=held_out,
    )


def _numbers(shape: tuple[int, ...]) -> str:
    return f"{' x '.join(map(str, shape))} numbers"


def _num_classes(config: ClientFilesTask, everything: Mapping[str, Examples]) -> int:
    largest = {client: int(examples.labels.max()) for client, examples in everything.items()}
    client = max(largest, key=lambda client: largest[client])
    if config.num_classes is None:
        return max(2, largest[client] + 1)
    if largest[client] >= config.num_classes:
        raise InputError(
            f"task.num_classes: client {client!r} has label {largest[client]}, must be below "
            f"{config.num_classes}"
        )
    return config.num_classes


def _split(
    config: ClientFilesTask, data: Sequence[Examples], seed: int
) -> tuple[list[Examples], Examples]:
    """Holds out a tenth of the examples; every client keeps at least one."""
    client = np.repeat(np.arange(len(data)), [len(examples) for examples in data])
    order = generator(seed, Stream.PARTITION).permutation(len(client))
    _, first = np.unique(client[order], return_index=True)  # the one that each client keeps
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
