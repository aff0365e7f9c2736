"""Faults of a training are said once while it runs, also of rounds before an interruption."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from fl_audit.config import GaussianAdaptive
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.run.observers import (
    FaultLines,
    FinishedRound,
    MetricsCsv,
    RoundMetrics,
    StartedRun,
    read_metrics,
)
from fl_audit.tasks.learning_task import Examples

ROUNDS = 200


def diverging(number: int) -> RoundMetrics:
    """The clip norm doubles every four rounds, the loss is fine."""
    return RoundMetrics(
        round=number,
        num_clients=10,
        num_canaries=2,
        clip_norm=0.1 * 2 ** (number / 4),
        noise_stddev=0.05,
        aggregate_norm=0.02,
        train_loss=2.3 / number,
        accuracy=0.9 if number % 10 == 0 else None,
        seconds_training=0.4,
        seconds_scoring=0.01,
    )


def written(folder, rounds) -> RunFolder:
    """A run folder whose metrics.csv has these rounds."""
    run = RunFolder(folder)
    log = MetricsCsv()
    log.run_started(StartedRun(run, None, ROUNDS, 0))
    for number in rounds:
        log.round_finished(FinishedRound(diverging(number)))
    return run


def watch(folder, earlier=range(0)) -> FaultLines:
    classifier = SimpleNamespace(variable_sizes=(100, 10))
    held_out = Examples(np.zeros((3, 2), np.float32), np.zeros(3, np.int32))
    mechanism = GaussianAdaptive(noise_multiplier=1.0, clip_norm=0.1)
    run = SimpleNamespace(
        task=SimpleNamespace(classifier=classifier, held_out=held_out),
        config=SimpleNamespace(mechanism=mechanism),
    )
    lines = FaultLines(run)
    lines.run_started(StartedRun(written(folder, earlier), None, ROUNDS, len(earlier)))
    return lines


def test_a_fault_is_said_once(tmp_path, capsys):
    watching = watch(tmp_path)
    for number in range(1, ROUNDS + 1):
        watching.round_finished(FinishedRound(diverging(number)))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("round 19: clip norm runs away: The clip norm grew from")


def test_rounds_before_an_interruption_count(tmp_path, capsys):
    watch(tmp_path, range(1, 40)).round_finished(FinishedRound(diverging(40)))
    assert "round 40: clip norm runs away" in capsys.readouterr().err
    watch(tmp_path).round_finished(FinishedRound(diverging(40)))
    assert not capsys.readouterr().err


def test_a_few_rounds_are_not_looked_at(tmp_path, capsys):
    watching = watch(tmp_path)
    for number in range(1, 10):
        bad = dataclasses.replace(diverging(number), train_loss=float("inf"))
        watching.round_finished(FinishedRound(bad))
    assert not capsys.readouterr().err


def test_metrics_are_read_as_they_were_written(tmp_path):
    folder = written(tmp_path, (1, 2, 10))
    for read, number in zip(read_metrics(folder.metrics), (1, 2, 10), strict=True):
        assert dataclasses.asdict(read) == pytest.approx(dataclasses.asdict(diverging(number)))
    folder.metrics.write_text(folder.metrics.read_text().replace("0.02", "nothing"))
    with pytest.raises(InputError, match=r"metrics\.csv: holds what is no number"):
        read_metrics(folder.metrics)
