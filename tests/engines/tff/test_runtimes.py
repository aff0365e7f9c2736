"""Which runtime a config gets, and what it says where it cannot have the one it asks for."""

import numpy as np
import pytest
import tensorflow_federated as tff

from fl_audit.engines.runtimes import RUNTIMES, CannotRunError, RuntimeKind, make_runtime
from fl_audit.engines.tff import local, trained_blocks
from fl_audit.engines.tff.local import Local
from fl_audit.engines.tff.native import Native
from fl_audit.errors import InputError
from tests.engines.jax.conftest import with_keys

pytestmark = pytest.mark.tff


def _asking_for(run, name, clients_per_block=None):
    return with_keys(run, runtime=name, clients_per_block=clients_per_block)


@pytest.fixture
def plain_process(monkeypatch):
    """A process of one sum in place of a run's, without blocks that are traced."""
    _replace_processes(monkeypatch, tff.federated_sum)


@pytest.fixture
def secure_sums(monkeypatch):
    """A process whose aggregation the local runtime refuses in place of a run's."""
    _replace_processes(monkeypatch, lambda clients: tff.federated_secure_sum_bitwidth(clients, 8))


def _replace_processes(monkeypatch, aggregate):
    @tff.federated_computation
    def initialize():
        return tff.federated_value(np.int32(0), tff.SERVER)

    @tff.federated_computation(
        tff.FederatedType(np.int32, tff.SERVER), tff.FederatedType(np.int32, tff.CLIENTS)
    )
    def next_fn(state, clients):
        return state, aggregate(clients)

    process = tff.templates.IterativeProcess(initialize, next_fn)
    monkeypatch.setattr(local, "build_process", lambda *_: process)
    monkeypatch.setattr(local, "build_process_over_results", lambda *_: process)
    monkeypatch.setattr(local, "_device", lambda: "CPU")
    monkeypatch.setattr(trained_blocks, "block_trainer", lambda run: None)
    monkeypatch.setattr(trained_blocks, "default_clients_per_block", lambda dim: 3)


@pytest.mark.usefixtures("plain_process")
def test_a_process_that_can_runs_locally_in_blocks_of_the_default(dense_run, tmp_path):
    runtime = make_runtime(_asking_for(dense_run, "auto"), tmp_path / "worker.log")
    assert isinstance(runtime, Local)
    assert runtime.description == "local, on the CPU, 3 clients at once"
    assert runtime.rounds_per_session is None
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("plain_process")
def test_native_is_what_was_asked_for(dense_run, tmp_path):
    runtime = make_runtime(_asking_for(dense_run, "native"), tmp_path / "worker.log")
    assert isinstance(runtime, Native)
    assert runtime.description == "native, on CPUs (asked for)"
    assert runtime.rounds_per_session


@pytest.mark.usefixtures("secure_sums")
def test_auto_falls_back_to_native_and_says_why(dense_run, tmp_path):
    runtime = make_runtime(_asking_for(dense_run, "auto"), tmp_path / "worker.log")
    assert isinstance(runtime, Native)
    assert runtime.description.startswith(
        "native, on CPUs (local cannot run this process: the aggregation asks for secure sums"
    )
    expected = "^process: the aggregation asks for secure sums.*WithPlainSums"
    with runtime.session(), pytest.raises(InputError, match=expected):
        runtime.process.next(runtime.process.initialize(), [1])


@pytest.mark.parametrize(
    ("model", "asked", "message"),
    [
        ("dense", ("native", 1), r"clients_per_block: is for runtime 'local' or 'jax' or 'ray'; "),
        ("dense", ("native", 5), r"clients_per_block: is for runtime 'local' or 'jax' or 'ray'; "),
        ("convolution", ("auto", 4), r"clients_per_block: must be 1 for this model: .*Conv2D"),
        ("dense", ("natve", None), r"config: key `runtime`: unknown 'natve'; did you mean 'nat"),
    ],
)
def test_what_cannot_be_is_refused(model, asked, message, request, tmp_path):
    run = _asking_for(request.getfixturevalue(f"{model}_run"), *asked)
    with pytest.raises(InputError, match=rf"^{message}[^\n]*$"):
        make_runtime(run, tmp_path / "worker.log")


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
