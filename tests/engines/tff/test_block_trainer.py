"""Blocks of models against NumPy's own steps, and the noise of DP-SGD."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

from fl_audit.engines.shadow_recipe import (
    NO_POINT,
    DpSgd,
    Recipe,
    batches_of_model,
    stacked,
)
from fl_audit.engines.tff.shadow_models import ModelBlockTrainer
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.tf.networks import as_classifier

POINTS, FEATURES, CLASSES = 30, 5, 3


def data():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(POINTS, FEATURES)).astype(np.float32)
    return Examples(inputs, rng.integers(0, CLASSES, POINTS).astype(np.int32))


def linear():
    return as_classifier(dense_classifier([FEATURES, CLASSES], 3, ""))


@functools.cache  # a trainer is traced once
def trainer_of(recipe, hidden):
    classifier = as_classifier(dense_classifier([FEATURES, *hidden, CLASSES], 3, ""))
    return classifier, ModelBlockTrainer(classifier, recipe, data())


def trained(recipe, members, hidden=(), keys=None):
    classifier, trainer = trainer_of(recipe, hidden)
    batches = [batches_of_model(np.array(m), recipe, 7, i) for i, m in enumerate(members)]
    initial = [np.stack([w] * len(members)) for w in classifier.initial_weights]
    keys = np.arange(len(members)) if keys is None else np.array(keys)
    weights = trainer.train(initial, stacked(batches), keys)
    return [np.asarray(w) for w in weights], batches, trainer


def example_gradients(matrix, bias, rows):
    """Gradients of each row's cross-entropy in a linear model, with the bias as a last row."""
    points = data()
    x, y = points.inputs[rows].astype(np.float64), points.labels[rows]
    error = special.softmax(x @ matrix + bias, axis=1) - np.eye(CLASSES)[y]
    return np.concatenate([x[:, :, None] * error[:, None, :], error[:, None, :]], axis=1)


def numpy_model(recipe, batches):
    """One model's training, written out for a linear model."""
    weights = np.concatenate([linear().initial_weights[0], linear().initial_weights[1][None]], 0)
    weights, velocity = weights.astype(np.float64), 0.0
    for batch in batches:
        rows = batch[batch != NO_POINT]
        if len(rows) == 0 and recipe.privacy is None:
            continue
        gradients = example_gradients(weights[:-1], weights[-1], rows)
        if recipe.privacy is None:
            gradient = gradients.mean(axis=0)
        else:
            parts = recipe.privacy.microbatches
            if parts is not None:
                own = [gradients[rows % parts == part] for part in range(parts)]
                gradients = np.array([g.mean(axis=0) for g in own if len(g)]).reshape(
                    -1, *weights.shape
                )
            norms = np.sqrt(np.sum(gradients**2, axis=(1, 2)))
            scale = np.minimum(1, recipe.privacy.clip_norm / norms)
            gradient = np.tensordot(scale, gradients, 1) / (parts or recipe.batch_size)
        velocity = recipe.momentum * velocity + gradient
        weights = weights - recipe.learning_rate * velocity
    return weights


MEMBERS = [list(range(12)), list(range(5, 30)), [3, 9, 27]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(4, 5, 0.2, 0.9),
        Recipe(3, 50, 0.5),
        Recipe(4, 5, 0.2, 0.5, DpSgd(0.3, 0.0, 15)),
        Recipe(4, 5, 0.2, 0.0, DpSgd(100.0, 0.0, 15)),
        Recipe(4, 5, 0.2, 0.5, DpSgd(0.3, 0.0, 15, microbatches=1)),
        Recipe(4, 5, 0.2, 0.5, DpSgd(0.3, 0.0, 15, microbatches=3)),
    ],
)
def test_a_block_trains_each_model_as_numpy_does_one(recipe):
    weights, batches, _ = trained(recipe, MEMBERS)
    for model in range(3):
        expected = numpy_model(recipe, batches[model])
        np.testing.assert_allclose(weights[0][model], expected[:-1], atol=2e-6)
        np.testing.assert_allclose(weights[1][model], expected[-1], atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [None, DpSgd(0.5, 1.0, 12)])
