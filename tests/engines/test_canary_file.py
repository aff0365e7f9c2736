"""A user's own canaries: what is read, and the one line that refuses anything else."""

import dataclasses

import numpy as np
import pytest

from fl_audit.config import Config, DigitsTask, ExampleCanaries, GaussianFixed, Shuffle, TextTask
from fl_audit.engines.example_canaries import read_canary_file
from fl_audit.engines.prepare import prepare
from fl_audit.errors import InputError
from fl_audit.tasks import load_task
from fl_audit.tasks.learning_task import Examples


@pytest.fixture(scope="module")
def digits():
    return load_task(DigitsTask(num_clients=30, hidden=(4,)), seed=1)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "speech.csv"
    path.write_text("client_id,text\n" + "".join(f"{c % 3},to be or not\n" for c in range(30)))
    config = TextTask(
        path=str(path), vocabulary_size=4, sequence_length=5, embedding_size=3, lstm_size=2
    )
    return load_task(config, seed=1)


def images(count):
    return np.random.default_rng(0).random((count, 64)).round(3)


def test_sentences_of_a_client_are_a_canary(text, tmp_path):
    path = tmp_path / "canaries.csv"
    path.write_text('client_id,text\nb,"Not to be, or"\na,to xyzzy\nb,be be be be be be\na,\n')
    first, second = read_canary_file(path, text)
    # Tokens: be 1, not 2, or 3, to 4, unknown 5, beginning 6, end 7.
    np.testing.assert_array_equal(first.inputs, [[6, 2, 4, 1, 5], [6, 1, 1, 1, 1]])
    np.testing.assert_array_equal(first.labels, [[2, 4, 1, 5, 3], [1, 1, 1, 1, 1]])
    np.testing.assert_array_equal(second.inputs, [[6, 4, 5, 7, 0]])
    np.testing.assert_array_equal(second.labels, [[4, 5, 7, 0, 0]])
    assert first.inputs.dtype == first.labels.dtype == np.int32


@pytest.mark.parametrize("shape", [(5, 64), (5, 8, 8)])
def test_arrays_by_client(digits, tmp_path, shape):
    inputs, labels = images(5), np.array([3, 1, 4, 1, 5])
    path = tmp_path / "canaries.npz"
    np.savez(path, inputs=inputs.reshape(shape), labels=labels, client_id=list("yxyzx"))
    found = read_canary_file(path, digits)
    assert [canary.labels.tolist() for canary in found] == [[3, 4], [1, 5], [1]]
    np.testing.assert_array_equal(found[1].inputs, inputs[[1, 4]].astype(np.float32))
    assert found[0].inputs.dtype == np.float32
    assert found[0].labels.dtype == np.int32


def test_arrays_without_clients_are_a_canary_each(digits, tmp_path):
    path = tmp_path / "canaries.npz"
    np.savez(path, inputs=images(3), labels=np.array([0, 9, 2], np.uint8))
    assert [c.labels.tolist() for c in read_canary_file(path, digits)] == [[0], [9], [2]]


def csv_of(labels, inputs, columns=64):
    header = ",".join(["client_id", "label", *(f"pixel{i}" for i in range(columns))])
    rows = [
        ",".join([f"c{i // 2}", str(label), *map(str, row)])
        for i, (label, row) in enumerate(zip(labels, inputs, strict=True))
    ]
    return "\n".join([header, *rows]) + "\n"


def test_a_csv_of_numbers(digits, tmp_path):
    path = tmp_path / "canaries.csv"
    path.write_text(csv_of([7, 8, 9], images(3)))
    found = read_canary_file(path, digits)
    assert [canary.labels.tolist() for canary in found] == [[7, 8], [9]]
    np.testing.assert_array_equal(found[1].inputs, images(3)[2:].astype(np.float32))


def test_features_may_be_named_like_columns_of_canaries(digits, tmp_path):
    """In a file of semicolons and decimal commas."""
    path = tmp_path / "canaries.csv"
    content = csv_of([7, 8], images(2)).replace(",", ";").replace(".", ",")
    for name in ("arm", "pair", "canary_id"):
        path.write_text(content.replace("pixel9;", f"{name};"))
        (found,) = read_canary_file(path, digits)
        np.testing.assert_array_equal(found.inputs, images(2).astype(np.float32))


