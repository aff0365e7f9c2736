from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.run.folder import Checkpoint, Seal, load_checkpoint, save_checkpoint


def _leaves(scale: float) -> list[Any]:
    """The parts of a state: all that TFF's states are made of."""
    return [
        np.float32(scale),
        b"dp_accounting.dp_event",
        np.bool_(True),
        np.int32(7),
        np.full((2, 3), scale, np.float32),
        np.zeros(0, np.float32),
    ]


def test_a_checkpoint_gives_back_the_same_leaves(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, Checkpoint(12, _leaves(0.1), {"metrics.csv": Seal(10, 2**32 - 1)}))
    loaded = load_checkpoint(path, _leaves(0.0))
    assert loaded.seals == {"metrics.csv": Seal(10, 2**32 - 1)}
    assert loaded.completed_rounds == 12
    for leaf, expected in zip(loaded.leaves, _leaves(0.1), strict=True):
        np.testing.assert_array_equal(leaf, expected)
        assert np.asarray(leaf).dtype == np.asarray(expected).dtype
    assert type(loaded.leaves[1]) is bytes


def test_only_the_last_checkpoint_stays(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, Checkpoint(1, _leaves(0.1)))
    save_checkpoint(path, Checkpoint(2, _leaves(0.2)))
    assert load_checkpoint(path, _leaves(0.0)).completed_rounds == 2
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_damaged_checkpoint_is_refused(tmp_path, keep):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, Checkpoint(1, _leaves(0.1)))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"checkpoint\.npz: is not a checkpoint"):
        load_checkpoint(path, _leaves(0.0))


def test_a_pickle_is_never_loaded(tmp_path):
    path = tmp_path / "checkpoint.npz"
    np.savez(path, format_version=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="is not a checkpoint"):
        load_checkpoint(path, _leaves(0.0))


def test_another_model_is_refused(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, Checkpoint(1, _leaves(0.1)))
    other = _leaves(0.0)
    other[4] = np.zeros((3, 3), np.float32)
    with pytest.raises(InputError, match="belongs to another model"):
        load_checkpoint(path, other)
    with pytest.raises(InputError, match="belongs to another learning process"):
        load_checkpoint(path, [np.float32(1)])


def _damaged(path: Path, changes: dict[str, Any]) -> None:
    """A checkpoint whose arrays are replaced, or left out where None stands for them."""
    save_checkpoint(path, Checkpoint(1, _leaves(0.1), {"metrics.csv": Seal(10, 7)}))
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize("value", [None, np.zeros(2), np.array("x"), np.float64(1), -np.ones((1,))])
@pytest.mark.parametrize(
    "field",
    ["format_version", "completed_rounds", "sealed_files", "seals", "leaf_0002", "leaf_0003"],
)
def test_a_field_that_is_missing_or_of_another_kind_is_one_line(tmp_path, field, value):
    path = tmp_path / "checkpoint.npz"
    _damaged(path, {field: value})
    with pytest.raises(InputError, match=r"checkpoint\.npz: (is|belongs)"):
        load_checkpoint(path, _leaves(0.0))


def test_a_seal_names_a_file_of_the_folder(tmp_path):
    path = tmp_path / "checkpoint.npz"
    _damaged(path, {"sealed_files": np.array(["../metrics.csv"])})
    with pytest.raises(InputError, match="has no checksums"):
        load_checkpoint(path, _leaves(0.0))
