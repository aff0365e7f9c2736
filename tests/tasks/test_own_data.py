"""Tables, NPZ folders and tasks of one's own: what is read, and bad input in one line."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from fl_audit.config.file import config_to_toml, load_config
from fl_audit.errors import InputError
from fl_audit.tasks import load_task
from fl_audit.tasks.task_kinds import NpzTask, PythonTask, TableTask

CSV = "client_id,label,a,b\nx,0,1,2\ny,1,3,4\nx,1,5,6\n" + "y,0,1,1\n" * 17


def test_a_table_is_read_by_client(tmp_path):
    (tmp_path / "t.csv").write_text(CSV)
    task = load_task(TableTask(path=str(tmp_path / "t.csv")), 1)
    assert task.population.client_ids == ["x", "y"]
    assert len(task.held_out) == 2  # a tenth of twenty
    counts = [task.population.num_examples(client) for client in (0, 1)]
    assert sum(counts) == 18 and min(counts) >= 1
    assert task.classifier.dim == 2 * 2 + 2
    again = load_task(TableTask(path=str(tmp_path / "t.csv")), 1)
    np.testing.assert_array_equal(task.held_out.inputs, again.held_out.inputs)


def test_parquet_with_a_held_out_table_in_another_order(tmp_path):
    pq.write_table(
        pa.table({"who": [1, 1, 2], "y": [0, 2, 1], "a": [1.0, 2.0, 3.0], "b": [4, 5, 6]}),
        tmp_path / "t.parquet",
    )
    pq.write_table(pa.table({"b": [7], "y": [1], "a": [8.0]}), tmp_path / "h.parquet")
    config = TableTask(
        path=str(tmp_path / "t.parquet"),
        held_out=str(tmp_path / "h.parquet"),
        client_column="who",
        label_column="y",
        hidden=(5,),
    )
    task = load_task(config, 1)
    assert task.population.client_ids == ["1", "2"]
    np.testing.assert_array_equal(task.population.examples(0).inputs, [[1, 4], [2, 5]])
    np.testing.assert_array_equal(task.held_out.inputs, [[8, 7]])
    assert task.classifier.dim == 2 * 5 + 5 + 5 * 3 + 3


BAD_TABLES = [
    ("client_id,label,a\nx,0,1\n", {}, "too few examples to hold any out"),
    (CSV.replace("y,1", "y,7", 1), {"num_classes": 3}, "client 'y' has label 7, must be below 3"),
]


@pytest.mark.parametrize(("text", "fields", "message"), BAD_TABLES)
def test_a_bad_table_is_one_line(tmp_path, text, fields, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        load_task(TableTask(path=str(tmp_path / "t.csv"), **fields), 1)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sparse_labels_are_classes(tmp_path, capsys):
    rows = "".join(f"c{n % 4},{(0, 7, 500)[n % 3]},{n}.5\n" for n in range(30))
    (tmp_path / "t.csv").write_text(f"client_id,label,a\n{rows}")
    config = TableTask(path=str(tmp_path / "t.csv"))
    task = load_task(config, 1)
    assert task.classifier.dim == 1 * 3 + 3
    examples = task.population.examples(0)
    original = np.array([0, 7, 500])[(examples.inputs[:, 0] - 0.5).astype(int) % 3]
    np.testing.assert_array_equal(np.array([0, 7, 500])[examples.labels], original)
    assert set(task.held_out.labels.tolist()) <= {0, 1, 2}
    said = capsys.readouterr().err
    assert "its 3 distinct labels, from 0 to 500, are taken as classes from 0 on" in said
    load_task(TableTask(path=config.path, num_classes=501), 1)
    assert "distinct labels" not in capsys.readouterr().err


def npz(tmp_path, **arrays_by_client):
    for client, arrays in arrays_by_client.items():
        np.savez(tmp_path / f"{client}.npz", **arrays)
    return NpzTask(path=str(tmp_path))


GOOD = {"inputs": np.ones((20, 2)), "labels": np.arange(20) % 2}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"input": np.ones((2, 2)), "labels": [0, 1]}, "array `inputs` is missing; did you mean"),
        ({"inputs": np.ones((3, 2)), "labels": [0, 1]}, "must have one label for each input"),
        (
            {"inputs": np.ones((2, 3)), "labels": [0, 1]},
            "has 3 numbers, an input of client 'a' has 2",
        ),
        (
            {"inputs": np.ones((2, 2, 1)), "labels": [0, 1]},
            "has 2 x 1 x 1 numbers, an input of client 'a' has 2",
        ),
        (
            {"inputs": np.array([[0, 1], [2, np.nan]]), "labels": [0, 1]},
            "row 2, inputs: must be a finite number in float32, got nan",
        ),
        ({"inputs": np.array([["p"], ["q"]]), "labels": [0, 1]}, "inputs must be finite numbers"),
    ],
)
def test_a_bad_npz_file_is_one_line(tmp_path, arrays, message):
    with pytest.raises(InputError) as caught:
        load_task(npz(tmp_path, a=GOOD, b=arrays), 1)
    assert message in str(caught.value)


def test_the_held_out_file_is_no_client_and_neither_is_a_hidden_one(tmp_path):
    npz(tmp_path, a=GOOD, b=GOOD, test=GOOD)
    (tmp_path / "._a.npz").write_bytes(b"of macOS")
    config = NpzTask(path=str(tmp_path), held_out=str(tmp_path / "test.npz"))
    task = load_task(config, 1)
    assert task.population.client_ids == ["a", "b"]
    assert (task.population.num_examples(0), len(task.held_out)) == (20, 20)


NOTHING = {"inputs": np.ones((0, 2)), "labels": np.zeros(0, np.int64)}


def test_a_held_out_file_without_examples_is_refused(tmp_path):
    npz(tmp_path, a=GOOD, b=GOOD, test=NOTHING)
    config = NpzTask(path=str(tmp_path), held_out=str(tmp_path / "test.npz"))
    with pytest.raises(InputError, match=r"test\.npz: has no example; must hold at least one"):
        load_task(config, 1)


def test_clients_without_data_are_left_out_and_counted(tmp_path, capsys):
    task = load_task(npz(tmp_path, a=NOTHING, b=GOOD, c=NOTHING, d=GOOD), 1)
    assert task.population.client_ids == ["b", "d"]
    expected = (
        f"task.path: {tmp_path}: 2 of 4 clients, the first 'a', have no data and are left out"
    )
    assert capsys.readouterr().err == f"{expected}\n"


MODULE = """
import numpy as np
import tensorflow as tf
from fl_audit.tasks.own_task import OwnTask