def refusal(path, task):
    with pytest.raises(InputError) as caught:
        read_canary_file(path, task)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(str(path))
    return line.removeprefix(str(path))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inputs": images(2)}, ": array `labels` is missing"),
        ({"input": images(2), "labels": [1, 2]}, ": array `inputs` is missing; did you mean"),
        ({"inputs": images(2), "labels": [1]}, ": inputs (2, 64), labels (1,) and client_id (1,)"),
        ({"inputs": images(1), "labels": 1}, ": inputs (1, 64), labels () and client_id (1,)"),
        ({"inputs": images(2)[:, 1:], "labels": [1, 2]}, ": an input has 63 numbers; must have 64"),
        ({"inputs": images(2) * np.inf, "labels": [1, 2]}, ", row 1: inputs must be finite"),
        (
            {"inputs": [[0.0] * 64, [1e39] * 64], "labels": [1, 2]},
            ", row 2: inputs must be finite numbers in float32",
        ),
        ({"inputs": images(2), "labels": [1, 10]}, ", row 2: label must be a class, 0 to 9"),
        ({"inputs": images(2), "labels": [-1, 1]}, ", row 1: label must be a class, 0 to 9"),
        ({"inputs": images(2), "labels": [1, 1.5]}, ", row 2: label must be a class, 0 to 9"),
        ({"inputs": images(2), "labels": ["a", "b"]}, ", row 1: label must be a class, 0 to 9"),
        ({"inputs": [["a"] * 64], "labels": [1]}, ": inputs must be numbers, got <U1"),
    ],
)
def test_arrays_that_are_no_examples_are_refused(digits, tmp_path, arrays, message):
    path = tmp_path / "canaries.npz"
    np.savez(path, **arrays)
    assert refusal(path, digits).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("client,label\nx,1\n", ": has no column 'client_id'"),
        ("client_id,label\n", ": has no row"),
        (csv_of([1], images(1)[:, :9], 9), ": an input has 9 numbers; must have 64"),
        (csv_of(["one"], images(1)), ", row 1: column `label` must be a number, got 'one'"),
    ],
)
def test_numbers_that_are_no_examples_are_refused(digits, tmp_path, content, message):
    path = tmp_path / "canaries.csv"
    path.write_text(content)
    assert refusal(path, digits).startswith(message)


def test_numbers_as_labels(digits, tmp_path):
    """A regression takes any finite label."""
    numbers = Examples(digits.held_out.inputs, digits.held_out.labels.astype(np.float32))
    regression = dataclasses.replace(digits, held_out=numbers)
    path = tmp_path / "canaries.npz"
    np.savez(path, inputs=images(2), labels=[1.5, -20])
    assert [canary.labels.tolist() for canary in read_canary_file(path, regression)] == [
        [1.5],
        [-20],
    ]
    for large in (np.inf, -1e39):
        np.savez(path, inputs=images(2), labels=[1, large])
        assert refusal(path, regression) == ", row 2: label must be a finite number in float32"


@pytest.mark.parametrize(
    ("dtype", "inputs", "row"),
    [
        (np.int32, [[0, 1], [0.9, 1.7]], 2),
        (np.int32, [[3e9, 1]], 1),
        (np.int32, [[2**31, 1]], 1),
        (np.int32, [[2**40, 1]], 1),
        (np.int32, [[np.nan, 1]], 1),
        (np.uint8, [[-1, 1]], 1),
        (np.int32, [[1 + 2j, 1]], 1),
        (np.float32, [[1 + 0j, 1]], 1),
    ],
)
def test_inputs_that_would_be_changed_are_refused(digits, tmp_path, dtype, inputs, row):
    held_out = Examples(np.zeros((3, 2), dtype), digits.held_out.labels[:3])
    task = dataclasses.replace(digits, held_out=held_out)
    path = tmp_path / "canaries.npz"
    np.savez(path, inputs=inputs, labels=np.ones(len(inputs), int))
    kind = "finite" if dtype == np.float32 else "whole"
    expected = f", row {row}: inputs must be {kind} numbers in {np.dtype(dtype)}"
    assert refusal(path, task) == expected


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("inputs", [[[0, 1], [7, 3]], [[0.0, 1.0], [7.0, 3.0]]])
def test_whole_inputs_are_kept_in_any_type(digits, tmp_path, dtype, inputs):
    held_out = Examples(np.zeros((3, 2), dtype), digits.held_out.labels[:3])
    task = dataclasses.replace(digits, held_out=held_out)
    path = tmp_path / "canaries.npz"
    np.savez(path, inputs=inputs, labels=[1, 2])
    found = read_canary_file(path, task)
    assert [canary.inputs.tolist() for canary in found] == [[[0, 1]], [[7, 3]]]
    assert found[0].inputs.dtype == dtype


def config_of(path, **keys):
    return Config(
        task=DigitsTask(num_clients=30, hidden=(4,)),
        mechanism=GaussianFixed(noise_multiplier=0.0, clip_norm=1.0),
        participation=Shuffle(rounds=4, clients_per_round=10),
        canaries=ExampleCanaries(source="file", path=str(path), **keys),
        seed=2,
    )


def test_a_run_takes_the_files_canaries_and_leaves_its_clients(tmp_path):
    path = tmp_path / "canaries.npz"
    np.savez(path, inputs=images(9), labels=np.arange(9))
    run = prepare(config_of(path))
    assert [canary.labels.tolist() for canary in run.canary_examples] == [[i] for i in range(9)]
    assert len(run.included) == 9
    assert len(run.task.population.client_ids) == 30
    assert len(prepare(config_of(path, count=6)).canary_examples) == 6
    with pytest.raises(InputError, match="holds 9 clients, a canary each; must hold at least 10"):
        prepare(config_of(path, count=10))
