import collections

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.training.run.checkpoint import Checkpoint, load_checkpoint, save_checkpoint


def _state(scale: float):
    return collections.OrderedDict(
        weights=[np.full((2, 3), scale, np.float32), np.zeros(0, np.float32)],
        clip=np.float32(scale),
        event=(b"dp_accounting.dp_event", np.bool_(True)),
        rounds=np.int32(7),
    )


def test_a_checkpoint_gives_back_the_same_state(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, Checkpoint(12, _state(0.1)))
    loaded = load_checkpoint(path, _state(0.0))
    assert loaded.completed_rounds == 12
    expected = _state(0.1)
    np.testing.assert_array_equal(loaded.state["weights"][0], expected["weights"][0])
    assert loaded.state["clip"] == expected["clip"]
    assert loaded.state["clip"].dtype == np.float32
    assert loaded.state["event"] == expected["event"]
    assert type(loaded.state["event"][0]) is bytes


def test_only_the_last_checkpoint_stays(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, Checkpoint(1, _state(0.1)))
    save_checkpoint(path, Checkpoint(2, _state(0.2)))
    assert load_checkpoint(path, _state(0.0)).completed_rounds == 2
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_damaged_checkpoint_is_refused(tmp_path, keep):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, Checkpoint(1, _state(0.1)))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"checkpoint\.npz: is not a checkpoint"):
        load_checkpoint(path, _state(0.0))


def test_a_pickle_is_never_loaded(tmp_path):
    path = tmp_path / "checkpoint.npz"
    np.savez(path, format_version=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="is not a checkpoint"):
        load_checkpoint(path, _state(0.0))


def test_another_model_is_refused(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, Checkpoint(1, _state(0.1)))
    other = _state(0.0)
    other["weights"][0] = np.zeros((3, 3), np.float32)
    with pytest.raises(InputError, match="belongs to another model"):
        load_checkpoint(path, other)
    with pytest.raises(InputError, match="belongs to another learning process"):
        load_checkpoint(path, [np.float32(1)])
