"""The attackers who see noised aggregates: of every round, or of a window of rounds."""

import dataclasses

import msgspec
import numpy as np
import pytest

from fl_audit.config import Audit
from fl_audit.formats.run_folder import RunFolder
from fl_audit.training.attackers import SeenRound, make_attackers
from fl_audit.training.run.prepare import PreparedRun

pytestmark = pytest.mark.tff

ROUNDS = 3


def audited(run: PreparedRun, **audit: object) -> PreparedRun:
    """The run, audited for something else."""
    return dataclasses.replace(
        run, config=msgspec.structs.replace(run.config, audit=Audit(**audit))
    )


def scores(run: PreparedRun, folder: RunFolder, aggregates: np.ndarray) -> dict:
    attackers = make_attackers(run, folder, 0)
    weights = run.task.classifier.initial_weights
    for index, aggregate in enumerate(aggregates):
        for attacker in attackers:
            attacker.see_round(SeenRound(index, weights, aggregate, weights, clip_norm=1.0))
    return {name: s for a in attackers for name, s in a.scores(weights).items()}


@pytest.fixture(scope="module")
def aggregates(dense_run: PreparedRun) -> np.ndarray:
    dim = dense_run.task.classifier.dim
    return np.random.default_rng(1).normal(size=(ROUNDS, dim)).astype(np.float32)


@pytest.fixture(scope="module")
def cosines(dense_run: PreparedRun, aggregates: np.ndarray) -> np.ndarray:
    return np.stack([dense_run.family.cosines(aggregate) for aggregate in aggregates])


def test_every_round_and_a_window_share_a_log(dense_run, tmp_path, aggregates, cosines):
    window = {"window_first_round": 2, "window_last_round": 3}
    run = audited(dense_run, threat_models=("all_iterates", "window"), **window)
    found = scores(run, RunFolder(tmp_path), aggregates)
    assert list(found) == ["max", "sum", "window_max", "window_sum"]
    np.testing.assert_allclose(found["max"], cosines.max(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found["sum"], cosines.sum(axis=0), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(found["window_max"], cosines[1:].max(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found["window_sum"], cosines[1:].sum(axis=0), rtol=1e-5, atol=1e-8)


def test_who_sees_one_round_logs_no_other(dense_run, tmp_path, aggregates, cosines):
    run = audited(dense_run, threat_models=("window",), window_first_round=2, window_last_round=2)
    found = scores(run, RunFolder(tmp_path), aggregates)
    assert list(found) == ["window_max", "window_sum"]
    np.testing.assert_allclose(found["window_max"], cosines[1], rtol=1e-6)
    np.testing.assert_array_equal(found["window_max"], found["window_sum"])
    logged = np.load(RunFolder(tmp_path).round_cosines)
    assert np.isfinite(logged).all(axis=1).tolist() == [False, True, False]


def test_who_sees_models_alone_logs_no_round(dense_run, tmp_path, aggregates):
    run = audited(dense_run, threat_models=("final",))
    assert list(scores(run, RunFolder(tmp_path), aggregates)) == ["final"]
    assert list(tmp_path.iterdir()) == []
