"""Observers: metrics.csv, standard error, lines that name a fault, and who is told of what."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from fl_audit.accounting import Denominator
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.metrics_file import RoundMetrics, read_metrics
from fl_audit.run.observers import (
    FaultLines,
    FinishedRound,
    MetricsCsv,
    ProgressDisplay,
    RoundObserver,
    StartedRun,
    VerdictLine,
)
from fl_audit.run.train import observing
from fl_audit.tasks.learning_task import Examples

_METRICS = RoundMetrics(
    round=1,
    num_clients=10,
    num_canaries=2,
    clip_norm=0.1,
    noise_stddev=0.05,
    aggregate_norm=0.02,
    train_loss=2.3,
    accuracy=None,
    seconds_training=0.4,
    seconds_scoring=0.01,
)


def _write(folder, rounds, completed=0):
    log = MetricsCsv()
    log.run_started(StartedRun(folder, config=None, num_rounds=4, completed_rounds=completed))
    for number in rounds:
        accuracy = 0.5 if number == 3 else None
        log.round_finished(
            FinishedRound(dataclasses.replace(_METRICS, round=number, accuracy=accuracy))
        )


def test_rounds_behind_the_checkpoint_are_dropped(tmp_path):
    folder = RunFolder(tmp_path)
    _write(folder, [1, 2, 3, 4])
    with folder.metrics.open("a") as file:
        file.write("5,10,2")  # the line that a kill has torn
    _write(folder, [3], completed=2)
    assert [row.round for row in read_metrics(folder.metrics)] == [1, 2, 3]


def test_a_file_with_other_columns_is_refused(tmp_path):
    folder = RunFolder(tmp_path)
    folder.metrics.write_text("round,loss\n1,2\n")
    with pytest.raises(InputError, match="has no column 'num_clients'"):
        read_metrics(folder.metrics)
    with pytest.raises(InputError, match="columns must be round,num_clients"):
        _write(folder, [], completed=1)


def test_rows_that_the_checkpoint_counts_must_be_there(tmp_path):
    folder = RunFolder(tmp_path)
    _write(folder, [1, 2])
    with pytest.raises(InputError, match=r"has 2 rows, must have one for each of the 3 rounds"):
        _write(folder, [], completed=3)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", None])
def test_a_damaged_file_is_one_line(tmp_path, content):
    folder = RunFolder(tmp_path)
    if content is not None:
        folder.metrics.write_bytes(content)
    with pytest.raises(InputError, match=r"metrics\.csv: (columns must|cannot|must be UTF-8)"):
        _write(folder, [], completed=1)


def finished(number, accuracy=None, epsilon=None, contradicted_at=0.0):
    metrics = RoundMetrics(number, 9, 1, 1.0, 0.5, 0.1, 2.34567, accuracy, 0.4, 0.01, epsilon)
    return FinishedRound(metrics, contradicted_at=contradicted_at)


def started(rounds, completed=0, claim=None):
    config = SimpleNamespace(audit=SimpleNamespace(claimed_epsilon=claim))
    return SimpleNamespace(
        name="first", num_rounds=rounds, completed_rounds=completed, config=config
    )


def show(observer, run, rounds):
    observer.run_started(run)
    for one in rounds:
        observer.round_finished(one)
    observer.run_ended(finished=True)


def test_a_line_for_each_tenth_of_a_run(capsys):
    rounds = [finished(n, 0.5 if n == 10 else None, 1.234) for n in range(1, 101)]
    show(ProgressDisplay(), started(100), rounds)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert (
        lines[0]
        == "first: 10 of 100 rounds, loss 2.346, accuracy 0.500, lower bound for a canary ε ≥ 1.23"
    )
    assert lines[-1].startswith("first: 100 of 100 rounds, ")


def test_a_run_that_its_claim_ends_says_so(capsys):
    rounds = [finished(1), finished(2, contradicted_at=2.5)]
    show(VerdictLine(), started(9, claim=2.0), rounds)
    assert capsys.readouterr().err == (
        "round 2: the claim of epsilon 2 is contradicted (lower bound 2.50); the run stops\n"
    )


# Faults of a training are said once while it runs, also of rounds before an interruption.


ROUNDS = 200


def diverging(number: int) -> RoundMetrics:
    """The clip norm doubles every four rounds, the loss is fine."""
    clip_norm, accuracy = 0.1 * 2 ** (number / 4), 0.9 if number % 10 == 0 else None
    return dataclasses.replace(
        _METRICS, round=number, clip_norm=clip_norm, train_loss=2.3 / number, accuracy=accuracy
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
    classifier = SimpleNamespace(variable_sizes=(10, 2), num_classes=10)
    held_out = Examples(np.zeros((3, 2), np.float32), np.zeros(3, np.int32))
    run = SimpleNamespace(
        task=SimpleNamespace(classifier=classifier, held_out=held_out, labels="classes"),
        release=SimpleNamespace(denominator=Denominator("expected_cohort", 20.0)),
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


def test_metrics_are_read_as_they_were_written(tmp_path):
    folder = written(tmp_path, (1, 2, 10))
    for read, number in zip(read_metrics(folder.metrics), (1, 2, 10), strict=True):
        assert dataclasses.asdict(read) == pytest.approx(dataclasses.asdict(diverging(number)))
    folder.metrics.write_text(folder.metrics.read_text().replace("0.02", "nothing"))
    with pytest.raises(InputError, match=r"metrics\.csv: holds a value that is not a number"):
        read_metrics(folder.metrics)


# Observers are told of a run's start, of its rounds and of its end, whatever ends it.


class Listener(RoundObserver):
    def __init__(self, heard, name):
        self.heard, self.name = heard, name

    def run_started(self, run):
        self.heard.append((self.name, run))

    def run_ended(self, *, finished):
        self.heard.append((self.name, finished))


def test_an_interrupted_run_ends_unfinished():
    heard = []
    with pytest.raises(KeyboardInterrupt), observing([Listener(heard, "a")], "run"):
        raise KeyboardInterrupt
    assert heard[-1] == ("a", False)


def test_the_last_weight_of_an_own_model_is_not_the_number_of_classes(tmp_path, capsys):
    watching = watch(tmp_path)
    for number in range(1, 11):
        metrics = dataclasses.replace(diverging(number), accuracy=0.1, clip_norm=1.0)
        watching.round_finished(FinishedRound(metrics))
    assert "a guess among 10 has" in capsys.readouterr().err
