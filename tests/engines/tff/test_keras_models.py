"""A Keras model in a TFF process trains as our functional one, under native and local."""

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.engines.engine import as_vector
from fl_audit.engines.tff.algorithms import build_process, client_optimizer
from fl_audit.engines.tff.canary_clients import DataSets
from fl_audit.engines.tff.canary_process import (
    model_weights,
    with_aggregate_released,
    with_canary_clients,
)
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.engines.tff.native import Native
from fl_audit.mechanisms import make_aggregator
from fl_audit.tasks.tf.networks import as_classifier

pytestmark = pytest.mark.tff

SAME = 1e-5  # what came out is below 2e-7


def _layers(run):
    task = run.config.task
    num_tokens = task.vocabulary_size + 4
    return [
        tf.keras.layers.Embedding(
            num_tokens, task.embedding_size, input_length=task.sequence_length, mask_zero=True
        ),
        tf.keras.layers.LSTM(task.lstm_size, return_sequences=True),
        tf.keras.layers.Dense(task.embedding_size),
        tf.keras.layers.Dense(num_tokens),
    ]


def _keras_process(run):
    """As `build_process`, with Keras layers instead of our functional model."""
    config, classifier = run.config, as_classifier(run.task.classifier)

    def model_fn():
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential(_layers(run)),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, ignore_class=classifier.padding_label
            ),
            input_spec=(classifier.input_spec, classifier.label_spec),
        )

    @tff.tensorflow.computation
    def initial_weights():
        return tff.learning.models.ModelWeights(
            [tf.constant(array) for array in classifier.initial_weights], []
        )

    weights_type = initial_weights.type_signature.result
    work = tff.learning.templates.build_model_delta_client_work(
        model_fn,
        client_optimizer(config.client),
        tff.learning.ClientWeighting.UNIFORM,
        loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )
    factory = make_aggregator(config.mechanism, run.schedule.expected_cohort, run.num_rounds)
    weighted = tff.aggregators.as_weighted_aggregator(factory)
    optimizer = tff.learning.optimizers.build_sgdm(
        config.server.learning_rate, config.server.momentum
    )
    return tff.learning.templates.compose_learning_process(
        initial_weights,
        tff.learning.templates.build_broadcast_process(weights_type),
        with_canary_clients(work),
        weighted.create(weights_type.trainable, tff.TensorType(np.float32)),
        with_aggregate_released(
            tff.learning.templates.build_apply_optimizer_finalizer(optimizer, weights_type)
        ),
    )


def _train(run, process):
    """The rounds of a process, in the runtime of the caller's block."""
    engine = Native("", process, run.config.mechanism, DataSets.from_run(run), Path(os.devnull))
    state, read, results = engine.begin(), engine.reader(run), []
    for index in range(run.schedule.num_rounds):
        data = read(run.schedule.cohort(index), index)
        results.append(engine.run_round(state, data, index))
        state = results[-1].state
    return results


def _moved(run, results):
    initial = as_vector(run.task.classifier.initial_weights)
    return as_vector(model_weights(results[-1].state)) - initial


def _distance(vector, reference):
    return np.linalg.norm(vector - reference) / np.linalg.norm(reference)


@pytest.mark.slow
def test_a_keras_lstm_trains_as_the_functional_one_under_native_and_local(next_word_run, worker):
    run = next_word_run
    keras = _keras_process(run)
    ours = build_process(
        as_classifier(run.task.classifier), run.config, run.schedule.expected_cohort, run.num_rounds
    )
    with worker():
        native = _train(run, keras)
    # Threads would share the Keras model's variables, so that clients must take turns.
    with local_runtime(LocalContext(num_threads=3)):
        local, functional = _train(run, keras), _train(run, ours)
    assert _distance(_moved(run, local), _moved(run, native)) < SAME
    assert _distance(_moved(run, functional), _moved(run, native)) < SAME
    for one, other, third in zip(local, native, functional, strict=True):
        assert _distance(one.seen.aggregate, other.seen.aggregate) < SAME
        assert _distance(third.seen.aggregate, other.seen.aggregate) < SAME
        assert one.seen.clip_norm == pytest.approx(other.seen.clip_norm, rel=1e-6)
        assert third.seen.clip_norm == pytest.approx(other.seen.clip_norm, rel=1e-6)
        # TFF's Keras metric weights batches by examples, ours by tokens.
        assert one.train_loss == pytest.approx(other.train_loss, rel=SAME)
