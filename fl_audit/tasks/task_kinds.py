"""The kinds of tasks: config tables and loaders.

Nothing here imports TensorFlow before a task is loaded.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar

from msgspec import Meta, field

from fl_audit.config_tables import Kinds
from fl_audit.config_tables.kinds import NonNegativeInt, PositiveInt, Table
from fl_audit.errors import InputError

if TYPE_CHECKING:
    from fl_audit.tasks.learning_task import LearningTask

__all__ = ["TASKS", "Task", "TaskKind"]


_Widths = Annotated[tuple[PositiveInt, ...], Meta(max_length=100)]
ImageModel = Literal["cnn", "wrn_16_4"]
"""The models of images, in `tasks.images`."""

_NumClasses = Annotated[int, Meta(ge=2, le=1_000_000)]


class Task:
    """The base, with `Table`, of every task's config table."""

    __slots__ = ()


class NumbersTask(Table, Task, frozen=True, kw_only=True, tag_field="kind", tag="numbers"):
    """Sizes of a task without data, for `fl-audit plan`.

    Attributes:
      num_clients: Number of real clients.
      dim: Number of trainable parameters.
      initial_norm: L2 norm of the initial model, to predict threat model `final`.
    """

    num_clients: PositiveInt
    dim: Annotated[int, Meta(ge=2, le=100_000_000_000)]
    initial_norm: Annotated[float, Meta(ge=0)] | None = None


class DigitsTask(Table, Task, frozen=True, tag_field="kind", tag="digits"):
    """Handwritten digits of scikit-learn: 1,500 training images of 8 x 8, split at random.

    Attributes:
      num_clients: Number of real clients.
      hidden: Widths of the hidden dense layers.
    """

    num_clients: Annotated[int, Meta(ge=1, le=1500)] = 300
    hidden: _Widths = (512, 256)


class PartitionedTask(Table, Task, frozen=True):
    """The keys of tasks whose examples are randomly split among clients; the model is dense.

    Attributes:
      num_clients: Number of real clients.
      hidden: Widths of the hidden dense layers; none for a linear model.
    """

    num_clients: PositiveInt = 20
    hidden: _Widths = ()


class BreastCancerTask(PartitionedTask, frozen=True, tag_field="kind", tag="breast_cancer"):
    """Breast cancer of scikit-learn: 569 tumours, 30 features, 2 classes, split at random."""


class WineTask(PartitionedTask, frozen=True, tag_field="kind", tag="wine"):
    """Wine of scikit-learn: 178 wines, 13 features, 3 classes, split at random."""


class PurchaseTask(PartitionedTask, frozen=True, kw_only=True, tag_field="kind", tag="purchase100"):
    """Purchase-100 (Shokri et al. 2017): shoppers in 100 classes, split at random.

    Attributes:
      path: File `dataset_purchase`: rows of a class, 1 to 100, and 0 or 1 per product.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    path: str


class CifarTask(Table, Task, frozen=True, kw_only=True, tag_field="kind", tag="cifar10"):
    """CIFAR-10 (Krizhevsky 2009), split at random; its test images are held out.

    Attributes:
      path: Folder `cifar-10-batches-bin` of the binary version.
      num_clients: Number of real clients.
      model: `cnn` (Reddi et al. 2020) or `wrn_16_4` (De et al. 2022; needs a GPU).
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    num_clients: PositiveInt = 500
    model: ImageModel = "cnn"


