"""Data sets without clients, whose examples are randomly split among clients.

Digits, breast cancer and wine come with scikit-learn; Purchase-100 and CIFAR-10 are read from the
user's files.
"""

from pathlib import Path

import numpy as np

from fl_audit.errors import InputError
from fl_audit.formats.npy_file import AnyArray
from fl_audit.formats.text_files import reading
from fl_audit.library_words import arrow_words
from fl_audit.seeds import Stream, generator
from fl_audit.tasks import task_kinds
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.images import image_classifier
from fl_audit.tasks.learning_task import Examples, InMemoryPopulation, LearningTask


def partition(
    everything: Examples, num_clients: int, num_held_out: int, seed: int
) -> tuple[InMemoryPopulation, Examples]:
    """Splits examples at random: nearly equal shares for clients, and `num_held_out` held out."""
    num_training = len(everything) - num_held_out
    if not 1 <= num_clients <= num_training:
        raise InputError(
            f"task.num_clients: must be from 1 to {num_training}, the number of examples not held "
            f"out, got {num_clients}"
        )
    shuffled = everything.take(generator(seed, Stream.PARTITION).permutation(len(everything)))
    shares = np.array_split(np.arange(num_training), num_clients)
    population = InMemoryPopulation(
        client_ids=[f"client-{i}" for i in range(num_clients)],
        data=[shuffled.take(share) for share in shares],
    )
    return population, shuffled.take(np.arange(num_training, len(everything)))


def _dense_task(
    name: str,
    everything: Examples,
    config: task_kinds.DigitsTask | task_kinds.PartitionedTask,
    seed: int,
    what: str,
    *,
    num_held_out: int,
    num_classes: int,
) -> LearningTask:
    """The task of a dense model; `what` names the examples, in the plural."""
    population, held_out = partition(everything, config.num_clients, num_held_out, seed)
    widths = [everything.inputs.shape[1], *config.hidden, num_classes]
    description = f"share of {num_held_out:,} held-out {what} classified correctly"
    classifier = dense_classifier(widths, seed, description)
    return LearningTask(name, classifier, population, held_out)


_DIGITS_HELD_OUT = 297


