"""Canaries that hold examples train as clients do, under every runtime."""

import dataclasses

import numpy as np
import pytest

from fl_audit.config import (
    Config,
    DigitsTask,
    EveryRound,
    ExampleCanaries,
    FedAvg,
    GaussianFixed,
    ServerSgd,
)
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.prepare import prepare
from fl_audit.engines.runtimes import make_runtime
from tests.engines.jax.conftest import with_keys

pytestmark = pytest.mark.tff

# Float32 rounds at 6e-8; below 3e-7 came out in `test_engines_agree.py`.
SAME = 1e-5


@pytest.fixture(scope="module")
def run():
    """A round of four clients and the included canaries, two or three examples each."""
    return prepare(
        Config(
            task=DigitsTask(num_clients=600, hidden=(8,)),
            mechanism=GaussianFixed(noise_multiplier=0.0, clip_norm=0.5),
            participation=EveryRound(rounds=2),
            canaries=ExampleCanaries(source="mislabelled", count=596, max_per_round=400),
            client=FedAvg(learning_rate=0.3, batch_size=2),
            server=ServerSgd(learning_rate=0.9),
            seed=1,
        )
    )


def _data(run):
    """Of the second round; twelve of the canaries are enough."""
    cohort_data = run.cohort_data
    cohort = run.schedule.cohort(1)
    return cohort_data.round_data(dataclasses.replace(cohort, canaries=cohort.canaries[:12]), 1)


def _runtime(run, name, clients_per_block, folder):
    asked = with_keys(run, runtime=name, clients_per_block=clients_per_block)
    return make_runtime(asked, folder / "worker.log")


def _aggregate(runtime, data):
    with runtime.session():
        return runtime.run_round(runtime.begin(), data, 0).seen.aggregate


def test_a_round_holds_clients_and_canaries(run):
    data = _data(run)
    assert len(data.clients) == 4
    assert len(data.canaries) == len(data.canary_examples) == 12
    assert run.included[data.canaries].all()
    assert len(data.trained) == 16
    assert len(data.vectors) == 0
    for canary, examples in zip(data.canaries, data.canary_examples, strict=True):
        held = run.canary_examples[canary]
        assert sorted(examples.labels) == sorted(held.labels)
    vectors = RoundData(data.clients, data.canaries)
    assert len(vectors.trained) == 4
    np.testing.assert_array_equal(vectors.vectors, data.canaries)


def test_the_order_of_a_canarys_examples_changes_from_round_to_round(run):
    data = run.cohort_data
    canary = int(np.argmax([len(set(c.labels.tolist())) for c in run.canary_examples]))
    orders = {tuple(data.of_canary(canary, r).labels) for r in range(30)}
    assert len(orders) > 1
    again = run.cohort_data
    np.testing.assert_array_equal(
        data.of_canary(canary, 4).inputs, again.of_canary(canary, 4).inputs
    )


@pytest.mark.slow
def test_every_runtime_trains_them_as_clients(run, tmp_path):
    data = _data(run)
    one_by_one = _runtime(run, "local", 1, tmp_path)
    # The same people, all of them clients: what a canary that holds examples has to equal.
    nobody = np.zeros(0, np.int64)
    expected = _aggregate(one_by_one, RoundData(data.trained, nobody))
    without = _aggregate(one_by_one, RoundData(data.clients, nobody))
    assert np.linalg.norm(expected - without) > 0.1 * np.linalg.norm(expected)
    others = [_runtime(run, "local", 5, tmp_path), _runtime(run, "native", None, tmp_path)]
    for runtime in (one_by_one, *others):
        distance = np.linalg.norm(_aggregate(runtime, data) - expected)
        assert distance < SAME * np.linalg.norm(expected), runtime.description
