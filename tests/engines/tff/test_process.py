"""The TFF process, run for real: what a canary adds, what noise is added, what stock TFF gives."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.canaries.families import RademacherFamily
from fl_audit.config import (
    Canaries,
    Config,
    DigitsTask,
    FedAvg,
    GaussianAdaptive,
    GaussianFixed,
    Mechanism,
    ServerSgd,
    Shuffle,
)
from fl_audit.engines.cohort import CohortData
from fl_audit.engines.engine import as_vector
from fl_audit.engines.tff.algorithms import (
    build_process,
    build_process_over_results,
    functional_model,
)
from fl_audit.engines.tff.canary_clients import DataSets
from fl_audit.engines.tff.canary_process import model_weights, released_aggregate
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.engines.tff.local import Local
from fl_audit.mechanisms import make_aggregator, round_noise
from fl_audit.participation import Cohort
from fl_audit.tasks import load_task
from fl_audit.tasks.tf.networks import as_classifier

pytestmark = pytest.mark.tff

CLIP = 0.25
COHORT = 4.0
NO_NOISE = GaussianFixed(noise_multiplier=0.0, clip_norm=CLIP)


@pytest.fixture(scope="module", autouse=True)
def _runtime():
    with local_runtime(LocalContext(num_threads=2)):
        yield


@pytest.fixture(scope="module")
def task():
    return load_task(DigitsTask(num_clients=300, hidden=(32,)), seed=0)


def _config(mechanism: Mechanism, server: ServerSgd | None = None) -> Config:
    return Config(
        task=DigitsTask(),
        mechanism=mechanism,
        participation=Shuffle(rounds=2, clients_per_round=3),
        canaries=Canaries(count=10),
        server=server or ServerSgd(),
    )


@pytest.fixture(scope="module")
def rounds_of(task):
    # One process for each config: building and compiling one takes a second or two.
    model = as_classifier(task.classifier)
    process_of = functools.cache(lambda config: build_process(model, config, COHORT, 3))
    return lambda config: _Rounds(task, config, process_of(config))


def _cohort(clients, canaries):
    return Cohort(np.array(clients, np.int64), np.array(canaries, np.int64))


class _Rounds:
    """The engine of a process, with the state it has reached."""

    def __init__(self, task, config, process):
        self.family = RademacherFamily(seed=5, num_canaries=10, dim=task.classifier.dim)
        self.process = process
        self.data = CohortData(task, config.client, seed=0)
        no_examples = task.held_out.take(np.zeros(0, np.int64))
        inputs = DataSets(config.client.batch_size, self.family, no_examples)
        self.engine = Local("", process, config.mechanism, LocalContext(), False, inputs)
        self.state = self.process.initialize()

    def participants(self, clients, canaries, round_index=0):
        data = self.data.round_data(_cohort(clients, canaries), round_index)
        return self.engine.participants(self.state, data)

    def run(self, clients, canaries, round_index=0):
        data = self.data.round_data(_cohort(clients, canaries), round_index)
        trained = self.engine.run_round(self.state, data, round_index)
        self.state = trained.state
        return trained

    @property
    def weights(self):
        return as_vector(model_weights(self.state))


def test_a_canary_adds_its_vector_at_the_clip_norm(rounds_of):
    without = rounds_of(_config(NO_NOISE)).run([0, 1, 2], [])
    rounds = rounds_of(_config(NO_NOISE))
    both = rounds.run([0, 1, 2], [7])
    added = (both.seen.aggregate - without.seen.aggregate) * COHORT
    np.testing.assert_allclose(added, CLIP * rounds.family.vector(7), atol=1e-7)


def test_the_model_moves_along_the_canary_and_the_aggregate(rounds_of):
    rounds = rounds_of(_config(NO_NOISE))
    before = rounds.weights
    result = rounds.run([0, 1], [3])
    moved = rounds.weights - before
    np.testing.assert_allclose(moved, result.seen.aggregate, atol=1e-6)
    assert rounds.family.cosines(moved)[3] > 0.3


def test_training_loss_ignores_canaries(rounds_of):
    alone = rounds_of(_config(NO_NOISE)).run([0, 1, 2], [])
    both = rounds_of(_config(NO_NOISE)).run([0, 1, 2], [4, 5])
    assert both.train_loss == alone.train_loss > 0


def test_without_canaries_it_is_stock_federated_averaging(task, rounds_of):
    config = _config(NO_NOISE)
    stock = tff.learning.algorithms.build_unweighted_fed_avg(
        functional_model(as_classifier(task.classifier)),
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(config.client.learning_rate),
        server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
        model_aggregator=make_aggregator(config.mechanism, COHORT, 3),
    )
    ours = rounds_of(config)
    examples = [client["examples"] for client in ours.participants([0, 1, 2], [])]
    theirs = stock.next(stock.initialize(), examples).state
    ours.run([0, 1, 2], [])
    np.testing.assert_allclose(ours.weights, as_vector(model_weights(theirs)), atol=1e-7)


@pytest.mark.slow
def test_an_empty_cohort_releases_noise_alone(rounds_of):
    mechanism = GaussianFixed(noise_multiplier=2.0, clip_norm=CLIP)
    result = rounds_of(_config(mechanism)).run([], [])
    assert result.noise_stddev == pytest.approx(2.0 * CLIP)
    assert result.train_loss == 0
    noise = result.seen.aggregate.astype(np.float64) * COHORT / result.noise_stddev
    # Standard errors for d standard normal coordinates; 5.5 of them fail once in 2e7 runs.
    assert abs(noise.mean()) < 5.5 / noise.size**0.5
    assert abs((noise**2).mean() - 1) < 5.5 * (2 / noise.size) ** 0.5


@pytest.mark.slow
def test_every_round_and_every_process_draws_its_noise_anew(task, rounds_of):
    config = _config(GaussianFixed(noise_multiplier=2.0, clip_norm=CLIP))
    tf.random.set_seed(7)
    again = rounds_of(config)
    noises = [again.run([], [], index).seen.aggregate for index in range(2)]
    for build in (build_process, build_process_over_results):
        tf.random.set_seed(7)  # must not reach the noise
        process = build(as_classifier(task.classifier), config, COHORT, 3)
        with local_runtime(LocalContext()):
            output = process.next(process.initialize(), [])
        noises.append(as_vector(released_aggregate(output.metrics)))
    correlations = np.corrcoef(noises)[np.triu_indices(len(noises), 1)]
    # Of independent normals the standard error is n^-0.5: six of them, beyond 5.7 each with
    # probability 1.2e-8.
    assert np.abs(correlations).max() < 5.7 / noises[0].size ** 0.5


def test_nothing_random_in_the_compiled_process_has_a_seed(rounds_of):
    process = rounds_of(_config(GaussianFixed(noise_multiplier=2.0, clip_norm=CLIP))).process
    form = tff.backends.mapreduce.get_map_reduce_form_for_computation(process.next)
    names = ("prepare", "work", "zero", "accumulate", "report", "update")
    graphs = [_graph(getattr(form, name)) for name in names]
    functions = [function for graph in graphs for function in graph.library.function]
    nodes = [node for graph in graphs for node in graph.node]
    nodes += [node for function in functions for node in function.node_def]
    seeds = [node.attr[key].i for node in nodes for key in ("seed", "seed2") if key in node.attr]
    assert nodes
    assert not any(seeds)


def _graph(computation):
    graph = tf.compat.v1.GraphDef()
    tff.framework.serialize_computation(computation).tensorflow.graph_def.Unpack(graph)
    return graph


@pytest.mark.slow
def test_adaptive_clip_adds_the_noise_that_the_record_states(rounds_of):
    mechanism = GaussianAdaptive(noise_multiplier=0.3, clip_norm=CLIP, clipped_count_stddev=0.5)
    noise = round_noise(mechanism, COHORT)
    # Andrew et al. 2021, theorem 1: sum and count together are one release at 0.3.
    together = (noise.sum_noise_multiplier**-2 + (2 * noise.count_noise_stddev) ** -2) ** -0.5
    assert together == pytest.approx(0.3)
    result = rounds_of(_config(mechanism)).run([0], [])
    assert result.seen.clip_norm == pytest.approx(CLIP)
    assert result.noise_stddev == pytest.approx(noise.sum_noise_multiplier * CLIP)


def test_the_same_seed_gives_the_same_bits(rounds_of):
    first = rounds_of(_config(NO_NOISE)).run([0, 1, 2], [3])
    second = rounds_of(_config(NO_NOISE)).run([0, 1, 2], [3])
    np.testing.assert_array_equal(first.seen.aggregate, second.seen.aggregate)


def test_local_order_changes_with_the_round_and_not_with_the_cohort(task):
    data = CohortData(task, FedAvg(), seed=0)

    def labels(clients, round_index):
        return data.round_data(_cohort(clients, []), round_index).clients[-1].labels.tolist()

    assert labels([8], 0) == labels([1, 8], 0)
    assert sorted(labels([8], 0)) == sorted(labels([8], 1))
    orders = {tuple(labels([8], r)) for r in range(20)}
    assert len(orders) > 1


def test_client_data_is_a_pair_of_sequences(task, rounds_of):
    rounds = rounds_of(_config(NO_NOISE))
    data_type = rounds.process.next.type_signature.parameter[1].member
    model = as_classifier(task.classifier)
    element = collections.OrderedDict(
        canary=tf.TensorSpec([task.classifier.dim]),
        examples=(model.input_spec, model.label_spec),
    )
    assert data_type == tff.to_type(
        collections.OrderedDict(
            canary=tff.SequenceType(tff.types.tensorflow_to_type(element["canary"])),
            examples=tff.SequenceType(tff.types.tensorflow_to_type(element["examples"])),
        )
    )
