"""The next-word LSTM of Reddi et al. 2020 ("Adaptive Federated Optimization", appendix C).

Embedding, one LSTM layer, a dense layer back to the embedding's width, a dense layer to the
vocabulary: 4,050,748 parameters at the paper's sizes. The steps are unrolled.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from fl_audit.config import NextWordTask
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Classifier, FloatArray
from fl_audit.tasks.initializers import glorot_uniform, orthogonal, zeros
from fl_audit.tasks.vocabulary import PADDING, Vocabulary


def lstm_outputs(
    inputs: tf.Tensor, mask: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor
) -> tf.Tensor:
    """Outputs of an LSTM layer at every step, as Keras' LSTM computes them.

    Args:
      inputs: float32 (batch, steps, width); the number of steps is static.
      mask: bool (batch, steps); where False the state and the output stay as they were.
      kernel: (width, 4 units), gates in Keras' order: input, forget, candidate, output.
      recurrent: (units, 4 units).
      bias: (4 units,).

    Returns:
      float32 (batch, steps, units).
    """
    units = recurrent.shape[0]
    hidden = cell = tf.zeros([tf.shape(inputs)[0], units])
    outputs = []
    # One large matrix product for the inputs of all steps, instead of a small one a step.
    from_inputs = tf.unstack(tf.tensordot(inputs, kernel, 1) + bias, axis=1)
    for from_input, is_token in zip(from_inputs, tf.unstack(mask, axis=1), strict=True):
        gates = tf.split(from_input + hidden @ recurrent, 4, axis=1)
        admit, keep, show = (tf.sigmoid(gates[i]) for i in (0, 1, 3))
        next_cell = keep * cell + admit * tf.tanh(gates[2])
        next_hidden = show * tf.tanh(next_cell)
        cell = tf.where(is_token[:, None], next_cell, cell)
        hidden = tf.where(is_token[:, None], next_hidden, hidden)
        outputs.append(hidden)
    return tf.stack(outputs, axis=1)


def next_word_logits(weights: Sequence[tf.Tensor], tokens: tf.Tensor) -> tf.Tensor:
    """Logits of the next token at every position, (batch, steps, vocabulary + 4)."""
    embedding, kernel, recurrent, bias, narrow, narrow_bias, output, output_bias = weights
    hidden = lstm_outputs(
        tf.gather(embedding, tokens), tf.not_equal(tokens, PADDING), kernel, recurrent, bias
    )
    narrowed = tf.tensordot(hidden, narrow, 1) + narrow_bias
    return tf.tensordot(narrowed, output, 1) + output_bias


def _initial_weights(config: NextWordTask, num_tokens: int, seed: int) -> tuple[FloatArray, ...]:
    random = generator(seed, Stream.INITIAL_WEIGHTS)
    width, units = config.embedding_size, config.lstm_size

    def matrix(rows: int, columns: int) -> FloatArray:
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


def next_word_classifier(config: NextWordTask, vocabulary: Vocabulary, seed: int) -> Classifier:
    """The model over one vocabulary.

    Args:
      config: the sizes of the layers.
      vocabulary: whose special tokens do not count for accuracy, as in Reddi et al.
      seed: of the run; decides the initial weights.
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
