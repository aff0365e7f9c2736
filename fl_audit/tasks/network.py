"""A classifier as a network with initial weights, whatever engine trains it.

A `Network` says what is computed, and holds no function: `fl_audit.tasks.tf` has the functions of
each in TensorFlow. So a task is loaded, drawn and scored without any such package.
"""

from dataclasses import dataclass

from fl_audit.array_types import Float32Array
from fl_audit.tasks.learning_task import Model


class Network:
    """The base of the descriptions of networks, each a value that engines know."""


@dataclass(frozen=True)
class NetworkModel(Model):
    """A classifier with softmax cross-entropy loss.

    Attributes:
      network: What is computed from weights and inputs: logits, whose last axis is the class.
      initial_weights: The initial weights, float32 arrays in the order that the network takes them.
      input_shape: The shape of one example's input.
      input_dtype: The dtype of inputs: `float32`, or `int32` for tokens.
      label_shape: The shape of one example's labels: empty, or one label for each token.
      padding_label: The label of positions that count neither for the loss nor for accuracy.
      uncounted_labels: Further labels that do not count for accuracy.
      accuracy_description: The meaning of accuracy for this model, in words.
    """

    network: Network
    initial_weights: tuple[Float32Array, ...]
    input_shape: tuple[int, ...]
    input_dtype: str
    label_shape: tuple[int, ...]
    padding_label: int
    uncounted_labels: tuple[int, ...]
    accuracy_description: str

    @property
    def num_classes(self) -> int:
        """The number of classes, including a padding label that is one of them.

        Every network ends with a bias for each class.
        """
        return self.initial_weights[-1].size
