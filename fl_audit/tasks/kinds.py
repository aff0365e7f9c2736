"""The kinds of tasks: their config tables, and how each is loaded.

Nothing here imports TensorFlow before a task is loaded.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar

from msgspec import Meta, field

from fl_audit.errors import InputError
from fl_audit.kinds import Kinds
from fl_audit.kinds.table import NonNegativeInt, PositiveInt, Table

if TYPE_CHECKING:
    from fl_audit.tasks.learning_task import LearningTask

__all__ = [
    "TASKS",
    "Task",
    "TaskKind",
]


_Widths = Annotated[tuple[PositiveInt, ...], Meta(max_length=100)]
ImageModel = Literal["cnn", "wrn_16_4"]
"""The models of images: `tasks.image_models` makes them."""

_NumClasses = Annotated[int, Meta(ge=2, le=1_000_000)]


class Task:
    """The base of every task's config table, beside `Table`."""

    __slots__ = ()


class NumbersTask(Table, Task, frozen=True, kw_only=True, tag_field="kind", tag="numbers"):
    """The numbers of a task whose data are not at hand; `fl-audit plan` needs no more.

    Attributes:
      num_clients: The number of real clients.
      dim: The number of trainable parameters.
      initial_norm: The Euclidean norm of the initial model; without it, scores on the final model
        alone are not predicted.
    """

    num_clients: PositiveInt
    dim: Annotated[int, Meta(ge=2, le=100_000_000_000)]
    initial_norm: Annotated[float, Meta(ge=0)] | None = None


class DigitsTask(Table, Task, frozen=True, tag_field="kind", tag="digits"):
    """Handwritten digits of scikit-learn (1,797 images of 8 x 8), split over clients at random.

    Attributes:
      num_clients: The number of real clients; 1,500 images train, so at most 1,500.
      hidden: The widths of the dense layers between the 64 pixels and the 10 classes.
    """

    num_clients: Annotated[int, Meta(ge=1, le=1500)] = 300
    hidden: _Widths = (512, 256)


class DealtTask(Table, Task, frozen=True):
    """The keys of tasks whose examples are dealt to clients at random: a dense model.

    Attributes:
      num_clients: The number of real clients.
      hidden: The widths of the dense layers between features and classes; none for a linear model.
    """

    num_clients: PositiveInt = 20
    hidden: _Widths = ()


class BreastCancerTask(DealtTask, frozen=True, tag_field="kind", tag="breast_cancer"):
    """Breast cancer of scikit-learn: 569 tumours, 30 measurements each, benign or malignant."""


class WineTask(DealtTask, frozen=True, tag_field="kind", tag="wine"):
    """Wine of scikit-learn: 178 wines, 13 measurements each, from three growers."""


class PurchaseTask(DealtTask, frozen=True, kw_only=True, tag_field="kind", tag="purchase100"):
    """Purchase-100 (Shokri et al. 2017): shoppers of 100 classes by which products they bought.

    Attributes:
      path: The file `dataset_purchase`: in each row a class from 1 to 100 and a 0 or 1 for each
        product, separated by commas; a relative path starts at the config file's folder.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    path: str


class CifarTask(Table, Task, frozen=True, kw_only=True, tag_field="kind", tag="cifar10"):
    """CIFAR-10 (Krizhevsky 2009), dealt to clients at random; its test images are held out.

    Attributes:
      path: The folder `cifar-10-batches-bin` of the binary version, which holds no pickles; a
        relative path starts at the config file's folder.
      num_clients: The number of real clients, to which the training images are dealt at random.
      model: The model: `cnn`, of Reddi et al. 2020, or `wrn_16_4`, the Wide ResNet of De et al.
        2022 with 2.7 million parameters, which wants a GPU.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    num_clients: PositiveInt = 500
    model: ImageModel = "cnn"


