"""The next-word LSTM of Reddi et al. 2020 ("Adaptive Federated Optimization", appendix C).

The layers are an embedding, one LSTM layer, a dense layer back to the embedding's width, and a
dense layer to the vocabulary: 4,050,748 parameters at the paper's sizes. The steps are unrolled.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from fl_audit.array_types import Float32Array
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Classifier
from fl_audit.tasks.initializers import check_model_size, glorot_uniform, orthogonal, zeros
from fl_audit.tasks.lstm import lstm_outputs
from fl_audit.tasks.vocabulary import PADDING, Vocabulary

if TYPE_CHECKING:  # the model itself needs TensorFlow and NumPy alone
    from fl_audit.tasks.tables import NextWordTask


def next_word_logits(weights: Sequence[tf.Tensor], tokens: tf.Tensor) -> tf.Tensor:
    """The logits of the next token at every position, of shape (batch, steps, vocabulary + 4).

    Padding may only stand behind a sentence; logits there mean nothing.
    """
    embedding, kernel, recurrent, bias, narrow, narrow_bias, output, output_bias = weights
    hidden = lstm_outputs(tf.gather(embedding, tokens), kernel, recurrent, bias)
    rows = tf.reshape(hidden, [-1, hidden.shape[-1]])
    narrowed = tf.nn.bias_add(rows @ narrow, narrow_bias)
    logits = tf.nn.bias_add(narrowed @ output, output_bias)
    return tf.reshape(logits, [-1, tokens.shape[1], output.shape[1]])


def _initial_weights(
    config: "NextWordTask", num_tokens: int, seed: int
) -> tuple[Float32Array, ...]:
    random = generator(seed, Stream.INITIAL_WEIGHTS)
    width, units = config.embedding_size, config.lstm_size
    check_model_size(
        [(2 * num_tokens, width), (width, 4 * units), (units, 4 * units), (units, width)]
    )

    def matrix(rows: int, columns: int) -> Float32Array:
        return glorot_uniform(random, (rows, columns), rows, columns)

    bias = zeros(4 * units)
    bias[units : 2 * units] = 1.0  # the forget gate starts open, as in Keras
    return (
        random.uniform(-0.05, 0.05, (num_tokens, width)).astype(np.float32),
        matrix(width, 4 * units),
        orthogonal(random, units, 4 * units),
        bias,
        matrix(units, width),
        zeros(width),
        matrix(width, num_tokens),
        zeros(num_tokens),
    )


def next_word_classifier(config: "NextWordTask", vocabulary: Vocabulary, seed: int) -> Classifier:
    """The model over one vocabulary.

    Args:
      config: The sizes of the layers.
      vocabulary: The vocabulary, whose special tokens do not count for accuracy, as in Reddi et al.
      seed: The seed of the run; it decides the initial weights.
    """
    spec = tf.TensorSpec([None, config.sequence_length], tf.int32)
    return Classifier(
        initial_weights=_initial_weights(config, vocabulary.num_tokens, seed),
        logits=next_word_logits,
        input_spec=spec,
        label_spec=spec,
        padding_label=PADDING,
        uncounted_labels=(vocabulary.unknown, vocabulary.end),
        accuracy_description=(
            "share of held-out words predicted, padding, end of sentence and words outside the "
            "vocabulary not counted"
        ),
    )
