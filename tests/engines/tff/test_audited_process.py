"""Canary clients in processes that are not ours: weights, states, schedules, other structures."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.learning.algorithms import fed_avg_with_optimizer_schedule

from fl_audit.engines.engine import as_vector
from fl_audit.engines.tff.algorithms import (
    build_audited_fed_avg,
    build_audited_fed_prox,
    build_audited_fed_sgd,
)
from fl_audit.engines.tff.canary_clients import canary_client_data, probe, real_client_data
from fl_audit.engines.tff.canary_process import (
    canary_dim,
    compose_audited_process,
    model_weights,
    released_aggregate,
    with_canary_clients,
)
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.errors import InputError
from fl_audit.mechanisms import ClientGaussian, make_aggregator

pytestmark = pytest.mark.tff

DIM = 3
VECTOR = np.array([3.0, -1.0, 2.0], np.float32)


@pytest.fixture(scope="module", autouse=True)
def _runtime():
    with local_runtime(LocalContext(num_threads=2)):
        yield


def _linear_model():
    """Two weights and a bias, least squares, and a weight that is not trained."""

    @tf.function
    def predict(weights, x, training):
        del training
        (slope, bias), (scale,) = weights
        return scale * (x @ slope + bias)

    @tf.function
    def loss(output, label, sample_weight=None):
        del sample_weight
        return tf.reduce_mean((output - label) ** 2)

    zeros = (np.zeros((2, 1), np.float32), np.zeros(1, np.float32))
    return tff.learning.models.FunctionalModel(
        initial_weights=(zeros, (np.float32(2.0),)),
        predict_on_batch_fn=predict,
        loss_fn=loss,
        input_spec=(tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1])),
    )


class _Scale(tf.keras.layers.Layer):
    def build(self, input_shape):
        del input_shape
        self.scale = self.add_weight(
            "scale", initializer=tf.keras.initializers.Constant(2.0), trainable=False
        )

    def call(self, inputs):
        return self.scale * inputs


def _keras_model():
    """The same model of Keras layers."""
    dense = tf.keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(2,))
    layers = tf.keras.Sequential([dense, _Scale()])
    return tff.learning.models.from_keras_model(
        layers,
        loss=tf.keras.losses.MeanSquaredError(),
        input_spec=(tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1])),
    )


def _clients(sizes=(1, 5, 3)):
    random = np.random.default_rng(0)
    arrays = [
        (random.standard_normal((size, 2)), random.standard_normal((size, 1))) for size in sizes
    ]
    return [
        tf.data.Dataset.from_tensor_slices(tuple(a.astype(np.float32) for a in pair)).batch(2)
        for pair in arrays
    ]


def _sgd(learning_rate=0.1, momentum=None):
    return tff.learning.optimizers.build_sgdm(learning_rate, momentum)


def _next(process, state, clients, vectors=()):
    data = [real_client_data(process, examples) for examples in clients]
    return process.next(state, data + [canary_client_data(process, v) for v in vectors])


def _flat(aggregate):
    return np.concatenate([np.ravel(part) for part in aggregate])


def _moved(process, output):
    return as_vector(model_weights(output.state)) - as_vector(model_weights(process.initialize()))


BY_EXAMPLES = tff.learning.ClientWeighting.NUM_EXAMPLES

STOCK = {
    "weighted fed_avg": (
        lambda: build_audited_fed_avg(
            _linear_model(), _sgd(), client_weighting=BY_EXAMPLES, canary_weight=6.0
        ),
        lambda: tff.learning.algorithms.build_weighted_fed_avg(_linear_model(), _sgd(), _sgd(1.0)),
        6.0,
    ),
    "unweighted fed_avg of Keras layers, with Adam": (
        lambda: build_audited_fed_avg(
            _keras_model,
            tff.learning.optimizers.build_adam(0.1),
            _sgd(1.0),
            model_aggregator=tff.aggregators.UnweightedMeanFactory(),
            canary_weight=99.0,
        ),
        lambda: tff.learning.algorithms.build_unweighted_fed_avg(
            _keras_model, tff.learning.optimizers.build_adam(0.1), _sgd(1.0)
        ),
        None,
    ),
    "fed_sgd": (
        lambda: build_audited_fed_sgd(_linear_model(), _sgd(0.5)),
        lambda: tff.learning.algorithms.build_fed_sgd(_linear_model(), _sgd(0.5)),
        1.0,
    ),
}


@pytest.mark.parametrize(
    ("build", "build_stock", "weight"),
    [
        pytest.param(*case, id=name, marks=[] if name == "weighted fed_avg" else [pytest.mark.slow])
        for name, case in STOCK.items()
    ],
)
def test_it_is_the_stock_process_with_canaries_in_the_mean(build, build_stock, weight):
    """Weights 1, 5 and 3 of the clients by their examples, or one each."""
    process, stock = build(), build_stock()
    clients = _clients()
    assert canary_dim(process) == DIM
    theirs = stock.next(stock.initialize(), clients)
    ours = _next(process, process.initialize(), clients)
    np.testing.assert_array_equal(_moved(process, ours), _moved(stock, theirs))
    tf.nest.assert_same_structure(ours.state, theirs.state)
    assert ours.metrics["client_work"] == theirs.metrics["client_work"]

    mean = _flat(released_aggregate(ours.metrics))
    with_canary = _next(process, process.initialize(), clients, [VECTOR])
    total, of_canary = (9.0, weight) if weight else (3.0, 1.0)
    expected = (total * mean + of_canary * VECTOR) / (total + of_canary)
    aggregate = _flat(released_aggregate(with_canary.metrics))
    np.testing.assert_allclose(aggregate, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_of_keras_layers_fed_sgd_and_fed_prox_are_the_functional_ones():
    clients = _clients()
    for build in (
        lambda model: build_audited_fed_sgd(model, _sgd(0.5)),
        lambda model: build_audited_fed_prox(model, 0.7, _sgd(momentum=0.9)),
    ):
        functional, keras = build(_linear_model()), build(_keras_model)
        ours = _next(functional, functional.initialize(), clients, [VECTOR])
        theirs = _next(keras, keras.initialize(), clients, [VECTOR])
        np.testing.assert_allclose(
            _flat(released_aggregate(ours.metrics)),
            _flat(released_aggregate(theirs.metrics)),
            rtol=1e-5,
        )
        np.testing.assert_allclose(_moved(functional, ours), _moved(keras, theirs), rtol=1e-5)


@pytest.mark.slow
def test_a_scheduled_client_work_and_a_counting_distributor_keep_their_states():
    """Clients learn at rate 0 in the first round and at 0.1 afterwards."""
    work = fed_avg_with_optimizer_schedule.build_scheduled_client_work(
        _keras_model,
        learning_rate_fn=lambda round_number: tf.where(round_number < 1, 0.0, 0.1),
        optimizer_fn=_sgd,
        metrics_aggregator=tff.learning.metrics.sum_then_finalize,
        loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )

    @tff.tensorflow.computation
    def initial_weights():
        return tff.learning.models.ModelWeights.from_model(_keras_model())

    weights_type = initial_weights.type_signature.result
    mean = tff.aggregators.MeanFactory()
    process = compose_audited_process(
        initial_weights,
        _counting_distributor(weights_type),
        work,
        mean.create(weights_type.trainable, tff.TensorType(np.float32)),
        tff.learning.templates.build_apply_optimizer_finalizer(_sgd(1.0), weights_type),
    )
    first = _next(process, process.initialize(), _clients(), [VECTOR])
    np.testing.assert_allclose(_flat(released_aggregate(first.metrics)), VECTOR / 10, rtol=1e-6)
    second = _next(process, first.state, _clients())
    assert np.abs(_flat(released_aggregate(second.metrics))).min() > 1e-3
    assert [output.state.distributor for output in (first, second)] == [1, 2]
    assert [output.state.client_work for output in (first, second)] == [1, 2]
    assert second.metrics["client_work"]["client_learning_rate"] == np.float32(0.1)
    assert list(second.state.global_model_weights.non_trainable) == [2.0]


def _counting_distributor(weights_type):
    @tff.federated_computation
    def initialize():
        return tff.federated_value(np.int32(0), tff.SERVER)

    @tff.tensorflow.computation(np.int32)
    def add_one(count):
        return count + 1

    @tff.federated_computation(
        tff.FederatedType(np.int32, tff.SERVER), tff.FederatedType(weights_type, tff.SERVER)
    )
    def next_fn(state, weights):
        return tff.templates.MeasuredProcessOutput(
            tff.federated_map(add_one, state),
            tff.federated_broadcast(weights),
            tff.federated_value((), tff.SERVER),
        )

    return tff.learning.templates.DistributionProcess(initialize, next_fn)


UPDATE = collections.OrderedDict(
    slope=tff.TensorType(np.float64, [2]), bias=tff.TensorType(np.float32, [])
)


def _still_client_work(update_type, data_type):
    """Clients that send zeros, with a weight that is a whole number."""
    weights_type = tff.to_type(tff.learning.models.ModelWeights(UPDATE, ()))

    @tff.federated_computation
    def initialize():
        return tff.federated_value((), tff.SERVER)

    @tff.tensorflow.computation(weights_type, data_type)
    def work(weights, data):
        del weights, data
        specs = tff.types.type_to_tf_tensor_specs(tff.to_type(update_type))
        update = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), specs)
        return tff.learning.templates.ClientResult(update, tf.constant(0))

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(weights_type, tff.CLIENTS),
        tff.FederatedType(data_type, tff.CLIENTS),
    )
    def next_fn(state, weights, data):
        result = tff.federated_map(work, (weights, data))
        nothing = tff.federated_value((), tff.SERVER)
        return tff.templates.MeasuredProcessOutput(state, result, nothing)

    return tff.learning.templates.ClientWorkProcess(initialize, next_fn)


def _compose_still(update_type, data_type, canary_weight):
    @tff.tensorflow.computation
    def initial_weights():
        zeros = collections.OrderedDict(slope=tf.zeros([2], tf.float64), bias=tf.zeros([]))
        return tff.learning.models.ModelWeights(zeros, ())

    weights_type = initial_weights.type_signature.result
    mean = tff.aggregators.MeanFactory()
    return compose_audited_process(
        initial_weights,
        tff.learning.templates.build_broadcast_process(weights_type),
        _still_client_work(update_type, data_type),
        mean.create(weights_type.trainable, tff.TensorType(np.int32)),
        tff.learning.templates.build_apply_optimizer_finalizer(_sgd(1.0), weights_type),
        canary_weight=canary_weight,
    )


def test_other_structures_of_updates_weights_and_client_data():
    numbers = tff.SequenceType(tff.TensorType(np.int64))
    words = tff.SequenceType(collections.OrderedDict(word=tff.TensorType(np.str_, [None])))
    data_type = collections.OrderedDict(one=numbers, other=words)
    process = _compose_still(UPDATE, tff.to_type(data_type), canary_weight=3.0)
    client = collections.OrderedDict(
        one=tf.data.Dataset.range(4),
        other=tf.data.Dataset.from_tensors(collections.OrderedDict(word=["a", "b"])),
    )
    output = _next(process, process.initialize(), [client], [VECTOR, 2 * VECTOR])
    # Weights of 0, 3 and 3; the scorer's order of the parts is that of the canary's vector.
    aggregate = _flat(released_aggregate(output.metrics))
    np.testing.assert_allclose(aggregate, 1.5 * VECTOR, rtol=1e-6)
    np.testing.assert_allclose(as_vector(model_weights(output.state)), aggregate)


def test_noise_of_clients_is_for_a_run_alone():
    """No loop of one's own gives clients keys of noise; without `uploads` they would add none."""
    factory = make_aggregator(ClientGaussian(noise_multiplier=1.0, clip_norm=1.0), 10.0, 3)
    process = build_audited_fed_avg(_linear_model(), _sgd(), model_aggregator=factory)
    for use in (canary_dim, probe, lambda it: canary_client_data(it, VECTOR)):
        with pytest.raises(
            InputError, match=r"^process: 'client_gaussian' is for a run of a config"
        ):
            use(process)
    work = _still_client_work(UPDATE, tff.SequenceType(np.int64))
    aggregator = tff.aggregators.as_weighted_aggregator(factory).create(
        tff.to_type(UPDATE), tff.TensorType(np.float32)
    )
    with pytest.raises(InputError, match=r"^model_update_aggregator: 'client_gaussian' is for"):
        compose_audited_process(None, None, work, aggregator, None)


def test_what_cannot_carry_a_canary_is_refused():
    data_type = tff.SequenceType(np.int64)
    whole = collections.OrderedDict(UPDATE, bias=tff.TensorType(np.int32, []))
    with pytest.raises(InputError, match=r"^client_work: an update must be floating-.* int32 of"):
        _compose_still(whole, data_type, canary_weight=1.0)
    work = _still_client_work(UPDATE, data_type)
    for weight in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InputError, match=r"^canary_weight: must be positive and finite, got"):
            with_canary_clients(work, weight)
    with pytest.raises(InputError, match=r"^model_aggregator: must be a tff.aggregators factory"):
        build_audited_fed_sgd(_linear_model(), model_aggregator="mean")
    with pytest.raises(InputError, match=r"^proximal_strength: must be positive, got 0"):
        build_audited_fed_prox(_linear_model(), 0, _sgd())