def make(seed, **changed):
    parts = dict(
        initial_weights=[np.zeros((2, 3))],
        predict=lambda weights, inputs: inputs @ weights[0],
        loss=lambda outputs, labels: tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=outputs
        ),
        correct=lambda outputs, labels: tf.argmax(outputs, 1, tf.int32) == labels,
        client_ids=["a", "b"],
        client_data=lambda client: (np.ones((4, 2)), np.array([0, 1, 2, 0])),
        held_out=(np.ones((4, 2)), np.array([0, 1, 2, 0])),
    )
    return OwnTask(**{**parts, **{key: eval(value) for key, value in changed.items()}})

def nothing(seed):
    return 3

def broken(seed):
    return 1 / 0
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own_module_of_test.py").write_text(MODULE)
    return str(tmp_path)


def own(folder: str, function: str = "make", **options: str) -> PythonTask:
    return PythonTask(module=f"own_module_of_test:{function}", folder=folder, options=options)


def test_a_module_beside_the_config_is_found(folder):
    task = load_task(own(folder), 1)
    assert task.classifier.dim == 6
    assert task.population.client_ids == ["a", "b"]
    assert task.population.num_examples(1) == 4


def test_attacks_take_the_log_odds_of_an_own_task_or_else_its_loss(folder):
    outputs, labels = np.float32([[1, 0, 5], [0, 2, 0]]), np.int32([2, -1])
    found = {}
    for log_odds in ("None", "lambda outputs, labels: outputs[:, 2]"):
        model = load_task(own(folder, log_odds=log_odds), 1).classifier
        losses, counted = model.attacked_loss_by_example(tf.constant(outputs), tf.constant(labels))
        assert counted.numpy().tolist() == [1, 0]
        found[log_odds] = losses.numpy().tolist()
    of_loss, of_log_odds = found.values()
    assert of_loss == pytest.approx([np.log1p(np.exp(-4) + np.exp(-5)), 0], rel=1e-4)
    assert of_log_odds == [-5, 0]


