"""A custom model in JAX (`fl_audit.tasks.own_task`)."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.tasks.jax.classifier import Array, JaxModel, Logits, PerLabel
from fl_audit.tasks.learning_task import NO_CLASS, Examples, Model


@dataclass(frozen=True)
class OwnJaxModel(Model):
    """A model of a user's functions; `classes` is the last extent of the outputs, or 1."""

    initial_weights: tuple[Float32Array, ...]
    functions: JaxModel
    classes: int
    accuracy_description: str
    padding_label: int = NO_CLASS

    @property
    def num_classes(self) -> int:
        """The number of classes, if labels are classes."""
        return self.classes


def functions_of(
    predict: Logits, loss: PerLabel, correct: PerLabel, log_odds: PerLabel | None
) -> JaxModel:
    """A model of a user's functions, which get label 0 in place of padding (NO_CLASS or NaN)."""

    def is_token(labels: Array) -> Array:
        is_whole = jnp.issubdtype(labels.dtype, jnp.integer)
        return labels != NO_CLASS if is_whole else ~jnp.isnan(labels)

    def known(function: PerLabel) -> PerLabel:
        def on_batch(outputs: Array, labels: Array) -> Array:
            labels = jnp.where(is_token(labels), labels, jnp.zeros_like(labels))
            return jnp.asarray(function(outputs, labels)).astype(jnp.float32)

        return on_batch

    attacked = known(loss)
    if log_odds is not None:
        of_labels = known(log_odds)

        def attacked(outputs: Array, labels: Array) -> Array:
            return -of_labels(outputs, labels)

    return JaxModel(
        outputs=predict,
        losses=known(loss),
        attacked_losses=attacked,
        scores=known(correct),
        is_token=is_token,
        is_counted=is_token,
    )


def checked_classes(
    functions: JaxModel, weights: Sequence[Float32Array], like: Examples, source: str
) -> int:
    """The last extent of the outputs, or 1; each function must give a number per example."""
    outputs = functions.outputs(
        [jnp.asarray(weight) for weight in weights], jnp.asarray(like.inputs)
    )
    named = {
        "loss": functions.losses,
        "correct": functions.scores,
        "log_odds": functions.attacked_losses,
    }
    for name, function in named.items():
        shape = jax.eval_shape(function, outputs, jnp.asarray(like.labels)).shape
        if shape != (len(like),):
            raise InputError(
                f"{source}: {name} must give one number an example, shape ({len(like)},), got "
                f"{shape}"
            )
    return int(np.shape(outputs)[-1]) if np.ndim(outputs) > 1 else 1
