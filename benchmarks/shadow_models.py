"""Models a second: blocks of models against one Keras model after another.

    python -m benchmarks.shadow_models

Both train the same dense model of digits from the same initial weights on the same batches in the
same order; that their logits agree is asserted before anything is timed.
"""

import time

import numpy as np

from fl_audit.resources import set_tensorflow_defaults
from fl_audit.tasks.tf.networks import as_classifier

set_tensorflow_defaults()

import tensorflow as tf  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

from fl_audit.engines.shadow_recipe import (  # noqa: E402
    Recipe,
    batches_of_model,
    initial_weights,
    stacked,
)
from fl_audit.engines.tff.shadow_models import ModelBlockTrainer  # noqa: E402
from fl_audit.tasks.dense import dense_classifier  # noqa: E402
from fl_audit.tasks.learning_task import Examples  # noqa: E402

MODELS, KERAS_MODELS, HIDDEN = 32, 3, 64
RECIPE = Recipe(epochs=20, batch_size=50, learning_rate=0.1, momentum=0.9)


def keras_model(initial):
    """The dense model, compiled for the recipe."""
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(HIDDEN, activation="relu"), tf.keras.layers.Dense(10)]
    )
    model.build([None, 64])
    model.set_weights(initial)
    model.compile(
        tf.keras.optimizers.SGD(RECIPE.learning_rate, RECIPE.momentum),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def fit(model, points, batches):
    """Trains on these batches in this order, as `Model.fit` does fastest: one call for all."""
    rows = batches.ravel()
    model.fit(points.inputs[rows], points.labels[rows], RECIPE.batch_size, shuffle=False, verbose=0)


def main():
    """Asserts equal logits, then prints both speeds and accuracies."""
    images, labels = load_digits(return_X_y=True)
    points = Examples((images / 16).astype(np.float32), labels.astype(np.int32))
    classifier = as_classifier(dense_classifier([64, HIDDEN, 10], 0, ""))
    rng = np.random.default_rng(0)
    members = [np.sort(rng.permutation(len(labels))[:900]) for _ in range(MODELS)]
    batches = [batches_of_model(m, RECIPE, 0, i) for i, m in enumerate(members)]
    initial = [initial_weights(classifier, 0, i) for i in range(MODELS)]
    trainer = ModelBlockTrainer(classifier, RECIPE, points)
    arguments = [np.stack(w) for w in zip(*initial, strict=True)], stacked(batches)
    keys = np.arange(MODELS)
    trainer.train(arguments[0], arguments[1][:, :2], keys)  # traced
    start = time.perf_counter()
    weights = trainer.train(*arguments, keys)
    in_block = (time.perf_counter() - start) / MODELS
    logits = trainer.logits(weights, points.inputs)

    seconds = []
    for number in range(KERAS_MODELS):
        start = time.perf_counter()
        model = keras_model(initial[number])
        fit(model, points, batches[number])
        seconds.append(time.perf_counter() - start)
        found = model(points.inputs).numpy()
        np.testing.assert_allclose(logits[number], found, atol=0.05)
        accuracy = [np.mean(z.argmax(1) == labels) for z in (logits[number], found)]
        print(f"model {number}: accuracy {accuracy[0]:.4f} in a block, {accuracy[1]:.4f} in Keras")
    one = float(np.median(seconds))
    print(f"{in_block:.3f} s a model in a block of {MODELS}, {one:.3f} s in Keras")
    print(f"{one / in_block:.1f} times the models a second")


if __name__ == "__main__":
    main()