def load_digits_task(config: task_kinds.DigitsTask, seed: int) -> LearningTask:
    """The task of 1,797 images: 297 are held out, the others randomly split among clients."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    everything = Examples((images / 16).astype(np.float32), labels.astype(np.int32))
    return _dense_task(
        "digits", everything, config, seed, "images", num_held_out=_DIGITS_HELD_OUT, num_classes=10
    )


# Small tables of measurements: breast cancer and wine.

_ROWS_HELD_OUT_EVERY = 6


def load_measurements_task(
    config: task_kinds.BreastCancerTask | task_kinds.WineTask, seed: int
) -> LearningTask:
    """The task of scikit-learn's table of the kind's name; a sixth of the rows is held out.

    Columns are standardised over the whole table, before the split.
    """
    from sklearn import datasets

    kind = str(config.__struct_config__.tag)
    features, labels = getattr(datasets, f"load_{kind}")(return_X_y=True)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    everything = Examples(scaled.astype(np.float32), labels.astype(np.int32))
    held_out, classes = len(everything) // _ROWS_HELD_OUT_EVERY, int(labels.max()) + 1
    return _dense_task(
        kind.replace("_", " "),
        everything,
        config,
        seed,
        "rows",
        num_held_out=held_out,
        num_classes=classes,
    )


# Purchase-100 (Shokri et al. 2017).

_SHOPPERS = 100
_SHOPPERS_HELD_OUT_EVERY = 10


def load_purchase_task(config: task_kinds.PurchaseTask, seed: int) -> LearningTask:
    """The task of classifying shoppers by products bought; a tenth of the shoppers is held out."""
    path = Path(config.path)
    everything = _examples(path, _purchases(path))
    held_out = max(1, len(everything) // _SHOPPERS_HELD_OUT_EVERY)
    return _dense_task(
        "Purchase-100",
        everything,
        config,
        seed,
        "shoppers",
        num_held_out=held_out,
        num_classes=_SHOPPERS,
    )


def _examples(path: Path, table: AnyArray) -> Examples:
    """The rows of the file as examples; a row is a class from 1 to 100, then 0 or 1 per product."""
    labels, bought = table[:, 0], table[:, 1:]
    if not bought.size:
        raise InputError(f"{path}: must have a class and at least one product in each row")
    bad = np.flatnonzero((labels < 1) | (labels > _SHOPPERS) | (labels != np.floor(labels)))
    if len(bad):
        raise InputError(
            f"{path}: row {bad[0] + 1}: the class must be a whole number from 1 to {_SHOPPERS}, "
            f"got {labels[bad[0]]:g}"
        )
    rows = np.flatnonzero(~np.isin(bought, (0, 1)).all(axis=1))
    if len(rows):
        raise InputError(f"{path}: row {rows[0] + 1}: a product must be 0 or 1")
    return Examples(bought.astype(np.float32), labels.astype(np.int32) - 1)


def _purchases(path: Path) -> AnyArray:
    """The table, float64 of shape (rows, 1 + products); the file has no header."""
    import pyarrow as pa
    import pyarrow.csv

    options = pa.csv.ReadOptions(autogenerate_column_names=True)
    try:
        with reading(path):
            table = pa.csv.read_csv(path, read_options=options)
    except pa.ArrowException as error:
        raise InputError(f"{path}: {arrow_words(error)}") from error
    columns = [column.to_numpy() for column in table.columns]
    if any(column.dtype.kind not in "iuf" for column in columns):
        raise InputError(f"{path}: every row must hold numbers only, separated by commas")
    return np.asarray(np.stack(columns, axis=1), np.float64)


# CIFAR-10 (Krizhevsky 2009).

_CIFAR_CLASSES = 10
_SIDE, _CHANNELS = 32, 3
_RECORD = 1 + _CHANNELS * _SIDE * _SIDE


def load_cifar10_task(config: task_kinds.CifarTask, seed: int) -> LearningTask:
    """The task of training images, randomly split among clients; test images are held out."""
    folder = Path(config.path)
    batches = sorted(folder.glob("data_batch_*.bin"))
    if not batches:
        raise InputError(
            f"task.path: {folder} must be the folder cifar-10-batches-bin, with data_batch_1.bin "
            "and so on: the binary version, as no pickle is loaded"
        )
    training = Examples.concatenate([_images(path) for path in batches])
    population, _ = partition(training, config.num_clients, 0, seed)
    held_out = _images(folder / "test_batch.bin")
    return LearningTask(
        name="CIFAR-10",
        classifier=image_classifier(
            config.model,
            (_SIDE, _SIDE, _CHANNELS),
            _CIFAR_CLASSES,
            seed,
            f"share of {len(held_out):,} test images classified correctly",
        ),
        population=population,
        held_out=held_out,
    )


def _images(path: Path) -> Examples:
    """The images of a file; each is a byte for the class, then red, green and blue, row by row."""
    with reading(path):
        data = np.fromfile(path, np.uint8)
    if not data.size or data.size % _RECORD:
        raise InputError(
            f"{path}: must hold whole images of {_RECORD:,} bytes each, has {data.size:,} bytes"
        )
    records = data.reshape(-1, _RECORD)
    labels = records[:, 0].astype(np.int32)
    if labels.max() >= _CIFAR_CLASSES:
        raise InputError(
            f"{path}: labels must be from 0 to {_CIFAR_CLASSES - 1}, got {labels.max()}"
        )
    planes = records[:, 1:].reshape(-1, _CHANNELS, _SIDE, _SIDE)
    return Examples((planes.transpose(0, 2, 3, 1) / np.float32(255)).astype(np.float32), labels)
