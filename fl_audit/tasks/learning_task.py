"""A task: a model, its clients and their examples, independent of the engine that trains it."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array
from fl_audit.progress import warn

NO_CLASS = -1
"""A label of padding, which is not a class."""


@dataclass(frozen=True)
class Examples:
    """Examples of one client, or held-out examples."""

    inputs: npt.NDArray[np.float32] | npt.NDArray[np.int32]  # first axis: the example
    labels: npt.NDArray[Any]  # one per example or token; float32 if a custom model predicts numbers

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: npt.NDArray[np.int64]) -> "Examples":
        """The examples at these positions, in this order."""
        return Examples(self.inputs[index], self.labels[index])

    @staticmethod
    def concatenate(parts: Sequence["Examples"]) -> "Examples":
        """All examples of the parts, in order; there must be at least one part."""
        return Examples(
            np.concatenate([part.inputs for part in parts]),
            np.concatenate([part.labels for part in parts]),
        )


class Model(abc.ABC):
    """A model for every engine: its weights, and the meaning of its outputs.

    Subclasses add the functions that an engine trains. The padding label counts neither for the
    loss nor for accuracy; it is `NO_CLASS` if only whole examples are padding.
    """

    initial_weights: tuple[Float32Array, ...]
    padding_label: int  # not a class, or a class that is never counted
    accuracy_description: str  # the meaning of accuracy for this model

    @property
    @abc.abstractmethod
    def num_classes(self) -> int:
        """The number of classes, including a padding label that is a class."""

    @property
    def dim(self) -> int:
        """The number of trainable parameters."""
        return sum(self.variable_sizes)

    @property
    def variable_sizes(self) -> list[int]:
        """The number of parameters in each of the weights."""
        return [weight.size for weight in self.initial_weights]


class Network:
    """The base of descriptions of networks, whose functions are in `tasks.tf` and `tasks.jax`.

    So loading a task and sampling its examples imports neither framework.
    """


@dataclass(frozen=True, kw_only=True)
class NetworkModel(Model):
    """A classifier with softmax cross-entropy loss."""

    network: Network  # computes logits, whose last axis is the class, from weights and inputs
    initial_weights: tuple[Float32Array, ...]  # float32, in the network's order
    input_shape: tuple[int, ...]  # of one example
    input_dtype: str = "float32"  # or `int32` for tokens
    label_shape: tuple[int, ...] = ()  # of one example: empty, or one label per token
    padding_label: int = NO_CLASS
    uncounted_labels: tuple[int, ...] = ()  # labels besides padding that accuracy ignores
    accuracy_description: str

    @property
    def num_classes(self) -> int:
        """The size of the last weight: every network ends with a bias per class."""
        return self.initial_weights[-1].size


class Population(abc.ABC):
    """The real clients and their data, which may be read from any thread."""

    client_ids: Sequence[str]
    """The names of the clients, in a fixed order."""

    @abc.abstractmethod
    def num_examples(self, client: int) -> int:
        """The number of examples of one client, at least one."""

    @abc.abstractmethod
    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        """A client's examples at these positions, in this order, as new arrays."""

    def examples(self, client: int) -> Examples:
        """All examples of one client."""
        return self.take(client, np.arange(self.num_examples(client)))


@dataclass(frozen=True)
class InMemoryPopulation(Population):
    """Clients whose examples are in memory, in the order of `client_ids`."""

    client_ids: Sequence[str]
    data: Sequence[Examples]

    def num_examples(self, client: int) -> int:
        return len(self.data[client])

    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        return self.data[client].take(index)


class PartOfPopulation(Population):
    """Some of the clients of another population, in the same order."""

    def __init__(self, whole: Population, members: npt.NDArray[np.int64]) -> None:
        """`members` are ascending indices of clients of `whole`; reads no examples."""
        self._whole = whole
        self._members = members
        self.client_ids = [whole.client_ids[member] for member in members]

    def num_examples(self, client: int) -> int:
        return self._whole.num_examples(int(self._members[client]))

    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        return self._whole.take(int(self._members[client]), index)


def say_left_out(source: object, left_out: Sequence[str], num_clients: int) -> None:
    """Warns of clients without data, if any, because a task leaves them out."""
    if left_out:
        warn(
            f"{source}: {len(left_out):,} of {num_clients:,} clients, the first {left_out[0]!r}, "
            "have no data and are left out"
        )


Tensor = Any
"""A tensor of TensorFlow or an array of JAX, depending on the task's framework."""

PerExample = Callable[[Tensor, Tensor], Tensor]
"""A function of a batch's outputs and labels that returns a number per example."""

ExamplesOfSentences = Callable[[Sequence[Sequence[str]]], Examples]
"""A function from sentences, as lists of words, to examples of a task."""


@dataclass(frozen=True)
class LearningTask:
    """A model with its clients and its held-out data."""

    name: str  # in reports
    classifier: Model
    population: Population  # the real clients
    held_out: Examples  # of no client, for the accuracy
    max_examples_per_client: int | None = None  # in a pass, sampled for every pass; None for all
    examples_of_sentences: ExamplesOfSentences | None = None  # encodes a user's text

    @property
    def labels(self) -> Literal["classes", "numbers"]:
        """`numbers` in a regression, else `classes`."""
        return "numbers" if self.held_out.labels.dtype.kind == "f" else "classes"
