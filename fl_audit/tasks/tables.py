"""The config tables of tasks, each a model with its clients and their data."""

from typing import Annotated, ClassVar

from msgspec import Meta

from fl_audit.kinds.table import NonNegativeInt, PositiveInt, Table


class Task:
    """The base of every task's config table, beside `Table`."""

    __slots__ = ()


class DigitsTask(Table, Task, frozen=True, tag_field="kind", tag="digits"):
    """Handwritten digits of scikit-learn (1,797 images of 8 x 8), split over clients at random.

    Attributes:
      num_clients: The number of real clients; 1,500 images train, so at most 1,500.
      hidden: The widths of the dense layers between the 64 pixels and the 10 classes.
    """

    num_clients: Annotated[int, Meta(ge=1, le=1500)] = 300
    hidden: tuple[PositiveInt, ...] = (512, 256)


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
