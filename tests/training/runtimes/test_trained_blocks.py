"""The participants that a block-trained round is made of, with a trainer that tells them apart."""

import numpy as np
import pytest
import tensorflow as tf

from fl_audit.canaries.families import GaussianFamily
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.tff.blocks import TrainedBlock, TrainedBlocks
from fl_audit.engines.tff.rounds import flatten_weights
from fl_audit.tasks.learning_task import NO_CLASS, Examples

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
    return list(blocks.of(_WEIGHTS, data, NORM)), trainer, family


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
        update = flatten_weights(participant["update"])
        assert np.linalg.norm(update.astype(np.float64)) == pytest.approx(NORM, rel=1e-5)
        assert np.all(np.isfinite(update**2))
        assert update @ family.vector(canary) / np.linalg.norm(update) == pytest.approx(-1)
        assert [leaf.shape for leaf in participant["update"]] == [w.shape for w in _WEIGHTS]
        assert participant["metrics"]["loss"] == (0, 0)


def test_clients_come_before_canaries():
    participants, _, _ = _participants([1, 1], [2], clients_per_block=1)
    assert [float(p["metrics"]["loss"][1]) for p in participants] == [1, 1, 0]


def test_nobody_is_nobody():
    assert _participants([], [], clients_per_block=3)[0] == []
