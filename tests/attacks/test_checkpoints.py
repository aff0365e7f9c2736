"""The attacker who sees a model now and then: its scores, and that a crash changes none."""

from pathlib import Path

import numpy as np
import pytest

from fl_audit.attacks.attacker import SeenRound
from fl_audit.attacks.checkpoints import CheckpointAttacker
from fl_audit.canaries.families import GaussianFamily
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from tests.attacks.attacked import attacked

ROUNDS = 11
DIM = 30
FAMILY = GaussianFamily(seed=3, num_canaries=12, dim=DIM)


def attacker_of(folder: RunFolder, every: int, completed: int) -> CheckpointAttacker:
    """Of eleven rounds."""
    models = {"threat_models": ("checkpoints",), "release_every": every}
    return CheckpointAttacker.from_context(
        attacked(folder.path, FAMILY, ROUNDS, completed, **models)
    )


def trajectory(seed: int, start: np.ndarray) -> np.ndarray:
    """Models after rounds 0 to 11, float32 of shape (12, 30); the first is `start`'s."""
    moves = np.random.default_rng(seed).normal(size=(ROUNDS, DIM)).astype(np.float32)
    return np.concatenate([start[None], start + np.cumsum(moves, axis=0)])


def seen(models: np.ndarray, index: int) -> SeenRound:
    before, after = models[index], models[index + 1]
    return SeenRound(index, before, models[index + 1] - models[index], after, clip_norm=1.0)


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return np.stack([FAMILY.vector(canary) for canary in range(FAMILY.num_canaries)])


def brute_force(vectors: np.ndarray, models: np.ndarray, releases: list[int]) -> dict:
    """Cosines of every canary with every difference."""
    steps = np.diff(models[releases].astype(np.float64), axis=0)
    lengths = np.outer(np.linalg.norm(steps, axis=1), np.linalg.norm(vectors, axis=1))
    cosines = steps @ vectors.T / lengths
    return {"checkpoints_max": cosines.max(axis=0), "checkpoints_sum": cosines.sum(axis=0)}


@pytest.mark.parametrize(
    ("every", "releases"),
    [
        (1, list(range(12))),
        (3, [0, 3, 6, 9, 11]),
        (5, [0, 5, 10, 11]),
        (10, [0, 10, 11]),
    ],
)
def test_scores_are_the_cosines_with_differences_of_released_models(
    vectors, tmp_path, every, releases
):
    models = trajectory(1, np.full(DIM, 0.5, np.float32))
    attacker = attacker_of(RunFolder(tmp_path), every, 0)
    for index in range(ROUNDS):
        attacker.see_round(seen(models, index))
    found = attacker.scores(models[-1])
    expected = brute_force(vectors, models, releases)
    assert found.keys() == expected.keys()
    for name, scores in expected.items():
        np.testing.assert_allclose(found[name], scores, atol=1e-6)  # in float32


def resumed_until(folder, every, save_every, models, *, start, stop, crash_in_flush):
    """One process: from a checkpoint to a kill. Returns the rounds of the last checkpoint saved.

    Args:
      start: rounds that the checkpoint on disk has.
      stop: the round after which it is killed.
      crash_in_flush: whether the kill comes between the flush and the checkpoint of that round.
    """
    attacker = attacker_of(folder, every, start)
    saved = start
    for index in range(start, stop):
        attacker.see_round(seen(models, index))
        if (index + 1) % save_every == 0 or index + 1 == ROUNDS:
            attacker.flush()
            if not (crash_in_flush and index + 1 == stop):
                saved = index + 1
        assert len(folder.released_models()) <= 2
    return saved


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("every", "save_every"), [(1, 3), (3, 2), (5, 3), (7, 4), (10, 6)])
def test_a_crash_changes_no_score(vectors, tmp_path, every, save_every):
    """Killed wherever it may be, twice, with other noise after the first kill."""
    start = np.full(DIM, 0.5, np.float32)
    releases = [*range(0, ROUNDS, every), ROUNDS]
    for first_kill in range(1, ROUNDS):
        for crash_in_flush in (False, True):
            path = tmp_path / f"{first_kill} {crash_in_flush}"
            path.mkdir()
            folder, models = RunFolder(path), trajectory(1, start)
            common = {"every": every, "save_every": save_every}
            saved = resumed_until(
                folder, models=models, start=0, stop=first_kill,
                crash_in_flush=crash_in_flush, **common,
            )  # fmt: skip
            # Noise is drawn anew: what was seen and not saved never comes again.
            models = np.concatenate([models[:saved], trajectory(2, models[saved])])[: ROUNDS + 1]
            saved = resumed_until(
                folder, models=models, start=saved, stop=min(saved + 4, ROUNDS),
                crash_in_flush=crash_in_flush, **common,
            )  # fmt: skip
            resumed_until(
                folder, models=models, start=saved, stop=ROUNDS, crash_in_flush=False, **common
            )
            found = attacker_of(folder, every, ROUNDS).scores(models[-1])
            for name, scores in brute_force(vectors, models, releases).items():
                np.testing.assert_allclose(found[name], scores, atol=1e-6)
            assert folder.released_models() == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (Path.unlink, "is not a released model"),
        (lambda path: path.write_bytes(b"..."), "is not a released model"),
        (lambda path: np.save(path, np.zeros(3, np.float32)), r"must be float32 of shape \(30,\)"),
        (lambda path: np.save(path, np.zeros(DIM)), r"must be float32 of shape \(30,\)"),
    ],
)
def test_what_it_remembered_is_checked(tmp_path, damage, message):
    models, folder = trajectory(1, np.zeros(DIM, np.float32)), RunFolder(tmp_path)
    attacker = attacker_of(folder, 5, 0)
    for index in range(7):
        attacker.see_round(seen(models, index))
    attacker.flush()
    (model,) = folder.released_models()
    assert model.name == "released_model_000005.npy"
    np.testing.assert_array_equal(np.load(model), models[5])
    damage(model)
    with pytest.raises(InputError, match=message):
        attacker_of(folder, 5, 7)
