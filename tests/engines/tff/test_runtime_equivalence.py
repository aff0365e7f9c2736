"""The same cohort and seeds without noise give the same model, whatever runs the rounds."""

import dataclasses

import msgspec
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.config import (
    FedAvg,
    FedProx,
    FedSgd,
    ServerAdagrad,
    ServerAdam,
    ServerSgd,
    ServerYogi,
)
from fl_audit.engines.cohort import CohortData
from fl_audit.engines.runtimes import make_runtime
from fl_audit.engines.tff.algorithms import client_optimizer, functional_model
from fl_audit.engines.tff.canary_process import flatten_weights, model_weights, run_round
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.engines.tff.local import Local, LocalBlocks
from fl_audit.engines.tff.native import Native
from fl_audit.mechanisms import make_aggregator
from fl_audit.run.training_folder import Checkpoint, load_checkpoint, save_checkpoint
from fl_audit.tasks.tf.networks import as_classifier

pytestmark = pytest.mark.tff

# Float32 rounds at 6e-8; what came out is below 3e-7 (blocks) and 5e-8 (client by client).
SAME = 1e-5

BLOCKS = [1, 2, 5]  # of cohorts of 4 to 7 clients: some divide them and some do not


def _with_runtime(run, name, clients_per_block=None):
    config = msgspec.structs.replace(run.config, runtime=name, clients_per_block=clients_per_block)
    return dataclasses.replace(run, config=config)


def _train(run, runtime):
    """The results of all rounds; TFF's default context must be the runtime's."""
    cohort_data = CohortData(run.task, run.config.client, run.config.seed)
    state, results = runtime.process.initialize(), []
    for index in range(run.schedule.num_rounds):
        data = cohort_data.round_data(run.schedule.cohort(index), index)
        participants = runtime.participants(state, data)
        results.append(run_round(runtime.process, runtime.mechanism, state, participants))
        state = results[-1].state
    return results


_ALGORITHMS = {
    "fed_prox with momentum, adam": (
        FedProx(learning_rate=0.1, batch_size=4, momentum=0.5, proximal_strength=0.4),
        ServerAdam(),
    ),
    "fed_sgd, yogi": (FedSgd(batch_size=4), ServerYogi()),
    "fed_avg with adam, adagrad": (
        FedAvg(learning_rate=0.01, batch_size=4, optimizer="adam", epochs=2),
        ServerAdagrad(),
    ),
    "fed_avg with adagrad, momentum": (
        FedAvg(learning_rate=0.05, batch_size=4, optimizer="adagrad"),
        ServerSgd(momentum=0.9),
    ),
    "fed_prox with yogi, adam": (
        FedProx(learning_rate=0.01, batch_size=4, optimizer="yogi", proximal_strength=1.0),
        ServerAdam(learning_rate=0.1, tau=0.01, beta_1=0.5),
    ),
}
"""Clients and servers of every kind."""


def _with_algorithm(run, name):
    client, server = _ALGORITHMS[name]
    config = msgspec.structs.replace(run.config, client=client, server=server)
    return dataclasses.replace(run, config=config)


def _train_locally(run, clients_per_block):
    runtime = make_runtime(_with_runtime(run, "local", clients_per_block), worker_log=None)
    with runtime.session():
        return _train(run, runtime)


def _distance(vector, reference):
    return np.linalg.norm(vector - reference) / np.linalg.norm(reference)


def _assert_same(results, reference, run):
    initial = flatten_weights(run.task.classifier.initial_weights)
    for ours, theirs in zip(results, reference, strict=True):
        assert _distance(ours.aggregate, theirs.aggregate) < SAME
        assert ours.clip_norm == pytest.approx(theirs.clip_norm, rel=1e-6)
        assert ours.noise_stddev == theirs.noise_stddev == 0
        assert ours.train_loss == pytest.approx(theirs.train_loss, rel=SAME)
    model, expected = (flatten_weights(model_weights(r[-1].state)) for r in (results, reference))
    # That training moved the model, not the weights that it began with, makes it the same.
    assert _distance(model - initial, expected - initial) < SAME


@pytest.fixture(scope="module")
def native(any_run):
    runtime = make_runtime(_with_runtime(any_run, "native"), worker_log=None)
    assert isinstance(runtime, Native)
    return runtime


@pytest.fixture(scope="module")
def native_results(any_run, native, worker):
    with worker():
        return _train(any_run, native)


@pytest.fixture(scope="module")
def local(any_run):
    runtime = make_runtime(_with_runtime(any_run, "local", 1), worker_log=None)
    assert isinstance(runtime, Local)
    return runtime