def test_a_model_does_not_depend_on_its_block(privacy):
    recipe = Recipe(5, 4, 0.1, 0.9, privacy, output_noise=0.1)
    together, _, _ = trained(recipe, MEMBERS, hidden=(8,))
    alone, _, _ = trained(recipe, MEMBERS[:1], hidden=(8,))
    for block, one in zip(together, alone, strict=True):
        np.testing.assert_allclose(block[0], one[0], atol=1e-5)
    assert not np.allclose(together[0][0], together[0][1])


def test_noise_has_the_law_of_dp_sgd_and_of_the_output():
    """Of one step: deviation clip * multiplier * learning rate / batch, and the output's on top.

    250 models of 18 weights: Kolmogorov-Smirnov on 4,500 draws, failing with probability 1e-7.
    """
    members = [MEMBERS[0]] * 250
    recipe = Recipe(1, 12, 2.0, 0.0, DpSgd(0.5, 3.0, 12), output_noise=0.2)
    (matrices, biases), batches, _ = trained(recipe, members)
    plain = numpy_model(recipe, batches[0])  # every point is in every model's batch
    noised = np.concatenate([matrices, biases[:, None]], axis=1)
    draws = (noised - plain).reshape(250, -1)
    deviation = np.hypot(0.5 * 3.0 * 2.0 / 12, 0.2)
    assert stats.kstest(draws.ravel() / deviation, stats.norm.cdf).pvalue > 1e-7
    correlation = np.corrcoef(draws[:-1].ravel(), draws[1:].ravel())[0, 1]
    assert abs(correlation) < 5.4 / np.sqrt(draws[1:].size)


def test_logits_are_the_models_own_and_in_parts_the_same_and_traced_once(monkeypatch):
    _, trainer = trainer_of(Recipe(1, 5, 0.2), ())
    random = np.random.default_rng(1)
    shapes = [(3, FEATURES, CLASSES), (3, CLASSES)]
    weights = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    tensors = [tf.constant(w) for w in weights]
    whole = trainer.logits(tensors, data().inputs)
    for model in range(3):
        expected = data().inputs @ weights[0][model] + weights[1][model]
        np.testing.assert_allclose(whole[model], expected, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr("fl_audit.engines.tff.shadow_models._NUMBERS_AT_ONCE", 7 * 3 * FEATURES)
    np.testing.assert_allclose(trainer.logits(tensors, data().inputs), whole, atol=1e-6)
    one = [w[:1] for w in tensors]
    np.testing.assert_allclose(trainer.logits(one, data().inputs), whole[:1], atol=1e-6)
    assert trainer._predict.experimental_get_tracing_count() == 1


def test_each_epoch_takes_every_point_once_in_a_new_order():
    members = np.array([2, 3, 5, 8, 13, 21, 29])
    batches = batches_of_model(members, Recipe(20, 3, 0.1), 1, 4)
    assert batches.shape == (60, 3)
    epochs = batches.reshape(20, 9)
    assert all(sorted(e[e != NO_POINT]) == members.tolist() for e in epochs)
    assert len({tuple(e) for e in epochs}) > 15
    np.testing.assert_array_equal(batches, batches_of_model(members, Recipe(20, 3, 0.1), 1, 4))
    assert not np.array_equal(batches, batches_of_model(members, Recipe(20, 3, 0.1), 1, 5))


def test_poisson_batches_take_each_point_by_its_own_coin():
    members = np.arange(40)
    recipe = Recipe(200, 10, 0.1, 0.0, DpSgd(1.0, 1.0, 80))
    batches = batches_of_model(members, recipe, 0, 0)
    assert len(batches) == recipe.steps(40) == 1600
    taken = np.array([[point in batch for point in members] for batch in batches.tolist()])
    # 64,000 coins of probability 1/8, and the variance of the 1,600 sums: 5 deviations.
    assert taken.mean() == pytest.approx(1 / 8, abs=5 * np.sqrt(7 / 64 / 64_000))
    variance = 40 * 7 / 64
    assert taken.sum(axis=1).var() == pytest.approx(variance, rel=5 * np.sqrt(2.1 / 1600))
