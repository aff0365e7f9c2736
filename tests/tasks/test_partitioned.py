"""Tasks dealt to clients: scikit-learn's tables, and stand-ins of users' files."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_digits

from fl_audit.config import DigitsTask
from fl_audit.errors import InputError
from fl_audit.tasks import load_task
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.task_kinds import BreastCancerTask, CifarTask, PurchaseTask, WineTask
from fl_audit.tasks.tf.networks import as_classifier, dense_logits


def everything(task):
    clients = [task.population.examples(c) for c in range(len(task.population.client_ids))]
    return Examples.concatenate([*clients, task.held_out])


@pytest.mark.parametrize(
    ("config", "rows", "features", "classes"),
    [(BreastCancerTask(), 569, 30, 2), (WineTask(num_clients=5, hidden=(8,)), 178, 13, 3)],
)
def test_tables_of_scikit_learn(config, rows, features, classes):
    task = load_task(config, 4)
    points = everything(task)
    assert points.inputs.shape == (rows, features)
    assert sorted(set(points.labels.tolist())) == list(range(classes))
    np.testing.assert_allclose(points.inputs.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(points.inputs.std(axis=0), 1, atol=1e-5)
    assert len(task.held_out) == rows // 6
    assert task.classifier.num_classes == classes
    shares = [task.population.num_examples(c) for c in range(config.num_clients)]
    assert max(shares) - min(shares) <= 1
    again, other = (everything(load_task(config, seed)) for seed in (4, 5))
    np.testing.assert_array_equal(points.inputs, again.inputs)
    assert not np.array_equal(points.inputs, other.inputs)


def purchase(tmp_path, text):
    path = tmp_path / "dataset_purchase"
    path.write_text(text)
    return PurchaseTask(path=str(path), num_clients=3, hidden=(4,))


def test_purchases(tmp_path):
    rng = np.random.default_rng(0)
    bought, classes = rng.integers(0, 2, (40, 6)), rng.integers(1, 101, 40)
    rows = [",".join(map(str, (c, *b))) for c, b in zip(classes, bought, strict=True)]
    task = load_task(purchase(tmp_path, "\n".join(rows) + "\n"), 1)
    points = everything(task)
    assert len(task.held_out) == 4
    assert sorted(map(tuple, points.inputs.tolist())) == sorted(map(tuple, bought.tolist()))
    assert sorted(points.labels + 1) == sorted(classes)
    assert task.classifier.num_classes == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,0,1\n101,0,1\n", "row 2: the class must be a whole number from 1 to 100, got 101"),
        ("1,0,1\n2,0,3\n", "row 2: a product must be 0 or 1"),
        ("1,0,1\n2,0,x\n", "must hold numbers only"),
        ("1\n2\n", "at least one product"),
        ("1,0,1\n2,0\n", "must have 3 fields, got 2"),
    ],
)
def test_bad_purchases_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        load_task(purchase(tmp_path, text), 1)


def records(images, labels):
    planes = images.transpose(0, 3, 1, 2).reshape(len(labels), -1)
    return np.concatenate([labels[:, None], planes], axis=1).astype(np.uint8).tobytes()


def test_cifar_10(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (12, 32, 32, 3)), rng.integers(0, 10, 12)
    for batch in (0, 1):
        part = slice(5 * batch, 5 * batch + 5)
        path = tmp_path / f"data_batch_{batch + 1}.bin"
        path.write_bytes(records(images[part], labels[part]))
    (tmp_path / "test_batch.bin").write_bytes(records(images[10:], labels[10:]))
    task = load_task(CifarTask(path=str(tmp_path), num_clients=4), 1)
    np.testing.assert_allclose(task.held_out.inputs * 255, images[10:], atol=1e-4)
    np.testing.assert_array_equal(task.held_out.labels, labels[10:])
    shares = [task.population.examples(c) for c in range(4)]
    assert sorted(len(share) for share in shares) == [2, 2, 3, 3]
    first = np.flatnonzero(np.all(np.isclose(shares[0].inputs[0] * 255, images), axis=(1, 2, 3)))
    assert labels[first[0]] == shares[0].labels[0]
    model = as_classifier(task.classifier)
    logits = model.logits(list(model.initial_weights), shares[0].inputs)
    assert logits.shape == (3, 10)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("data_batch_1.bin", bytes(3073 + 5), "must hold whole images of 3,073 bytes each"),
        ("data_batch_1.bin", bytes([10]) + bytes(3072), "labels must be from 0 to 9, got 10"),
        ("data_batch_1.bin", bytes(3073), "test_batch.bin: cannot be read: No such file"),
        ("data_batch_1", b"", "the binary version, as no pickle is loaded"),
    ],
    ids=["cut", "label", "no test images", "pickles"],
)
def test_bad_cifar_folders_are_refused(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        load_task(CifarTask(path=str(tmp_path), num_clients=1), 1)


# The digits.


@pytest.fixture(scope="module")
def task():
    return load_task(DigitsTask(), seed=1)


def rows(examples) -> list[tuple[bytes, int]]:
    """Images with labels as comparable values."""
    return [
        (image.tobytes(), int(label))
        for image, label in zip(examples.inputs, examples.labels, strict=True)
    ]


def test_every_image_is_dealt_once(task):
    dealt = [row for client in range(300) for row in rows(task.population.examples(client))]
    images, labels = load_digits(return_X_y=True)
    everything = [
        ((image / 16).astype(np.float32).tobytes(), int(label))
        for image, label in zip(images, labels, strict=True)
    ]
    assert sorted(dealt + rows(task.held_out)) == sorted(everything)


def test_split_and_weights_are_functions_of_the_seed(task):
    again, other = load_task(DigitsTask(), seed=1), load_task(DigitsTask(), seed=2)
    np.testing.assert_array_equal(again.held_out.inputs, task.held_out.inputs)
    assert (other.held_out.inputs != task.held_out.inputs).any()
    for new, old, differs in zip(
        again.classifier.initial_weights,
        task.classifier.initial_weights,
        other.classifier.initial_weights,
        strict=True,
    ):
        np.testing.assert_array_equal(new, old)
        assert new.dtype == np.float32
        assert (differs != old).any() == (old.ndim == 2)  # biases are zeros for every seed


@pytest.mark.parametrize("hidden", [(), (5,), (7, 6, 5)])
def test_model_is_the_same_as_in_keras(task, hidden):
    classifier = load_task(DigitsTask(hidden=hidden), seed=3).classifier
    layers = [tf.keras.layers.Dense(width, "relu") for width in hidden]
    model = tf.keras.Sequential([tf.keras.Input([64]), *layers, tf.keras.layers.Dense(10)])
    rng = np.random.default_rng(1)
    weights = [rng.normal(0, 0.5, w.shape).astype(np.float32) for w in model.get_weights()]
    model.set_weights(weights)
    assert [w.shape for w in classifier.initial_weights] == [w.shape for w in weights]
    assert classifier.dim == model.count_params()
    images = task.held_out.inputs[:9]
    np.testing.assert_allclose(
        dense_logits(weights, tf.constant(images)), model(images), atol=1e-4, rtol=1e-5
    )
