"""A classifier as a network with initial weights, independent of the engine that trains it.

A `Network` describes what is computed and holds no function: `fl_audit.tasks.tf` and
`fl_audit.tasks.jax` have the functions. So a task is loaded, and its examples are sampled, without
importing either framework.
"""

from dataclasses import dataclass

from fl_audit.array_types import Float32Array
from fl_audit.tasks.learning_task import Model


class Network:
    """The base of descriptions of networks, which engines translate to functions."""


@dataclass(frozen=True)
class NetworkModel(Model):
    """A classifier with softmax cross-entropy loss."""

    network: Network  # computes logits from weights and inputs; their last axis is the class
    initial_weights: tuple[Float32Array, ...]  # float32, in the network's order
    input_shape: tuple[int, ...]  # of one example
    input_dtype: str  # `float32`, or `int32` for tokens
    label_shape: tuple[int, ...]  # of one example: empty, or one label per token
    padding_label: int
    uncounted_labels: tuple[int, ...]  # further ones that do not count for accuracy
    accuracy_description: str

    @property
    def num_classes(self) -> int:
        """The size of the last weight: every network ends with a bias per class."""
        return self.initial_weights[-1].size
