import dataclasses

import pytest

from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.run.observers import FinishedRound, MetricsCsv, RoundMetrics, StartedRun, read_rows

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


def test_a_row_per_round(tmp_path):
    folder = RunFolder(tmp_path)
    _write(folder, [1, 2, 3])
    rows = read_rows(folder.metrics)
    assert [row["round"] for row in rows] == ["1", "2", "3"]
    assert [row["accuracy"] for row in rows] == ["", "", "0.5"]


def test_rounds_behind_the_checkpoint_are_dropped(tmp_path):
    folder = RunFolder(tmp_path)
    _write(folder, [1, 2, 3, 4])
    with folder.metrics.open("a") as file:
        file.write("5,10,2")  # the line that a kill has torn
    _write(folder, [3], completed=2)
    assert [row["round"] for row in read_rows(folder.metrics)] == ["1", "2", "3"]


def test_a_file_with_other_columns_is_refused(tmp_path):
    folder = RunFolder(tmp_path)
    folder.metrics.write_text("round,loss\n1,2\n")
    with pytest.raises(InputError, match="has no column 'num_clients'"):
        read_rows(folder.metrics)
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
    with pytest.raises(InputError, match=r"metrics\.csv: (columns must|cannot be read)"):
        _write(folder, [], completed=1)
