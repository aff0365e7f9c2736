"""Blocks of clients: their padding, what a round is made of, and how many train at once."""

import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.engines.client_blocks import BlockShape, clients_in_memory, pad_block
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.tff import trained_blocks as blocks
from fl_audit.engines.tff.algorithms import functional_model
from fl_audit.engines.tff.trained_blocks import (
    BlockTrainer,
    OptimizerSteps,
    TrainedBlock,
    TrainedBlocks,
    default_clients_per_block,
)
from fl_audit.tasks.learning_task import NO_CLASS, Examples
from fl_audit.tasks.tf.networks import as_classifier

pytestmark = pytest.mark.tff


def _padded(clients, batch_size, label=NO_CLASS):
    return pad_block(clients, BlockShape.least(clients, batch_size), label)


def test_sentences_are_padded_with_padding():
    rows = np.array([[7, 8, 0], [9, 0, 0], [3, 4, 5]], np.int32)
    block = _padded([Examples(rows, rows + 1), Examples(rows[:1], rows[:1] + 1)], 2, label=0)
    np.testing.assert_array_equal(block.inputs[1], [[[7, 8, 0], [0, 0, 0]], [[0] * 3] * 2])
    np.testing.assert_array_equal(block.labels[1], [[[8, 9, 1], [0, 0, 0]], [[0] * 3] * 2])
    assert block.inputs.dtype == np.int32


@pytest.mark.slow
def test_an_update_that_is_not_finite_is_zeroed_as_tff_does(dense_run, worker):
    """One client of a block overflows; TFF's own client work says what becomes of it."""
    classifier = as_classifier(dense_run.task.classifier)
    pool = Examples.concatenate([dense_run.task.population.examples(c) for c in (0, 1, 2)])
    first, second = pool.take(np.arange(6)), pool.take(np.arange(6, 15))
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


# The participants of a block-trained round, with a trainer that tells them apart.


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


def _participants(sizes, clients_per_block):
    clients = [
        Examples(np.zeros((size, 4), np.float32), np.full(size, label, np.int32))
        for label, size in enumerate(sizes, start=1)
    ]
    trainer = _Trainer()
    blocks = TrainedBlocks(trainer, clients_per_block, 2, NO_CLASS, family=None)
    data = RoundData(clients, np.zeros(0, np.int64))
    return list(blocks.inputs(_WEIGHTS, data, canary_norm=1.0)), trainer


def test_each_client_has_its_own_result_and_clients_of_a_size_share_a_block():
    participants, trainer = _participants([7, 1, 3, 8, 2], clients_per_block=2)
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
