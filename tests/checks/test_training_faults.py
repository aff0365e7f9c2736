"""Faults of training in curves that have them, and none in curves that have not."""

import dataclasses

import numpy as np
import pytest

from fl_audit.accounting.release import Denominator
from fl_audit.checks.training_faults import TrainingCurves, training_faults

ROUNDS = 40
GOOD = TrainingCurves(
    clip_norm=np.linspace(0.1, 0.6, ROUNDS),
    train_loss=np.linspace(2.3, 0.4, ROUNDS),
    accuracy=np.where(np.arange(ROUNDS) % 10 == 9, 0.8, np.nan),
    clients=np.full(ROUNDS, 10.0),
    canaries=np.full(ROUNDS, 6.0),
)


BY_EXPECTED, BY_ACTUAL = Denominator("expected_cohort", 16.0), Denominator("actual_cohort", 16.0)


def names(denominator=BY_EXPECTED, num_classes=10, **changes):
    curves = dataclasses.replace(GOOD, **changes)
    found = training_faults(curves, num_classes, denominator)
    return [fault.name for fault in found]


def test_a_good_training_has_none():
    assert names() == []
    assert names(clip_norm=np.full(ROUNDS, np.inf), train_loss=np.full(ROUNDS, np.nan)) == []


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"clip_norm": 0.1 * 1.15 ** np.arange(ROUNDS)}, "clip norm runs away"),
        (
            {"clip_norm": 0.85 ** np.arange(ROUNDS), "train_loss": np.full(ROUNDS, 2.3)},
            "clip norm runs away",
        ),
        ({"train_loss": np.linspace(2.3, 9, ROUNDS)}, "loss grows"),
        ({"train_loss": np.append(np.ones(ROUNDS - 1), np.inf)}, "loss grows"),
        ({"accuracy": np.append(np.full(ROUNDS - 1, np.nan), 0.11)}, "accuracy at chance"),
        ({"canaries": np.full(ROUNDS, 12.0)}, "mostly canaries"),
    ],
)
def test_each_fault_is_named(changes, name):
    assert names(**changes) == [name]


@pytest.mark.parametrize(
    ("num_classes", "accuracy", "is_at_chance"),
    [
        *((2, 0.74, False), (2, 0.56, False), (2, 0.54, True)),
        *((10, 0.16, False), (10, 0.14, True), (62, 0.025, False), (62, 0.024, True)),
    ],
)
def test_an_accuracy_is_at_chance_for_its_number_of_classes(num_classes, accuracy, is_at_chance):
    found = names(num_classes=num_classes, accuracy=np.full(ROUNDS, accuracy))
    assert found == ["accuracy at chance"] * is_at_chance


def test_a_clip_norm_may_shrink_with_updates_as_the_model_converges_but_not_grow():
    converged = {"train_loss": np.geomspace(1.0, 0.05, ROUNDS)}
    assert names(clip_norm=0.85 ** np.arange(ROUNDS), **converged) == []
    assert names(clip_norm=1.15 ** np.arange(ROUNDS), **converged) == ["clip norm runs away"]


def test_a_clip_norm_that_has_settled_has_not_run_away():
    grown = 0.1 * 1.2 ** np.minimum(np.arange(ROUNDS), 20)
    assert names(clip_norm=grown) == []
    wavering = 1 + 0.02 * np.sin(np.arange(ROUNDS))
    assert names(clip_norm=wavering * grown) == []
    assert names(clip_norm=wavering / grown) == []


def test_an_empty_round_matters_where_the_sum_is_divided_by_who_came():
    there = np.where(np.arange(ROUNDS) == 7, 0.0, 6.0)
    empty = {"clients": there, "canaries": 0 * there}
    assert names(**empty) == []
    assert names(BY_ACTUAL, **empty) == ["empty round"]
