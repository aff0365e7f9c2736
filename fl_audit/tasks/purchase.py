"""Purchase-100 (Shokri et al. 2017) from the user's file."""

from pathlib import Path

import numpy as np

from fl_audit.errors import InputError
from fl_audit.formats.npy_file import AnyArray
from fl_audit.tasks.classifier import Examples, LearningTask
from fl_audit.tasks.dealt import deal
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.tables import PurchaseTask

_CLASSES = 100
_HOLD_OUT_EVERY = 10


def load_purchase_task(config: PurchaseTask, seed: int) -> LearningTask:
    """The task of shoppers by which products they bought; a tenth of them is held out.

    Args:
      config: The file, the number of clients and the widths of the model.
      seed: The seed of the run; it decides the split and the initial weights.

    Raises:
      InputError: The file cannot be read or has another form.
    """
    path = Path(config.path)
    everything = _examples(path, _read(path))
    num_held_out = max(1, len(everything) // _HOLD_OUT_EVERY)
    population, held_out = deal(everything, config.num_clients, num_held_out, seed)
    return LearningTask(
        name="Purchase-100",
        classifier=dense_classifier(
            [everything.inputs.shape[1], *config.hidden, _CLASSES],
            seed,
            f"share of {num_held_out:,} held-out shoppers classified correctly",
        ),
        population=population,
        held_out=held_out,
    )


def _examples(path: Path, table: AnyArray) -> Examples:
    """The rows of the file: a class from 1 to 100, then a 0 or 1 for each product."""
    labels, bought = table[:, 0], table[:, 1:]
    if not bought.size:
        raise InputError(f"{path}: must have a class and at least one product in each row")
    bad = np.flatnonzero((labels < 1) | (labels > _CLASSES) | (labels != np.floor(labels)))
    if len(bad):
        raise InputError(
            f"{path}: row {bad[0] + 1}: the class must be a whole number from 1 to {_CLASSES}, got "
            f"{labels[bad[0]]:g}"
        )
    rows = np.flatnonzero(~np.isin(bought, (0, 1)).all(axis=1))
    if len(rows):
        raise InputError(f"{path}: row {rows[0] + 1}: a product must be 0 or 1")
    return Examples(bought.astype(np.float32), labels.astype(np.int32) - 1)


def _read(path: Path) -> AnyArray:
    """The table, float64 of shape (rows, 1 + products); the file has no header."""
    import pyarrow as pa
    import pyarrow.csv

    try:
        options = pa.csv.ReadOptions(autogenerate_column_names=True)
        table = pa.csv.read_csv(path, read_options=options)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    columns = [column.to_numpy() for column in table.columns]
    if any(column.dtype.kind not in "iuf" for column in columns):
        raise InputError(f"{path}: every row must hold numbers only, separated by commas")
    return np.asarray(np.stack(columns, axis=1), np.float64)
