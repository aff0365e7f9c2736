"""Tables of tasks: a model with its clients and their data."""

from typing import Annotated, ClassVar

from msgspec import Meta

from fl_audit.kinds.table import NonNegativeInt, PositiveInt, Table


class Task:
    """The base of every task's config table, beside `Table`."""

    __slots__ = ()


class DigitsTask(Table, Task, frozen=True, tag_field="kind", tag="digits"):
    """Handwritten digits of scikit-learn (1,797 images of 8 x 8), split over clients at random.

    Attributes:
      num_clients: Number of real clients; 1,500 images train, so at most 1,500.
      hidden: Widths of the dense layers between the 64 pixels and the 10 classes.
    """

    num_clients: Annotated[int, Meta(ge=1, le=1500)] = 300
    hidden: tuple[PositiveInt, ...] = (512, 256)


class NextWordTask(Table, Task, frozen=True, kw_only=True):
    """What the next-word tasks have in common: the sizes of the model of Reddi et al. 2020.

    Attributes:
      vocabulary_size: Most frequent words kept; four special tokens come on top.
      sequence_length: Tokens a sentence is cut or padded to.
      embedding_size: Width of the embedding and of the dense layer before the output.
      lstm_size: Units of the LSTM.
      max_sequences_per_client: Sentences of one client used in a round, drawn anew each time.
    """

    vocabulary_size: PositiveInt = 10_000
    sequence_length: PositiveInt = 20
    embedding_size: PositiveInt = 96
    lstm_size: PositiveInt = 670
    max_sequences_per_client: PositiveInt = 64


class TextTask(NextWordTask, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """Next-word prediction on any `client_id,text` CSV, with a vocabulary built from it.

    Attributes:
      path: The CSV; a relative path starts at the config file's folder.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    path: str


class StackOverflowTask(NextWordTask, frozen=True, tag_field="kind", tag="stackoverflow"):
    """Stack Overflow next-word prediction (Reddi et al. 2020), 342,477 clients.

    Attributes:
      max_clients: Use only the first this many clients; 0 means all of them.
      path: The SQLite file that TFF downloads, where it is at hand already; a relative path
        starts at the config file's folder. Without it TFF downloads it.
      word_counts: Likewise TFF's `stackoverflow.word_count`, a line `word count` per word, most
        frequent first.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path", "word_counts")

    max_clients: NonNegativeInt = 0
    path: str | None = None
    word_counts: str | None = None


class EmnistTask(Table, Task, frozen=True, tag_field="kind", tag="emnist"):
    """EMNIST's 62 classes by writer with the CNN of Reddi et al. 2020.

    Attributes:
      max_clients: Use only the first this many clients; 0 means all 3,400 of them.
      path: The SQLite file that TFF downloads, where it is at hand already; a relative path
        starts at the config file's folder. Without it TFF downloads it.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    max_clients: NonNegativeInt = 0
    path: str | None = None
