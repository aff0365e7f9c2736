"""Blocks of clients against a plain loop over each client's batches; what a round is made of."""

import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.canaries.families import GaussianFamily
from fl_audit.engines.client_blocks import BlockShape, clients_in_memory, pad_block
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.engine import as_vector
from fl_audit.engines.tff import trained_blocks as blocks
from fl_audit.engines.tff.algorithms import functional_model
from fl_audit.engines.tff.trained_blocks import (
    BlockTrainer,
    NotVectorizedError,
    OptimizerSteps,
    TrainedBlock,
    TrainedBlocks,
    default_clients_per_block,
)
from fl_audit.tasks.learning_task import NO_CLASS, Examples
from fl_audit.tasks.tf.networks import as_classifier

pytestmark = pytest.mark.tff


def _numbered(count, first=1):
    numbers = np.arange(first, first + count)
    return Examples(
        numbers[:, None].astype(np.float32) * np.ones((1, 2), np.float32), numbers.astype(np.int32)
    )


def _padded(clients, batch_size, label=NO_CLASS):
    return pad_block(clients, BlockShape.least(clients, batch_size), label)


def test_clients_are_padded_to_the_most_batches():
    block = _padded([_numbered(5), _numbered(2, first=6), _numbered(4, first=8)], 2)
    np.testing.assert_array_equal(
        block.labels,
        [
            [[1, 2], [3, 4], [5, -1]],
            [[6, 7], [-1, -1], [-1, -1]],
            [[8, 9], [10, 11], [-1, -1]],
        ],
    )
    assert block.labels.dtype == np.int32
    assert block.inputs.dtype == np.float32
    assert block.inputs.shape == (3, 3, 2, 2)
    np.testing.assert_array_equal(block.inputs[..., 0], np.maximum(block.labels, 0))
    np.testing.assert_array_equal(block.num_examples, [[2, 2, 1], [2, 0, 0], [2, 2, 0]])
    np.testing.assert_array_equal(block.inputs[..., 0], block.inputs[..., 1])


def test_sentences_are_padded_with_padding():
    rows = np.array([[7, 8, 0], [9, 0, 0], [3, 4, 5]], np.int32)
    block = _padded([Examples(rows, rows + 1), Examples(rows[:1], rows[:1] + 1)], 2, label=0)
    np.testing.assert_array_equal(block.inputs[1], [[[7, 8, 0], [0, 0, 0]], [[0] * 3] * 2])
    np.testing.assert_array_equal(block.labels[1], [[[8, 9, 1], [0, 0, 0]], [[0] * 3] * 2])
    assert block.inputs.dtype == np.int32


def _loop(classifier, optimizer, examples, batch_size):
    """What one client does, batch by batch: update, summed loss, tokens."""
    weights = [tf.constant(array) for array in classifier.initial_weights]
    state = optimizer.initialize([tf.TensorSpec(w.shape, w.dtype) for w in weights])
    total = count = 0.0
    for start in range(0, len(examples), batch_size):
        inputs = examples.inputs[start : start + batch_size]
        labels = examples.labels[start : start + batch_size]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = classifier.loss(classifier.logits(weights, inputs), labels)
        state, weights = optimizer.next(state, weights, tape.gradient(loss, weights))
        tokens = float(np.sum(labels != classifier.padding_label))
        total, count = total + float(loss) * tokens, count + tokens
    initial = classifier.initial_weights
    return [first - last for first, last in zip(initial, weights, strict=True)], total, count


_OPTIMIZERS = [
    pytest.param(tff.learning.optimizers.build_sgdm(0.3, momentum=0.9), id="momentum"),
    pytest.param(tff.learning.optimizers.build_adam(0.05), id="adam", marks=pytest.mark.slow),
]


