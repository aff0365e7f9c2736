"""The next-word LSTM at any size, and clients with made-up sentences instead of a data set.

Sizes and clients need NumPy alone, so that a machine without other packages can train it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fl_audit.tasks.client_text import Vocabulary
from fl_audit.tasks.learning_task import Examples, NetworkModel
from fl_audit.tasks.next_word import next_word_classifier

if TYPE_CHECKING:
    from fl_audit.tasks.tf.classifier import Classifier

BATCH_SIZE = 16
"""Number of sentences in a step."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the layers, named as in a config; the defaults are those of the paper."""

    vocabulary_size: int = 10_000
    embedding_size: int = 96
    lstm_size: int = 670
    sequence_length: int = 20

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return (
            self._matrix_entries
            + self._num_tokens * (self.embedding_size + 1)
            + (4 * self.lstm_size + self.embedding_size)
        )

    @property
    def flops_per_batch(self) -> int:
        """Floating-point operations of a training step, counting only products of matrices.

        They are two for each token and weight forward, and twice as many backward.
        """
        return 6 * BATCH_SIZE * self.sequence_length * self._matrix_entries

    @property
    def _num_tokens(self) -> int:
        return self.vocabulary_size + 4

    @property
    def _matrix_entries(self) -> int:
        """Number of weights in products of matrices, which looking up an embedding is not."""
        lstm = (self.embedding_size + self.lstm_size) * 4 * self.lstm_size
        return lstm + self.lstm_size * self.embedding_size + self.embedding_size * self._num_tokens


PAPER = Sizes()
"""The model of Reddi et al. 2020, appendix C, with 4,050,748 parameters."""

GROWING = (
    Sizes(600, 32, 100),
    Sizes(4000, 64, 300),
    PAPER,
    Sizes(10_000, 160, 1200),
    Sizes(50_000, 890, 1200),
)
"""Models of 10^5 to 10^8 parameters."""


def model_of(sizes: Sizes) -> NetworkModel:
    """A model of these sizes."""
    return next_word_classifier(sizes, Vocabulary(sizes.vocabulary_size, {}), seed=0)


def classifier_of(sizes: Sizes) -> "Classifier":
    """A model of these sizes in TensorFlow."""
    from fl_audit.tasks.tf.networks import as_classifier

    return as_classifier(model_of(sizes))


def made_up_clients(sizes: Sizes, count: int, batches: int) -> list[Examples]:
    """Clients with the same number of full batches each, of uniformly drawn words.

    No word is padding, so that the mean loss of a batch has the same meaning in all software.
    """
    random = np.random.default_rng(1)
    shape = (BATCH_SIZE * batches, sizes.sequence_length + 1)
    rows = [random.integers(1, sizes.vocabulary_size + 1, shape, np.int32) for _ in range(count)]
    return [Examples(np.ascontiguousarray(r[:, :-1]), np.ascontiguousarray(r[:, 1:])) for r in rows]
