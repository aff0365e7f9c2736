"""Which runtime a config gets, and what it says where it cannot have the one it asks for."""

import dataclasses

import msgspec
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.engines.engine import as_vector
from fl_audit.engines.runtimes import RUNTIMES, CannotRunError, RuntimeKind, make_runtime
from fl_audit.engines.tff import local, trained_blocks
from fl_audit.engines.tff.algorithms import client_optimizer, functional_model
from fl_audit.engines.tff.canary_process import model_weights
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.engines.tff.local import Local
from fl_audit.engines.tff.native import Native
from fl_audit.errors import InputError
from fl_audit.mechanisms import make_aggregator
from fl_audit.tasks.tf.networks import as_classifier

pytestmark = pytest.mark.tff


def _asking_for(run, name, clients_per_block=None):
    config = msgspec.structs.replace(run.config, runtime=name, clients_per_block=clients_per_block)
    return dataclasses.replace(run, config=config)


@pytest.fixture(scope="module", autouse=True)
def _on_a_cpu():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trained_blocks, "default_clients_per_block", lambda dim: 3)
        patch.setattr(local, "_device", lambda: "CPU")
        yield


def test_a_process_that_can_runs_locally_in_blocks_of_the_default(dense_run, monkeypatch, tmp_path):
    monkeypatch.setattr(local.LocalContext, "compile", lambda *_: None)
    runtime = make_runtime(_asking_for(dense_run, "auto"), tmp_path / "worker.log")
    assert isinstance(runtime, Local)
    assert runtime.description == "local, on the CPU, 3 clients at once"
    assert runtime.rounds_per_session is None
    assert not list(tmp_path.iterdir())


def test_native_is_what_was_asked_for(dense_run, tmp_path):
    runtime = make_runtime(_asking_for(dense_run, "native"), tmp_path / "worker.log")
    assert isinstance(runtime, Native)
    assert runtime.description == "native, on CPUs (asked for)"
    assert runtime.rounds_per_session


@pytest.mark.parametrize("clients_per_block", [1, 5])
def test_native_has_no_blocks(dense_run, clients_per_block, tmp_path):
    run = _asking_for(dense_run, "native", clients_per_block)
    expected = r"^clients_per_block: is for runtime 'local' or 'jax' or 'ray'; [^\n]*$"
    with pytest.raises(InputError, match=expected):
        make_runtime(run, tmp_path / "worker.log")


@pytest.mark.parametrize("name", ["auto", "local"])
def test_blocks_that_cannot_be_are_refused_where_they_were_asked_for(
    convolution_run, name, tmp_path
):
    run = _asking_for(convolution_run, name, 4)
    expected = r"^clients_per_block: must be 1 for this model: [^\n]*Conv2D[^\n]*$"
    with pytest.raises(InputError, match=expected):
        make_runtime(run, tmp_path / "worker.log")


@pytest.fixture
def _secure_sums(monkeypatch):
    """Processes whose aggregation the local runtime refuses."""

    def secure(*arguments):
        del arguments

        @tff.federated_computation
        def initialize():
            return tff.federated_value(np.int32(0), tff.SERVER)

        @tff.federated_computation(
            tff.FederatedType(np.int32, tff.SERVER), tff.FederatedType(np.int32, tff.CLIENTS)
        )
        def next_fn(state, clients):
            return state, tff.federated_secure_sum_bitwidth(clients, 8)

        return tff.templates.IterativeProcess(initialize, next_fn)

    monkeypatch.setattr(local, "build_process", secure)
    monkeypatch.setattr(local, "build_process_over_results", secure)


@pytest.mark.usefixtures("_secure_sums")
@pytest.mark.parametrize("clients_per_block", [None, pytest.param(1, marks=pytest.mark.slow)])
def test_auto_falls_back_to_native_and_says_why(dense_run, clients_per_block, tmp_path):
    run = _asking_for(dense_run, "auto", clients_per_block)
    runtime = make_runtime(run, tmp_path / "worker.log")
    assert isinstance(runtime, Native)
    assert runtime.description.startswith(
        "native, on CPUs (local cannot run this process: the aggregation asks for secure sums"
    )
    expected = "^process: the aggregation asks for secure sums.*WithPlainSums"
    with runtime.session(), pytest.raises(InputError, match=expected):
        runtime.process.next(runtime.process.initialize(), [1])


def test_a_runtime_that_there_is_not_is_refused(dense_run, tmp_path):
    expected = r"^config: key `runtime`: unknown 'natve'; did you mean 'native'\?$"
    with pytest.raises(InputError, match=expected):
        make_runtime(_asking_for(dense_run, "natve"), tmp_path / "worker.log")


def test_another_runtime_is_one_record(dense_run, tmp_path, request):
    made = []

    def make(run, worker_log, why):
        made.append((run.config.runtime, worker_log.name, why))
        raise CannotRunError("it is a toy")

    RUNTIMES.register(RuntimeKind("toy", make, takes_blocks=False))
    request.addfinalizer(lambda: RUNTIMES.remove("toy"))
    with pytest.raises(
        InputError, match=r"^runtime: 'toy' cannot run this process: it is a toy; 'a"
    ):
        make_runtime(_asking_for(dense_run, "toy"), tmp_path / "worker.log")
    with pytest.raises(InputError, match=r"'jax' or 'ray'; leave it out for 'toy'$"):
        make_runtime(_asking_for(dense_run, "toy", 2), tmp_path / "worker.log")
    assert made == [("toy", "worker.log", "asked for")]


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
    initial = as_vector(dense_run.task.classifier.initial_weights)
    moved, expected = (as_vector(model_weights(o.state)) - initial for o in (ours, theirs))
    assert np.linalg.norm(moved - expected) < 1e-5 * np.linalg.norm(expected)
    tf.nest.assert_same_structure(ours.metrics, theirs.metrics)
    tf.nest.assert_same_structure(ours.state, theirs.state)
    assert ours.metrics["client_work"]["train"]["loss"] == pytest.approx(
        theirs.metrics["client_work"]["train"]["loss"], rel=1e-5
    )