@pytest.fixture(scope="module")
def local_blocks(any_run):
    runtime = make_runtime(_with_runtime(any_run, "local", 2), worker_log=None)
    assert isinstance(runtime, LocalBlocks)
    return runtime


def test_the_runs_hold_what_makes_them_differ(any_run):
    data = CohortData(any_run.task, any_run.config.client, any_run.config.seed)
    cohorts = [data.round_data(any_run.schedule.cohort(index), index) for index in range(3)]
    assert all(4 <= len(cohort.clients) <= 7 for cohort in cohorts)
    assert sum(len(cohort.canaries) for cohort in cohorts) > 0
    sizes = {len(client) for cohort in cohorts for client in cohort.clients}
    assert {size % any_run.config.client.batch_size for size in sizes} >= {0, 3}


@pytest.mark.parametrize(
    "clients_per_block", [2, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 5))]
)
def test_in_blocks(any_run, native_results, local_blocks, clients_per_block):
    blocks = dataclasses.replace(local_blocks.trained_blocks, clients_per_block=clients_per_block)
    runtime = dataclasses.replace(local_blocks, trained_blocks=blocks)
    with runtime.session():
        results = _train(any_run, runtime)
    _assert_same(results, native_results, any_run)


@pytest.mark.slow
@pytest.mark.parametrize("name", _ALGORITHMS)
def test_every_algorithm_under_every_runtime(any_run, worker, name):
    run = _with_algorithm(any_run, name)
    runtime = make_runtime(_with_runtime(run, "native"), worker_log=None)
    with worker():
        native = _train(run, runtime)
    _assert_same(_train_locally(run, 1), native, run)
    _assert_same(_train_locally(run, 3), native, run)


def _resumed(runtime, path):
    initial = runtime.begin()
    return runtime.from_leaves(initial, load_checkpoint(path, runtime.leaves(initial)).leaves)


def test_a_checkpoint_of_one_runtime_goes_on_under_the_others(
    any_run, native_results, local, local_blocks, tmp_path
):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, Checkpoint(2, local.leaves(native_results[1].state)))
    data = CohortData(any_run.task, any_run.config.client, any_run.config.seed)
    last = data.round_data(any_run.schedule.cohort(2), 2)
    for runtime in (local, local_blocks):
        with runtime.session():
            state = _resumed(runtime, path)
            participants = runtime.participants(state, last)
            result = run_round(runtime.process, runtime.mechanism, state, participants)
        _assert_same([result], native_results[2:], any_run)


@pytest.mark.parametrize("any_run", ["dense"], indirect=True)
def test_a_checkpoint_of_local_goes_on_under_native(any_run, native, local, worker, tmp_path):
    path = tmp_path / "checkpoint.npz"
    with local.session():
        results = _train(any_run, local)
    save_checkpoint(path, Checkpoint(2, local.leaves(results[1].state)))
    data = CohortData(any_run.task, any_run.config.client, any_run.config.seed)
    with worker():
        state = _resumed(native, path)
        last = native.participants(state, data.round_data(any_run.schedule.cohort(2), 2))
        result = run_round(native.process, native.mechanism, state, last)
        _assert_same([result], results[2:], any_run)


@pytest.mark.slow
def test_stock_federated_averaging_with_a_dp_aggregator(dense_run, worker):
    """A process in which nothing is ours but the model and the aggregator's numbers."""
    process = tff.learning.algorithms.build_unweighted_fed_avg(
        functional_model(as_classifier(dense_run.task.classifier)),
        client_optimizer_fn=client_optimizer(dense_run.config.client),
        server_optimizer_fn=tff.learning.optimizers.build_adam(0.01),
        model_aggregator=make_aggregator(dense_run.config.mechanism, 7.0, 3),
    )
    clients = [
        tf.data.Dataset.from_tensor_slices((examples.inputs, examples.labels)).batch(4)
        for examples in map(dense_run.task.population.examples, range(7))
    ]

    def three_rounds():
        state = process.initialize()
        for _ in range(3):
            output = process.next(state, clients)
            state = output.state
        return output

    with worker():
        theirs = three_rounds()
    with local_runtime(LocalContext(2)):
        ours = three_rounds()
    initial = flatten_weights(dense_run.task.classifier.initial_weights)
    moved, expected = (flatten_weights(model_weights(o.state)) - initial for o in (ours, theirs))
    assert _distance(moved, expected) < SAME
    tf.nest.assert_same_structure(ours.metrics, theirs.metrics)
    tf.nest.assert_same_structure(ours.state, theirs.state)
    assert ours.metrics["client_work"]["train"]["loss"] == pytest.approx(
        theirs.metrics["client_work"]["train"]["loss"], rel=SAME
    )
