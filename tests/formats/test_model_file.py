"""Models in the files of several programs, which have one digest; nothing is unpickled."""

import asyncio
import hashlib
import json
import pickle

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.formats.model_file import (
    candidates,
    model_digest,
    natural_order,
    read_model,
    read_saved_arrays,
    write_model,
)

SHAPES = ((5, 3), (3,), (3, 3), (3,))
SIZES = [15, 3, 9, 3]
MODEL = [np.random.default_rng(1).normal(size=shape).astype(np.float32) for shape in SHAPES]
DIGEST = model_digest(MODEL)


def is_found(path):
    """Whether some candidate of a file is the model."""
    tried = candidates(read_saved_arrays(path), SIZES)
    return any(model_digest(model) == DIGEST for model in tried)


def test_the_digest_is_that_of_all_parameters_as_little_endian_float32():
    flat = np.concatenate([array.ravel() for array in MODEL])
    assert hashlib.sha256(flat.astype("<f4").tobytes()).hexdigest() == DIGEST
    assert model_digest([flat.astype(">f4")]) == DIGEST
    assert model_digest([flat.astype(np.float64)]) == DIGEST
    assert model_digest([np.asfortranarray(MODEL[0]), *MODEL[1:]]) == DIGEST


def test_a_runs_file_is_read_as_one_vector(tmp_path):
    path = tmp_path / "model.npz"
    write_model(path, MODEL)
    assert model_digest([read_model(path, 30)]) == DIGEST
    assert is_found(path)
    with pytest.raises(InputError, match="must hold 31 finite parameters, has 30"):
        read_model(path, 31)
    np.savez(path, np.full(30, np.nan, np.float32))
    with pytest.raises(InputError, match="must hold 30 finite parameters"):
        read_model(path, 30)


def _npy(path):
    np.save(path, np.concatenate([array.ravel() for array in MODEL]))


def _among_others(path):
    """A checkpoint: a count, the model, and an optimizer's state of the same sizes."""
    others = [np.zeros_like(array) for array in MODEL]
    np.savez(path, np.int64(3), *MODEL, *others)


def _other_order(path):
    """Arrays whose names sort biases first, as in Keras' files."""
    np.savez(path, a_bias=MODEL[1], a_kernel=MODEL[0], b_bias=MODEL[3], b_kernel=MODEL[2])


def _safetensors(path):
    header, content = {"__metadata__": {"format": "np"}}, b""
    for number, array in enumerate(MODEL):
        data = array.astype("<f4").tobytes()
        offsets = [len(content), len(content) + len(data)]
        header[f"layer.{number}"] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": offsets,
        }
        content += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("flat.npy", _npy),
        ("checkpoint.npz", _among_others),
        ("named.npz", _other_order),
        ("model.safetensors", _safetensors),
    ],
)
def test_a_model_is_found_in_a_file(tmp_path, name, write):
    write(tmp_path / name)
    assert is_found(tmp_path / name)


def test_bfloat16_is_read_as_the_upper_half_of_a_float32(tmp_path):
    entry = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    text = json.dumps({"w": entry}).encode()
    content = np.float32([1.5, -2.0]).view("<u4") >> 16
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + content.astype("<u2").tobytes())
    ((_, array),) = read_saved_arrays(file)
    np.testing.assert_array_equal(array, [1.5, -2.0])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.pkl", pickle.dumps([1.0]), "is of no kind that is read without pickle"),
        ("model.pt", b"PK\x03\x04", "is of no kind that is read without pickle"),
        ("model.npz", b"", "is not a model"),
        ("model.npz", b"PK\x03\x04", "is not a model"),
        ("model.npy", b"\x93NUMPY", "is not a model"),
        ("model.safetensors", b"\xff" * 8, "its header asks for"),
        ("model.safetensors", (2).to_bytes(8, "little") + b"[]", "is not a model"),
    ],
)
def test_a_damaged_file_or_one_of_another_kind_is_refused(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_saved_arrays(path)
    with pytest.raises(InputError, match="no such file or folder"):
        read_saved_arrays(tmp_path / "none.npz")


def test_objects_in_an_array_are_never_loaded(tmp_path):
    np.save(tmp_path / "model.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects, which are never loaded"):
        read_saved_arrays(tmp_path / "model.npy")


# TensorFlow, Keras and TensorFlow Federated.


@pytest.fixture(scope="module")
def keras_model():
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(3)])
    model.build((None, 5))
    model.set_weights(MODEL)
    return model


@pytest.mark.tff
@pytest.mark.parametrize("name", ["whole.keras", "only.weights.h5", "old.h5"])
def test_a_model_that_keras_saved_is_found(keras_model, tmp_path, name):
    save = keras_model.save if name == "whole.keras" else keras_model.save_weights
    save(tmp_path / name)
    assert is_found(tmp_path / name)


@pytest.mark.tff
def test_a_model_that_tensorflow_saved_is_found(keras_model, tmp_path):
    keras_model.save_weights(tmp_path / "checkpoint")
    assert is_found(tmp_path / "checkpoint")
    keras_model.save(tmp_path / "saved_model", save_format="tf")
    assert is_found(tmp_path / "saved_model")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is no checkpoint of TensorFlow"):
        read_saved_arrays(tmp_path / "empty")


@pytest.mark.tff
def test_a_state_that_tff_saved_is_found(tmp_path):
    tff = pytest.importorskip("tensorflow_federated")
    manager = tff.program.FileProgramStateManager(tmp_path / "states")
    asyncio.run(manager.save({"model": MODEL, "rounds": np.int32(3)}, version=3))
    (state,) = (tmp_path / "states").iterdir()
    assert is_found(state)


def test_a_raised_number_in_a_name_is_no_number():
    assert sorted(["b2", "b10", "b1²"], key=natural_order) == ["b1²", "b2", "b10"]
