"""A task of one's own whose functions are in JAX."""

import jax
import numpy as np
import pytest

from fl_audit.config import FedAvg, ServerSgd
from fl_audit.engines.jax.jax_engine import JaxEngine
from fl_audit.engines.prepare import prepare
from fl_audit.errors import InputError
from fl_audit.mechanisms.independent import GaussianFixed
from fl_audit.tasks import load_task
from fl_audit.tasks.task_kinds import PythonTask
from tests.engines.jax.conftest import small_config

MODULE = """
import jax.numpy as jnp
import numpy as np
from fl_audit.tasks.own_task import OwnTask

def make(seed, **changed):
    def data(client, count=None):
        random = np.random.default_rng([1, int(client)])
        inputs = random.normal(size=(count or 1 + int(client) % 7, 3))
        return inputs, inputs @ [1.0, -2.0, 0.5] + 3

    parts = dict(
        initial_weights=[np.full((3, 1), 0.1), np.zeros(1)],
        predict=lambda weights, inputs: (inputs @ weights[0] + weights[1])[:, 0],
        loss=lambda outputs, labels: (outputs - labels) ** 2,
        correct=lambda outputs, labels: jnp.abs(outputs - labels) < 0.5,
        client_ids=[str(client) for client in range(30)],
        client_data=data,
        held_out=data("1000", 50),
        framework="jax",
    )
    return OwnTask(**{**parts, **{key: eval(value) for key, value in changed.items()}})
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own_jax_module.py").write_text(MODULE)
    return lambda **options: PythonTask(
        module="own_jax_module:make", folder=str(tmp_path), options=options
    )


def test_a_round_is_that_of_the_functions_written_out(own):
    """Squared error of a linear model in NumPy, batch by batch, for clients of 1 to 7 examples."""
    clip = 0.5
    config = small_config(
        task=own(),
        mechanism=GaussianFixed(noise_multiplier=0.0, clip_norm=clip),
        client=FedAvg(learning_rate=0.05, batch_size=2),
        server=ServerSgd(),
    )
    run = prepare(config)
    engine = JaxEngine(run, jax.devices()[:1])
    data = engine.reader(run)(run.schedule.cohort(0), 0)
    seen = engine.run_round(engine.begin(), data, 0).seen
    total = np.zeros(4)
    for client in data.clients:
        weights = np.append(np.full(3, 0.1), 0.0)
        for start in range(0, len(client), 2):
            batch = client.take(np.arange(start, min(start + 2, len(client))))
            inputs = np.c_[batch.inputs, np.ones(len(batch))]
            error = inputs @ weights - batch.labels
            weights = weights - 0.05 * 2 * inputs.T @ error / len(error)
        update = weights - np.append(np.full(3, 0.1), 0.0)
        total += update * min(1, clip / np.linalg.norm(update))
    total += sum(clip * run.family.vector(int(canary)) for canary in data.canaries)
    np.testing.assert_allclose(seen.aggregate, total / run.schedule.expected_cohort, atol=1e-6)
    held_out = run.task.held_out
    expected = np.mean(np.abs(held_out.inputs.sum(axis=1) * 0.1 - held_out.labels) < 0.5)
    accuracy = engine.evaluator(run)(engine.weights(engine.begin()))
    assert accuracy == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "lambda o, l: jnp.float32(1)"}, "loss must give one number an example"),
        ({"log_odds": "lambda o, l: o[:, None]"}, "log_odds must give one number an example"),
        ({"predict": "lambda w, x: x @ x"}, "own_jax_module:make fails"),
    ],
)
def test_a_bad_task_is_one_line(own, options, message):
    with pytest.raises(InputError, match=message):
        load_task(own(**options), 1)