class PythonTask(Table, Task, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """A custom model and data (docs/own_task.md).

    Attributes:
      module: Module and function, such as `my_task:make`.
      folder: Folder searched for the module, before Python's path.
      options: Keyword arguments of the function, besides the seed.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("folder",)

    module: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
    folder: str = "."
    options: dict[str, Any] = field(default_factory=dict)


class ClientFilesTask(Table, Task, frozen=True, kw_only=True):
    """The keys of tasks on custom data files with a dense model (docs/own_data.md).

    Attributes:
      path: Examples of all clients.
      held_out: Held-out examples; by default a random tenth.
      hidden: Widths of the hidden dense layers; none for a linear model.
      num_classes: Number of classes; default: the number of distinct labels.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path", "held_out")

    path: str
    held_out: str | None = None
    hidden: _Widths = ()
    num_classes: _NumClasses | None = None


class NpzTask(ClientFilesTask, frozen=True, kw_only=True, tag_field="kind", tag="npz"):
    """A folder with an NPZ file per client (docs/own_data.md).

    Attributes:
      model: `dense`, with `hidden`; for images `cnn` (Reddi et al. 2020) or `wrn_16_4` (De et al.
        2022; needs a GPU).
    """

    model: Literal["dense", ImageModel] = "dense"

    def __post_init__(self) -> None:
        """Refuses hidden layers for a model that is not dense."""
        if self.hidden and self.model != "dense":
            raise ValueError(f"hidden is only for model 'dense', not {self.model!r}")


class TableTask(ClientFilesTask, frozen=True, kw_only=True, tag_field="kind", tag="table"):
    """A Parquet or CSV table with an example per row (docs/own_data.md).

    Attributes:
      client_column: Column of client names.
      label_column: Column of classes, integers from 0.
    """

    client_column: str = "client_id"
    label_column: str = "label"


class NextWordTask(Table, Task, frozen=True, kw_only=True):
    """The keys that next-word tasks share: the sizes of the model of Reddi et al. 2020.

    Attributes:
      vocabulary_size: Maximum number of words, besides four special tokens.
      sequence_length: Tokens per sentence, cut or padded.
      embedding_size: Width of the embedding and the last hidden layer.
      lstm_size: Number of LSTM units.
      max_sequences_per_client: Maximum number of a client's sentences in an epoch.
    """

    vocabulary_size: PositiveInt = 10_000
    sequence_length: Annotated[int, Meta(ge=1, le=10_000)] = 20
    embedding_size: PositiveInt = 96
    lstm_size: PositiveInt = 670
    max_sequences_per_client: PositiveInt = 64


class TextTask(NextWordTask, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """Next-word prediction on a CSV `client_id,text`.

    Attributes:
      path: The CSV, gzipped if its name ends with `.gz`.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    path: str


class StackOverflowTask(NextWordTask, frozen=True, tag_field="kind", tag="stackoverflow"):
    """Stack Overflow next-word prediction (Reddi et al. 2020), 342,477 clients.

    Attributes:
      max_clients: Number of clients to use, from the first; 0 for all.
      path: TFF's SQLite file; downloaded by default.
      word_counts: TFF's file `stackoverflow.word_count`; downloaded by default.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path", "word_counts")

    max_clients: NonNegativeInt = 0
    path: str | None = None
    word_counts: str | None = None


class EmnistTask(Table, Task, frozen=True, tag_field="kind", tag="emnist"):
    """EMNIST's 62 classes, 3,400 writers, with the CNN of Reddi et al. 2020.

    Attributes:
      max_clients: Number of clients to use, from the first; 0 for all.
      path: TFF's SQLite file; downloaded by default.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    max_clients: NonNegativeInt = 0
    path: str | None = None


TableType = TypeVar("TableType", bound=Table)


@dataclass(frozen=True)
class TaskKind(Generic[TableType]):
    """A kind of task.

    Attributes:
      table: The config table, a `Task`.
      load: Loads the task of a table for the run's seed; raises an `InputError` if its data cannot
        be used. A loader that needs TensorFlow imports it in this call, not before.
    """

    table: type[TableType]
    load: Callable[[TableType, int], "LearningTask"]


TASKS = Kinds[TaskKind[Any]]("task", Task)
"""All kinds of tasks; a plugin registers its own here."""


def _loaded_by(loader: str) -> Callable[[Any, int], "LearningTask"]:
    """A loader that imports the function `MODULE.FUNCTION` of this package at its first call."""

    def load(config: Any, seed: int) -> "LearningTask":
        module, _, function = loader.partition(".")
        task: LearningTask = getattr(importlib.import_module(f"fl_audit.tasks.{module}"), function)(
            config, seed
        )
        return task

    return load


def _without_data(config: NumbersTask, seed: int) -> "LearningTask":
    raise InputError(
        "task.kind: 'numbers' has no data to train on; it is for `fl-audit plan` (docs/plan.md)"
    )


TASKS.register(TaskKind(NumbersTask, _without_data))

_LOADERS: tuple[tuple[type[Table], str], ...] = (
    (DigitsTask, "partitioned.load_digits_task"),
    (TextTask, "next_word.load_text_task"),
    (StackOverflowTask, "tff_datasets.load_stackoverflow_task"),
    (EmnistTask, "tff_datasets.load_emnist_task"),
    (PythonTask, "own_task.load_python_task"),
    (NpzTask, "client_files.load_npz_task"),
    (TableTask, "client_files.load_table_task"),
    (BreastCancerTask, "partitioned.load_measurements_task"),
    (WineTask, "partitioned.load_measurements_task"),
    (PurchaseTask, "partitioned.load_purchase_task"),
    (CifarTask, "partitioned.load_cifar10_task"),
)

for _table, _loader in _LOADERS:
    TASKS.register(TaskKind(_table, _loaded_by(_loader)))
