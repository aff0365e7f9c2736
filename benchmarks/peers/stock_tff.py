"""Federated averaging as TFF ships it, with Keras models or with ours."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.simulation.baselines.stackoverflow import word_prediction_models

from benchmarks.next_word import Sizes
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.algorithms import functional_model
from fl_audit.engines.tff.canary_clients import batches_of
from fl_audit.mechanisms import make_aggregator
from fl_audit.tasks.tf.classifier import Classifier
from fl_audit.tasks.tf.networks import as_classifier

Model = Callable[[], tff.learning.models.VariableModel] | tff.learning.models.FunctionalModel


def keras_next_word(sizes: Sizes) -> tf.keras.Model:
    """TFF's own next-word baseline, with its weights in the order of our model."""
    return word_prediction_models.create_recurrent_model(
        sizes.vocabulary_size + 4, sizes.embedding_size, lstm_size=sizes.lstm_size
    )


def keras_dense(widths: Sequence[int]) -> tf.keras.Model:
    """A model of dense layers with ReLU between them; `widths` are from inputs to classes."""
    *hidden, classes = widths[1:]
    layers = [tf.keras.layers.Dense(width, "relu") for width in hidden]
    return tf.keras.Sequential(
        [tf.keras.Input(widths[:1]), *layers, tf.keras.layers.Dense(classes)]
    )


def variable_model(make: Callable[[], tf.keras.Model], classifier: Classifier) -> Model:
    """A Keras model for TFF, on batches like the classifier's."""

    def model_fn() -> tff.learning.models.VariableModel:
        return tff.learning.models.from_keras_model(
            make(),
            tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=(classifier.input_spec, classifier.label_spec),
        )

    return model_fn


def fed_avg(
    model: Model, run: PreparedRun, **options: Any
) -> tff.learning.templates.LearningProcess:
    """TFF's federated averaging, with the optimizers and the aggregator of a run.

    Args:
      model: The model to train.
      run: The run whose config and expected cohort are used.
      options: Further arguments of `build_unweighted_fed_avg`.
    """
    config = run.config
    sgd = tff.learning.optimizers.build_sgdm
    return tff.learning.algorithms.build_unweighted_fed_avg(
        model,
        sgd(config.client.learning_rate),
        sgd(config.server.learning_rate, config.server.momentum),
        model_aggregator=make_aggregator(
            config.mechanism, run.schedule.expected_cohort, run.num_rounds
        ),
        **options,
    )


def fed_avg_of_ours(run: PreparedRun, **options: Any) -> tff.learning.templates.LearningProcess:
    """TFF's federated averaging with our model."""
    return fed_avg(functional_model(as_classifier(run.task.classifier)), run, **options)


class StockRound:
    """A round from the classifier's initial weights, on TFF's default context."""

    def __init__(self, process: tff.learning.templates.LearningProcess, run: PreparedRun) -> None:
        """Starts the process."""
        weights = tff.learning.models.ModelWeights(run.task.classifier.initial_weights, ())
        state = process.initialize()
        in_its_own_types = tf.nest.pack_sequence_as(
            state.global_model_weights, tf.nest.flatten(weights)
        )
        self._state = process.set_model_weights(state, in_its_own_types)
        self._next = functools.partial(process.next, self._state)
        population = run.task.population
        self._batch_size = run.config.client.batch_size
        self._clients = [population.examples(i) for i in range(len(population.client_ids))]

    def __call__(self) -> Any:
        """Runs a round from a list of data sets, as TFF's own runtime needs; returns its state."""
        return self._next(list(self._data_sets())).state

    def one_by_one(self) -> Any:
        """Runs a round on a runtime that makes each client's data set when it is needed."""
        return self._next(self._data_sets()).state

    def _data_sets(self) -> Iterator[tf.data.Dataset]:
        """The data sets of all clients, made anew for each round as in our runtime."""
        return (batches_of(examples, self._batch_size) for examples in self._clients)
