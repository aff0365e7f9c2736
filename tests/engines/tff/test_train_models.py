"""Blocks of models in their files: killed and started again, nothing twice, the same numbers."""

import numpy as np
import pytest

from fl_audit.engines.shadow_recipe import Recipe
from fl_audit.engines.tff.shadow_models import ModelJob, ModelOutputs, train_models
from fl_audit.errors import InputError
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.tf.networks import as_classifier

TRAINING = np.random.default_rng(1).random((7, 20)) < 0.5


class StandIn:
    """Logits that tell a model's initial weights, order of points and noise key, untrained."""

    def __init__(self, classifier, recipe, data):
        del classifier, data
        self.rate = recipe.learning_rate

    def train(self, initial, batches, keys):
        numbers = sum(array.reshape(len(keys), -1).sum(axis=1) for array in initial)
        orders = [batch[batch >= 0] for batch in batches]
        return [numbers + [order @ np.arange(len(order)) for order in orders] + keys % 1000]

    def logits(self, weights, inputs):
        scale = np.inf if self.rate > 1e20 else 1.0
        turns = np.arange(1, 3 * len(inputs) + 1).reshape(-1, 3)
        return scale * np.sin(weights[0][:, None, None] * turns)


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr("fl_audit.engines.tff.shadow_models.ModelBlockTrainer", StandIn)


def job(**changes):
    rng = np.random.default_rng(0)
    points = Examples(
        rng.normal(size=(20, 4)).astype(np.float32), rng.integers(0, 3, 20).astype(np.int32)
    )
    fields = {
        "classifier": as_classifier(dense_classifier([4, 6, 3], 0, "")),
        "identity": "toy",
        "points": points,
        "recipe": Recipe(3, 5, 0.1, 0.9),
        "seed": 5,
    }
    return ModelJob(**fields | changes)


def trained(of, training, *rest, new=None) -> ModelOutputs:
    """Trains models; `new` gets each block's number of models, and how many were trained now."""
    first, folder, models_per_block = rest
    return train_models(
        of,
        training,
        first,
        folder=folder,
        models_per_block=models_per_block,
        after_block=lambda *block: None if new is None else new.append(block),
    )


class KilledError(Exception):
    pass


@pytest.mark.usefixtures("stand_in")
def test_a_killed_call_goes_on_where_it_was(tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    expected = trained(job(), TRAINING, 100, whole, 3)

    sizes, original = [], StandIn.train

    def counted(self, initial, batches, keys):
        sizes.append(len(batches))
        if len(sizes) == 2:
            raise KilledError
        return original(self, initial, batches, keys)

    monkeypatch.setattr(StandIn, "train", counted)
    with pytest.raises(KilledError):
        trained(job(), TRAINING, 100, parts, 3)
    progress = []
    found = trained(job(), TRAINING, 100, parts, 3, new=progress)
    assert sizes == [3, 3, 3, 1]  # the first block once, the killed one again
    assert progress == [(3, 0), (3, 3), (1, 1)]
    np.testing.assert_array_equal(found.margins, expected.margins)
    np.testing.assert_array_equal(found.correct, expected.correct)
    assert sorted(p.name for p in parts.iterdir()) == sorted(p.name for p in whole.iterdir())
    # A model's number decides, and not its block.
    other = trained(job(), TRAINING[2:], 102, parts, 2)
    np.testing.assert_allclose(other.margins, expected.margins[2:], atol=1e-4)
    assert len(np.unique(expected.margins[:, 0])) == len(TRAINING)


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    "changes", [{"seed": 6}, {"identity": "other"}, {"recipe": Recipe(3, 5, 0.2, 0.9)}]
)
def test_another_job_shares_no_file(tmp_path, changes):
    new = []
    trained(job(), TRAINING[:1], 0, tmp_path, 3)
    trained(job(**changes), TRAINING[:1], 0, tmp_path, 3, new=new)
    trained(job(), ~TRAINING[:1], 0, tmp_path, 3, new=new)
    trained(job(), TRAINING[:1], 1, tmp_path, 3, new=new)
    assert new == [(1, 1)] * 3
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.slow
def test_models_with_the_same_initial_weights_differ_by_order_alone(tmp_path):
    same = Recipe(1, 20, 0.1, initial_weights="same")
    full = np.ones((2, 20), np.bool_)
    found = trained(job(recipe=same), full, 0, tmp_path, 2)
    np.testing.assert_allclose(found.margins[0], found.margins[1], atol=1e-5)
    own = trained(job(recipe=Recipe(1, 20, 0.1)), full, 0, tmp_path, 2)
    assert not np.allclose(own.margins[0], own.margins[1], atol=1e-2)


@pytest.mark.usefixtures("stand_in")
def test_what_cannot_be_trained_or_read_is_refused(tmp_path):
    with pytest.raises(InputError, match="at least one training point"):
        trained(job(), np.zeros((1, 20), np.bool_), 0, tmp_path, 1)
    with pytest.raises(InputError, match="diverged"):
        trained(job(recipe=Recipe(30, 5, 1e30)), TRAINING[:1], 0, tmp_path, 1)
    trained(job(), TRAINING[:1], 0, tmp_path, 1)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match="is not a file of trained models"):
        trained(job(), TRAINING[:1], 0, tmp_path, 1)
    with path.open("wb") as file:
        np.savez(file, margins=np.zeros((2, 2)))
    with pytest.raises(InputError, match="is damaged; remove the file"):
        trained(job(), TRAINING[:1], 0, tmp_path, 1)