def _ragged_clients(run, sizes):
    everything = Examples.concatenate([run.task.population.examples(c) for c in range(10)])
    ends = np.cumsum(sizes)
    return [
        everything.take(np.arange(end - size, end)) for size, end in zip(sizes, ends, strict=True)
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("optimizer", _OPTIMIZERS)
def test_a_block_trains_as_a_loop_over_each_client(dense_run, optimizer):
    classifier, batch_size = as_classifier(dense_run.task.classifier), 4
    # One to four batches, so that the first client's last three are padding alone.
    clients = _ragged_clients(dense_run, [1, 14, 4, 7])
    trainer = BlockTrainer(classifier, OptimizerSteps(optimizer))
    weights = [tf.constant(array) for array in classifier.initial_weights]
    trained = trainer.train(weights, _padded(clients, batch_size, classifier.padding_label))
    for i, client in enumerate(clients):
        update, loss, num_tokens = _loop(classifier, optimizer, client, batch_size)
        for ours, theirs in zip(trained.update, update, strict=True):
            np.testing.assert_allclose(ours[i], theirs, rtol=1e-4, atol=2e-6)
        assert float(trained.loss[i]) == pytest.approx(loss, rel=1e-5)
        assert float(trained.num_tokens[i]) == num_tokens


@pytest.mark.slow
def test_an_update_that_is_not_finite_is_zeroed_as_tff_does(dense_run, worker):
    """One client of a block overflows; TFF's own client work says what becomes of it."""
    classifier = as_classifier(dense_run.task.classifier)
    first, second = _ragged_clients(dense_run, [6, 9])
    broken = Examples(first.inputs * np.float32(1e30), first.labels)
    optimizer = tff.learning.optimizers.build_sgdm(0.3)
    work = tff.learning.templates.build_functional_model_delta_client_work(
        model=functional_model(classifier),
        optimizer=optimizer,
        client_weighting=tff.learning.ClientWeighting.UNIFORM,
    )
    initial = tff.learning.models.ModelWeights(classifier.initial_weights, ())
    data = [
        tf.data.Dataset.from_tensor_slices((c.inputs, c.labels)).batch(4) for c in (broken, second)
    ]
    with worker():
        theirs = work.next(work.initialize(), [initial] * 2, data)
    trainer = BlockTrainer(classifier, OptimizerSteps(optimizer))
    weights = [tf.constant(array) for array in classifier.initial_weights]
    ours = trainer.train(weights, _padded([broken, second], 4))
    for i, result in enumerate(theirs.result):
        for leaf, expected in zip(ours.update, result.update, strict=True):
            np.testing.assert_allclose(leaf[i], expected, rtol=1e-4, atol=2e-6)
    assert not any(np.any(leaf[0]) for leaf in ours.update)
    assert all(np.any(leaf[1]) for leaf in ours.update)
    # TFF's client work also leaves such a client out of the metrics.
    mean_loss = float(sum(ours.loss) / sum(ours.num_tokens))
    assert mean_loss == pytest.approx(float(theirs.measurements["train"]["loss"]), rel=1e-5)
    assert [float(tokens) for tokens in ours.num_tokens] == [0, 9]


def test_a_model_that_cannot_have_weights_for_each_client_is_refused_at_once(convolution_run):
    optimizer = tff.learning.optimizers.build_sgdm(0.1)
    with pytest.raises(NotVectorizedError, match=r"^.*Conv2D.*loop invariant.*$"):
        BlockTrainer(convolution_run.task.classifier, OptimizerSteps(optimizer))


# The participants of a block-trained round, with a trainer that tells them apart.


NORM = 1e15

_WEIGHTS = [np.zeros((2, 3), np.float32), np.zeros(3, np.float32), np.zeros((), np.float32)]


class _Trainer:
    """Gives each client's label as its update, and remembers the blocks."""

    def __init__(self):
        self.blocks = []

    def train(self, weights, block):
        del weights
        self.blocks.append(block.labels)
        labels = tf.cast(block.labels[:, 0, 0], tf.float32)
        update = [tf.reshape(labels, [-1, *[1] * w.ndim]) + w for w in _WEIGHTS]
        tokens = tf.reduce_sum(tf.cast(block.labels != NO_CLASS, tf.float32), [1, 2])
        return TrainedBlock(update, labels * 10, tokens)


def _participants(sizes, canaries, clients_per_block):
    clients = [
        Examples(np.zeros((size, 4), np.float32), np.full(size, label, np.int32))
        for label, size in enumerate(sizes, start=1)
    ]
    family = GaussianFamily(seed=0, num_canaries=5, dim=10)
    trainer = _Trainer()
    blocks = TrainedBlocks(trainer, clients_per_block, 2, NO_CLASS, family)
    data = RoundData(clients, np.array(canaries, np.int64))
    return list(blocks.inputs(_WEIGHTS, data, NORM)), trainer, family


def test_each_client_has_its_own_result_and_clients_of_a_size_share_a_block():
    participants, trainer, _ = _participants([7, 1, 3, 8, 2], [], clients_per_block=2)
    assert [len(block) for block in trainer.blocks] == [2, 2, 1]
    # Sorted by size: 1, 2 | 3, 7 | 8.
    assert [block.shape[1] for block in trainer.blocks] == [1, 4, 4]
    assert [float(p["update"][2]) for p in participants] == [2, 5, 3, 1, 4]
    for participant in participants:
        label = float(participant["update"][2])
        assert [leaf.shape for leaf in participant["update"]] == [w.shape for w in _WEIGHTS]
        assert all(np.all(leaf == label) for leaf in participant["update"])
        loss, tokens = participant["metrics"]["loss"]
        assert (float(loss), float(tokens)) == (label * 10, [7, 1, 3, 8, 2][int(label) - 1])


def test_a_canary_is_minus_its_vector_at_the_norm_asked_for():
    participants, trainer, family = _participants([], [3, 0], clients_per_block=4)
    assert trainer.blocks == []
    for participant, canary in zip(participants, [3, 0], strict=True):
        update = as_vector(participant["update"])
        assert np.linalg.norm(update.astype(np.float64)) == pytest.approx(NORM, rel=1e-5)
        assert np.all(np.isfinite(update**2))
        assert update @ family.vector(canary) / np.linalg.norm(update) == pytest.approx(-1)
        assert [leaf.shape for leaf in participant["update"]] == [w.shape for w in _WEIGHTS]
        assert participant["metrics"]["loss"] == (0, 0)


# How many clients train at once by default.


@pytest.mark.parametrize(
    ("dim", "num_bytes", "expected"),
    [
        # A client takes twelve copies of the model, 48 MB; half of the memory is for them.
        (1_000_000, 96_000_000 * 5, 5),
        (1_000_000, 96_000_000 * 5 - 1, 4),
        (1_000_000, 96_000_000 * 64, 64),
        (1_000_000, 10**12, 64),
        (1_000_000, 1000, 1),
        (1, 0, 1),
    ],
)
def test_half_of_the_memory_holds_them(dim, num_bytes, expected):
    assert clients_in_memory(dim, num_bytes) == expected


def _see(monkeypatch, *devices):
    found = [types.SimpleNamespace(device_type=kind, memory_limit=size) for kind, size in devices]
    monkeypatch.setattr(blocks.device_lib, "list_local_devices", lambda: found)


def test_on_a_cpu_small_models_train_in_blocks_and_large_ones_do_not(monkeypatch):
    _see(monkeypatch, ("CPU", 2**40))
    assert default_clients_per_block(167_178) == 8
    assert default_clients_per_block(500_000) == 8
    assert default_clients_per_block(4_050_748) == 1


def test_on_a_gpu_its_own_memory_decides(monkeypatch):
    _see(monkeypatch, ("CPU", 2**10), ("GPU", 96_000_000 * 5))
    assert default_clients_per_block(1_000_000) == 5
