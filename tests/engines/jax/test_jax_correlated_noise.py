"""Correlated noise in JAX: its covariance over rounds, its state, and runs with it."""

import json

import jax
import numpy as np
import pytest

from fl_audit import load_config, start_run
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.config import GaussianFixed, MatrixFactorisation, Shuffle, TreeAggregation
from fl_audit.engines.jax.jax_engine import JaxEngine
from fl_audit.engines.jax.noise_processes import MatrixNoise, TreeNoise, keys_of
from fl_audit.mechanisms.matrix import strategy_of, stream_of
from fl_audit.run.folder_and_checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from tests.engines.jax.conftest import small_run, train
from tests.small_configs import TINY_RUN

ROUNDS, DIM = 11, 40_000

STRATEGIES = {
    "sqrt": {},
    "banded_sqrt": {"bands": 3},
    "banded_inverse_sqrt": {"bands": 3},
    "blt": {"buffers": 2},
}

MECHANISMS = {
    "tree": TreeAggregation(noise_multiplier=0.5, clip_norm=0.3, restart_every=3),
    "banded_sqrt": MatrixFactorisation(
        noise_multiplier=0.5, clip_norm=0.3, strategy="banded_sqrt", bands=3
    ),
}


def run_of(mechanism):
    """Five rounds of few clients, as a replay sums the smallest cohort many times."""
    return small_run(mechanism=mechanism, participation=Shuffle(rounds=5, clients_per_round=3))


def matrix(strategy):
    return MatrixFactorisation(
        noise_multiplier=1.0, clip_norm=1.0, strategy=strategy, **STRATEGIES[strategy]
    )


def noise_of(process):
    """The noise of rounds on two variables side by side, float64 of shape (rounds, DIM)."""
    like = [np.zeros((DIM // 4, 2), np.float32), np.zeros(DIM // 2, np.float32)]
    state = process.begin(like, keys_of(np.random.default_rng(1))(0))
    following = jax.jit(lambda s: process.next(s, process.key_of_round(s, None), like))
    rows = []
    for _ in range(ROUNDS):
        noise, state = following(state)
        rows.append(np.concatenate([np.ravel(part) for part in noise]))
    return np.array(rows, np.float64)


def assert_white(rows):
    """A variance of n normals has standard error (2 / n)^(1/2), a covariance of two n^(-1/2).

    Keys are fixed; with others, six standard errors 66 times in 8 tests would fail once in 1e6.
    """
    dim = rows.shape[1]
    covariance = rows @ rows.T / dim - np.eye(len(rows))
    assert np.abs(np.diag(covariance)).max() < 6 * (2 / dim) ** 0.5
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 6 * dim**-0.5
    # Both variables, and neighbours within them, have noise of their own.
    for row in rows:
        assert abs(row[: dim // 2] @ row[dim // 2 :]) < 6 * (dim / 2) ** 0.5
        assert abs(row[1:] @ row[:-1]) < 6 * dim**0.5


@pytest.mark.parametrize(
    "strategy",
    [pytest.param(name, marks=[pytest.mark.slow] if name == "sqrt" else []) for name in STRATEGIES],
)
def test_noise_whitened_by_its_matrix_is_white(strategy):
    table = matrix(strategy)
    whitening = strategy_of(table, ROUNDS)
    dense = np.stack([whitening.times(row[None])[0] for row in np.eye(ROUNDS)], axis=1)
    assert_white(dense @ noise_of(MatrixNoise(stream_of(table, ROUNDS))))


@pytest.mark.parametrize(
    "restart_every", [4, *(pytest.param(rounds, marks=pytest.mark.slow) for rounds in (None, 1))]
)
def test_noise_whitened_by_its_trees_is_white(restart_every):
    """The trees' own precision matrix, which attackers weigh rounds by, is that of the noise."""
    trees = Trees(ROUNDS, restart_every)
    precision = trees.weights(np.eye(ROUNDS))
    rows = noise_of(TreeNoise(trees.period))
    assert_white(np.linalg.cholesky(precision).T @ rows)


@pytest.fixture(
    scope="module", params=["banded_sqrt", pytest.param("tree", marks=pytest.mark.slow)]
)
def made(request):
    """A run, and an engine on one device, which is quicker to compile."""
    run = run_of(MECHANISMS[request.param])
    return run, JaxEngine(run, jax.devices()[:1])


def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(made, tmp_path):
    run, engine = made
    rounds, _ = train(run, engine)
    saved = Checkpoint(2, engine.leaves(rounds[1].state))
    save_checkpoint(tmp_path / "checkpoint.npz", saved)
    begun = engine.begin()  # draws another key, as another process does
    leaves = load_checkpoint(tmp_path / "checkpoint.npz", engine.leaves(begun)).leaves
    state, read = engine.from_leaves(begun, leaves), engine.reader(run)
    for index in (2, 3, 4):
        trained = engine.run_round(state, read(run.schedule.cohort(index), index), index)
        state = trained.state
        np.testing.assert_array_equal(trained.seen.aggregate, rounds[index].seen.aggregate)
        np.testing.assert_array_equal(trained.seen.after, rounds[index].seen.after)
    other = engine.run_round(begun, read(run.schedule.cohort(0), 0), 0)
    assert np.abs(other.seen.aggregate - rounds[0].seen.aggregate).max() > 1e-3


def test_the_replay_knows_the_noise(made):
    run, engine = made
    findings = engine.replay(run)
    assert not any(finding.failed for finding in findings), "\n".join(map(str, findings))
    assert "noise_rounds" in {finding.name for finding in findings if finding.is_conclusive}


def test_the_replay_finds_fresh_noise_in_place_of_correlated():
    run = run_of(MECHANISMS["banded_sqrt"])
    fresh = run_of(GaussianFixed(noise_multiplier=0.5, clip_norm=0.3))
    engine = JaxEngine(fresh, jax.devices()[:1])
    assert "noise_rounds" in {finding.name for finding in engine.replay(run) if finding.failed}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["matrix_factorisation", "tree_aggregation"])
def test_a_whole_run_passes_its_checks(mechanism, tmp_path):
    keys = 'strategy = "blt"\nbuffers = 2\n' if mechanism == "matrix_factorisation" else ""
    text = TINY_RUN.replace('"gaussian_fixed"', f'"{mechanism}"')
    text = text.replace("noise_multiplier = 0.0", f"{keys}noise_multiplier = 0.5")
    path = tmp_path / "config.toml"
    path.write_text('runtime = "jax"\nseed = 1\n' + text)
    start_run(load_config(path), tmp_path / "run")
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["checks"]["passed"]
    assert len(report["checks"]["results"]) >= 4
    assert report["analytical_epsilon"] > 0
    assert "own_rounds" in report["statistics"]
