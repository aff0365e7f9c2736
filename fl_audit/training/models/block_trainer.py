"""Training of a block of models at once, each on batches of its own.

As for blocks of clients (`fl_audit.training.runtimes.blocks`), the model is one more axis in front
of every weight, made by `tf.vectorized_map`. A model's result does not depend, up to rounding, on
which others share its block.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.tasks.classifier import Classifier, Examples
from fl_audit.training.models.batches import Batches
from fl_audit.training.models.recipe import DpSgd, Recipe

Weights = list[tf.Tensor]

_NUMBERS_AT_ONCE = 1 << 21
"""The numbers in the inputs of all models whose logits are computed at once: 600 colour images of
32 x 32, whose convolutions take some gigabytes."""


class ModelBlockTrainer:
    """A trainer of blocks of models of one architecture on parts of one data set."""

    def __init__(self, classifier: Classifier, recipe: Recipe, data: Examples) -> None:
        """Makes the graph's function; it is traced when it is first used.

        Args:
          classifier: The model.
          recipe: How models are trained.
          data: All points; each model is trained on some of them.
        """
        self._classifier = classifier
        self._recipe = recipe
        self._inputs = tf.constant(data.inputs)
        self._labels = tf.constant(data.labels)
        self._logits = classifier.logits_in_blocks or classifier.logits
        weights = [tf.TensorSpec([None, *w.shape]) for w in classifier.initial_weights]
        self._train = tf.function(
            self._train_block,
            input_signature=[
                weights,
                tf.TensorSpec([None, None, None], tf.int32),
                tf.TensorSpec([None], tf.int64),
            ],
        )
        inputs = tf.TensorSpec([None, *data.inputs.shape[1:]], self._inputs.dtype)
        self._predict = tf.function(self._logits_of_block, input_signature=[weights, inputs])

    def train(
        self, initial: Sequence[Float32Array], batches: Batches, noise_keys: npt.NDArray[np.int64]
    ) -> Weights:
        """Trains a block of models.

        Args:
          initial: The initial weights, each float32 of shape (models, ...).
          batches: The points of each step, int32 of shape (models, steps, rows).
          noise_keys: The key of each model's noise, int64 of shape (models,).

        Returns:
          The trained weights, each float32 of shape (models, ...), with output noise if any.
        """
        trained: Weights = self._train(list(initial), batches, noise_keys)
        return trained

    def logits(self, weights: Weights, inputs: npt.NDArray[Any]) -> FloatArray:
        """The logits of every model for the same inputs, float64 of shape (models, points, ...)."""
        numbers = max(1, int(weights[0].shape[0]) * math.prod(inputs.shape[1:]))
        points = max(1, _NUMBERS_AT_ONCE // numbers)
        parts = [
            self._predict(weights, tf.constant(inputs[start : start + points]))
            for start in range(0, len(inputs), points)
        ]
        return np.concatenate([np.asarray(part, np.float64) for part in parts], axis=1)

    def _logits_of_block(self, weights: Weights, inputs: tf.Tensor) -> tf.Tensor:
        return tf.vectorized_map(lambda one: self._logits(one, inputs), weights, False)

    def _train_block(self, weights: Weights, batches: tf.Tensor, keys: tf.Tensor) -> Weights:
        """Takes all steps of all models, then adds output noise; a step without points is none."""
        recipe = self._recipe
        velocity = [tf.zeros_like(w) for w in weights]
        for step in tf.range(tf.shape(batches)[1]):
            rows = batches[:, step]
            inputs = tf.gather(self._inputs, tf.maximum(rows, 0))
            labels = tf.gather(self._labels, tf.maximum(rows, 0))
            if recipe.privacy is None:
                labels = tf.where(rows >= 0, labels, self._classifier.padding_label)
                gradients = tf.vectorized_map(self._gradient, (weights, inputs, labels), False)
                takes_part = tf.reduce_any(rows >= 0, axis=1)
            else:
                sums = tf.vectorized_map(
                    lambda one: self._clipped_sum(*one),
                    (weights, inputs, labels, rows),
                    False,
                )
                gradients = self._noised_mean(sums, keys, step, recipe.privacy)
                takes_part = tf.ones_like(rows[:, 0], tf.bool)
            moved = [recipe.momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
            velocity = [_where(takes_part, v, w) for v, w in zip(moved, velocity, strict=True)]
            weights = [
                _where(takes_part, w - recipe.learning_rate * v, w)
                for w, v in zip(weights, velocity, strict=True)
            ]
        if recipe.output_noise > 0:
            # No step has this number, so that no step's noise is used again.
            noise = self._noise(weights, keys, tf.constant(-1))
            weights = [w + recipe.output_noise * n for w, n in zip(weights, noise, strict=True)]
        return weights

    def _gradient(self, arguments: tuple[Weights, tf.Tensor, tf.Tensor]) -> Weights:
        """The gradient of one model's mean loss over its batch."""
        weights, inputs, labels = arguments
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = self._classifier.loss_in_blocks(self._logits(weights, inputs), labels)
        gradients: Weights = tape.gradient(loss, weights)
        return gradients

    def _clipped_sum(
        self, weights: Weights, inputs: tf.Tensor, labels: tf.Tensor, rows: tf.Tensor
    ) -> Weights:
        """The sum over one model's batch of the examples' gradients, each clipped.

        With micro-batches it is the sum of their mean gradients, each clipped.
        """
        privacy = self._recipe.privacy
        assert privacy is not None
        counts = tf.cast(rows >= 0, tf.float32)
        gradients = tf.vectorized_map(
            lambda one: self._gradient((weights, one[0][None], one[1][None])),
            (inputs, labels),
            False,
        )
        if privacy.microbatches is not None:
            taken = counts[:, None] * tf.one_hot(rows % privacy.microbatches, privacy.microbatches)
            shares = tf.math.divide_no_nan(taken, tf.reduce_sum(taken, axis=0))
            gradients = [tf.tensordot(tf.transpose(shares), g, 1) for g in gradients]
            counts = tf.ones([privacy.microbatches])
        squares = [tf.reduce_sum(g**2, range(1, len(g.shape))) for g in gradients]
        norms = tf.sqrt(tf.add_n(squares))
        # An example whose gradient is 0 stays 0.
        clip = tf.constant(privacy.clip_norm)
        scale = counts * tf.minimum(1.0, tf.math.divide_no_nan(clip, norms))
        scale = tf.where(norms > 0, scale, 0.0)
        return [tf.tensordot(scale, g, 1) for g in gradients]

    def _noised_mean(
        self, sums: Weights, keys: tf.Tensor, step: tf.Tensor, privacy: DpSgd
    ) -> Weights:
        size = float(privacy.microbatches or self._recipe.batch_size)
        deviation = privacy.clip_norm * privacy.noise_multiplier
        if deviation == 0:
            return [total / size for total in sums]
        noise = self._noise(sums, keys, step)
        return [(total + deviation * n) / size for total, n in zip(sums, noise, strict=True)]

    def _noise(self, like: Weights, keys: tf.Tensor, step: tf.Tensor) -> Weights:
        """Standard normal draws, a function of each model's key and of the step alone."""
        place = tf.cast(step, tf.int64) * len(like)
        return [
            tf.map_fn(
                lambda key, i=i, shape=w.shape[1:]: tf.random.stateless_normal(
                    shape, tf.stack([key, place + i])
                ),
                keys,
                fn_output_signature=tf.float32,
            )
            for i, w in enumerate(like)
        ]


def _where(of_models: tf.Tensor, new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
    """The new values of the models that a step concerns, the old ones of others."""
    axes = [1] * (len(new.shape) - 1)
    return tf.where(tf.reshape(of_models, [-1, *axes]), new, old)