class PythonTask(Table, Task, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """A model and data of one's own, made by a Python function (docs/own_task.md).

    Attributes:
      module: The module and the function in it, such as `my_task:make`; the module is looked for in
        `folder`, then where Python looks.
      folder: The folder of the module; a relative path starts at the config file's folder.
      options: The keyword arguments of the function, beside the seed.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("folder",)

    module: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
    folder: str = "."
    options: dict[str, Any] = field(default_factory=dict)


class ClientFilesTask(Table, Task, frozen=True, kw_only=True):
    """The keys that tasks on one's own examples have in common: a dense model (docs/own_data.md).

    Attributes:
      path: The examples of all clients; a relative path starts at the config file's folder.
      held_out: Examples that no client has, in the same form as one client's; by default a tenth of
        the clients' examples, drawn by the seed, is held out.
      hidden: The widths of the dense layers between features and classes; none for a linear model.
      num_classes: The number of classes; by default one more than the largest label.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path", "held_out")

    path: str
    held_out: str | None = None
    hidden: _Widths = ()
    num_classes: _NumClasses | None = None


class NpzTask(ClientFilesTask, frozen=True, kw_only=True, tag_field="kind", tag="npz"):
    """A folder with an NPZ file for each client, arrays `inputs` and `labels`.

    Attributes:
      model: The model: `dense`, or for images `cnn`, of Reddi et al. 2020, or `wrn_16_4`, the Wide
        ResNet of De et al. 2022, which wants a GPU. The inputs of an image are height x width, or
        height x width x channels; only `dense` has `hidden`.
    """

    model: Literal["dense", "cnn", "wrn_16_4"] = "dense"

    def __post_init__(self) -> None:
        """Checks that only a dense model has hidden layers."""
        if self.hidden and self.model != "dense":
            raise ValueError(f"hidden goes with model 'dense', not {self.model!r}")


class TableTask(ClientFilesTask, frozen=True, kw_only=True, tag_field="kind", tag="table"):
    """A Parquet or CSV table with an example in each row; all further columns are features.

    Attributes:
      client_column: The column with the names of clients; the held-out table may lack it.
      label_column: The column with the classes, whole numbers from 0.
    """

    client_column: str = "client_id"
    label_column: str = "label"


class NextWordTask(Table, Task, frozen=True, kw_only=True):
    """The keys that next-word tasks have in common: the sizes of the model of Reddi et al. 2020.

    Attributes:
      vocabulary_size: The number of most frequent words that are kept; four special tokens are
        added.
      sequence_length: The number of tokens that a sentence is cut or padded to.
      embedding_size: The width of the embedding and of the dense layer before the output.
      lstm_size: The number of units of the LSTM.
      max_sequences_per_client: The number of sentences of one client used in a round, drawn anew
        each time.
    """

    vocabulary_size: PositiveInt = 10_000
    sequence_length: Annotated[int, Meta(ge=1, le=10_000)] = 20
    embedding_size: PositiveInt = 96
    lstm_size: PositiveInt = 670
    max_sequences_per_client: PositiveInt = 64


class TextTask(NextWordTask, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """Next-word prediction on any `client_id,text` CSV, with a vocabulary built from it.

    Attributes:
      path: The CSV, compressed by gzip where its name ends with `.gz`; a relative path starts at
        the config file's folder.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    path: str


class StackOverflowTask(NextWordTask, frozen=True, tag_field="kind", tag="stackoverflow"):
    """Stack Overflow next-word prediction (Reddi et al. 2020), 342,477 clients.

    Attributes:
      max_clients: The number of clients to use, the first ones; 0 means all of them.
      path: The SQLite file that TFF downloads, where it has been downloaded already; a relative
        path starts at the config file's folder. Without it TFF downloads it.
      word_counts: TFF's file `stackoverflow.word_count`, where it has been downloaded already, with
        a line `word count` for each word, most frequent first.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path", "word_counts")

    max_clients: NonNegativeInt = 0
    path: str | None = None
    word_counts: str | None = None


class EmnistTask(Table, Task, frozen=True, tag_field="kind", tag="emnist"):
    """EMNIST's 62 classes by writer with the CNN of Reddi et al. 2020.

    Attributes:
      max_clients: The number of clients to use, the first ones; 0 means all 3,400 of them.
      path: The SQLite file that TFF downloads, where it has been downloaded already; a relative
        path starts at the config file's folder. Without it TFF downloads it.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    max_clients: NonNegativeInt = 0
    path: str | None = None


TableType = TypeVar("TableType", bound=Table)


@dataclass(frozen=True)
class TaskKind(Generic[TableType]):
    """The record of all that is known of one kind of task.

    Attributes:
      table: The config table, a `Task`.
      load: A function that loads the task of a table for the run's seed. It raises an `InputError`
        where the data cannot be used. TensorFlow is imported when it is called, not before.
    """

    table: type[TableType]
    load: Callable[[TableType, int], "LearningTask"]


TASKS = Kinds[TaskKind[Any]]("task", Task)
"""All kinds of tasks; a further one is a module that registers its own."""


def _loaded_by(loader: str) -> Callable[[Any, int], "LearningTask"]:
    """The function `MODULE.FUNCTION` of this room, imported with TensorFlow when it is called."""

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
    (DigitsTask, "dealt.load_digits_task"),
    (TextTask, "next_word.load_text_task"),
    (StackOverflowTask, "tff_datasets.load_stackoverflow_task"),
    (EmnistTask, "tff_datasets.load_emnist_task"),
    (PythonTask, "own_task.load_python_task"),
    (NpzTask, "client_files.load_npz_task"),
    (TableTask, "client_files.load_table_task"),
    (BreastCancerTask, "dealt.load_breast_cancer_task"),
    (WineTask, "dealt.load_wine_task"),
    (PurchaseTask, "dealt.load_purchase_task"),
    (CifarTask, "dealt.load_cifar10_task"),
)

for _table, _loader in _LOADERS:
    TASKS.register(TaskKind(_table, _loaded_by(_loader)))