BAD_OWN = [
    ({"client_ids": "[]"}, "client_ids must be distinct names, at least one"),
    ({"client_ids": "['a', 'a']"}, "client_ids must be distinct names"),
    ({"initial_weights": "[[float('nan')]]"}, "initial_weights must be arrays of finite numbers"),
    ({"client_data": "lambda c: np.ones(3)"}, "must be a pair of inputs and labels"),
    ({"client_data": "lambda c: (np.ones((2, 2)), [0])"}, "must have one label for each input"),
    ({"client_data": "lambda c: (np.ones((1, 2)), [-1])"}, "must not be negative"),
    ({"client_data": "lambda c: (np.full((1, 2), 1e39), [0])"}, "is not finite in float32"),
    ({"client_data": "lambda c: (np.ones((0, 2)), [])"}, "leave such clients out of client_ids"),
    ({"held_out": "(np.ones((1, 3)), [0])"}, "must be as the first client's"),
    ({"loss": "lambda o, l: tf.constant(1.0)"}, "loss must give one number an example"),
    ({"log_odds": "lambda o, l: o"}, "log_odds must give one number an example"),
    ({"predict": "lambda w, x: x @ x"}, "own_module_of_test:make fails"),
    ({"colour": "1"}, "unexpected keyword argument 'colour'"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OWN)
def test_a_bad_task_is_one_line(folder, options, message):
    with pytest.raises(InputError) as caught:
        load_task(own(folder, **options), 1)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("mke", "has no function 'mke'"),
        ("nothing", "must return an fl_audit.tasks.own_task.OwnTask, got int"),
        ("broken", "fails in own_module_of_test.py, line 24: ZeroDivisionError: division by zero"),
    ],
)
def test_a_function_that_makes_no_task_is_one_line(folder, function, message):
    with pytest.raises(InputError) as caught:
        load_task(own(folder, function), 1)
    assert message in str(caught.value)


def test_a_module_that_is_not_there_is_one_line(folder):
    with pytest.raises(InputError, match="there is no module 'not_there' in "):
        load_task(PythonTask(module="not_there:make", folder=folder), 1)


CONFIG = """
[task]
kind = "python"
module = "own_module_of_test:make"
options = { held_out = "(np.ones((1, 2)), [0])" }
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 1.0
clip_norm = 1.0
[participation]
kind = "uniform"
rounds = 2
clients_per_round = 1
[canaries]
count = 4
"""


def test_the_folder_is_the_configs_and_stays_so(folder, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    config = load_config(path, ["task.options.name='of mine'"])
    assert config.task.folder == folder
    assert config.task.options["name"] == "of mine"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.toml").write_text(config_to_toml(config))
    assert load_config(elsewhere / "config.toml") == config
    with pytest.raises(InputError, match=r"key `task.module`: "):
        load_config(path, ["task.module=make"])


@pytest.mark.parametrize("held_out", ["test.npz", "blob"])
def test_a_held_out_file_that_is_a_link_is_no_client(tmp_path, held_out):
    npz(tmp_path, a=GOOD, b=GOOD, test=GOOD)
    (tmp_path / "test.npz").rename(tmp_path / "blob")
    (tmp_path / "test.npz").symlink_to("blob")
    config = NpzTask(path=str(tmp_path), held_out=str(tmp_path / held_out))
    assert load_task(config, 1).population.client_ids == ["a", "b"]
