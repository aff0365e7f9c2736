"""Federated runs with some of the clients: the run's own process, with seeds of their own."""

import numpy as np
import pytest

from fl_audit.config import Bernoulli, Canaries, Config, FedAvg, GaussianFixed
from fl_audit.engines.prepare import prepare
from fl_audit.engines.tff.canary_process import model_weights
from fl_audit.engines.tff.shadow_models import FederatedRuns
from fl_audit.membership.outputs import loss, margin_of_loss
from fl_audit.participation import Cohort
from fl_audit.tasks.task_kinds import WineTask

pytestmark = pytest.mark.tff

CLIENTS = 6
NO_CANARIES = np.zeros(0, np.int64)


def prepared(**changes):
    fields = {
        "task": WineTask(num_clients=CLIENTS),
        "mechanism": GaussianFixed(noise_multiplier=0.0, clip_norm=0.5),
        "participation": Bernoulli(rounds=3, clients_per_round=4),
        "canaries": Canaries(count=0),
        "client": FedAvg(learning_rate=0.2, epochs=2),
        "seed": 3,
    }
    return prepare(Config(**fields | changes))


@pytest.fixture(scope="module")
def noised():
    return FederatedRuns(
        prepared(mechanism=GaussianFixed(noise_multiplier=0.5, clip_norm=0.5)), "same"
    )


@pytest.fixture(scope="module")
def plain():
    return FederatedRuns(prepared(), "same")


@pytest.mark.slow
def test_a_run_is_the_configs_own_without_the_clients_that_are_out(plain):
    """The rounds of `fl-audit run` with its process, the absent clients taken out of cohorts."""
    mask = np.arange(CLIENTS) != 2
    weights = plain._trained(mask, 7)
    run, runtime = plain._seeded(7), plain._runtime
    with runtime.session():
        state = runtime.process.initialize()
        for index in range(3):
            clients = [c for c in run.schedule.clients(index) if c != 2]
            cohort = Cohort(np.array(clients, np.int64), NO_CANARIES)
            data = run.cohort_data.round_data(cohort, index)
            state = runtime.process.next(state, runtime.participants(state, data)).state
    for found, expected in zip(weights, model_weights(state), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    cohorts = [tuple(plain._seeded(n).schedule.clients(r)) for n in (7, 8) for r in range(3)]
    assert cohorts[:3] != cohorts[3:]


@pytest.mark.slow
def test_outputs_are_those_of_each_clients_examples(plain):
    outputs = plain._outputs(np.ones(CLIENTS, np.bool_), 1)
    matrix, bias = plain._trained(np.ones(CLIENTS, np.bool_), 1)
    population = prepared().task.population
    expected = []
    for client in range(CLIENTS):
        examples = population.examples(client)
        expected.append(np.mean(loss(examples.inputs @ matrix + bias, examples.labels)))
    np.testing.assert_allclose(outputs["losses"], expected, rtol=1e-4)
    np.testing.assert_allclose(outputs["margins"], margin_of_loss(expected), rtol=1e-3)


def test_noise_is_a_runs_own_and_new_in_each_round(noised):
    nobody = np.zeros(CLIENTS, np.bool_)
    start, last = noised._run.task.classifier.initial_weights[0], []
    for number in (1, 1, 2):
        last.append((noised._trained(nobody, number)[0] - start).ravel())
    np.testing.assert_array_equal(last[0], last[1])
    # 39 weights, each of three rounds' noise 0.5 * 0.5 / 4: χ² at 1e-7 either side.
    deviation = 0.5 * 0.5 / 4 * np.sqrt(3)
    for noise in (last[0], last[2]):
        assert 8 < np.sum((noise / deviation) ** 2) < 110
    assert abs(np.corrcoef(last[0], last[2])[0, 1]) < 0.75


def test_random_initial_weights_are_a_runs_own(noised, monkeypatch):
    monkeypatch.setattr(noised, "_start", "random")
    one, again, other = (model_weights(noised._initial_state(number))[0] for number in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
