"""Run folders: the record of a run, written and read, and the lock of a folder."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import pytest

from fl_audit.errors import InputError
from fl_audit.formats.folders import (
    LOCK_NAME,
    RunFolder,
    RunRecord,
    locked,
    read_record,
    write_record,
)

STATISTICS = ("final", "final_minus_initial", "max", "sum")

RECORD = RunRecord(
    task="digits",
    runtime="native",
    dim=167_178,
    num_clients=300,
    num_canaries=500,
    num_included=251,
    rounds=100,
    delta=1e-12,
    client_participations=7,
    canary_participations=None,
    sampling_probability=20 / 300,
    noise_multiplier=0.3,
    sum_noise_multiplier=0.31182069023261244,
    count_noise_stddev=0.55,
    denominator=22.51,
    accuracy=0.94,
    accuracy_description="share of images right",
    training_seconds=12.5,
    scoring_seconds=0.5,
    versions={"numpy": "1.25.2"},
)


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder(tmp_path)


def test_record_round_trip(folder):
    write_record(folder, RECORD)
    assert read_record(folder) == RECORD


def test_record_is_json_for_other_programs(folder):
    write_record(folder, RECORD)
    table = json.loads(folder.record.read_text())
    assert table["format_version"] == 1
    assert table["canary_participations"] is None


def test_record_never_holds_nan(folder):
    with pytest.raises(ValueError, match="must be a number, got NaN"):
        write_record(folder, dataclasses.replace(RECORD, accuracy=float("nan")))
    assert not folder.record.exists()


def test_missing_record(folder):
    with pytest.raises(InputError, match=r"run\.json: cannot be read: No such file or directory$"):
        read_record(folder)


@pytest.mark.parametrize(
    "text", ["", "{", '{"format_version": 1, "task": "digits"}', "[]", "3", "null"]
)
def test_damaged_record(folder, text):
    folder.record.write_text(text)
    with pytest.raises(InputError, match=r"run\.json: is not a run record: ") as caught:
        read_record(folder)
    assert "\n" not in str(caught.value)


def test_record_of_another_version(folder):
    folder.record.write_text('{"format_version": 2, "new": 1}')
    with pytest.raises(InputError, match=r"run\.json: format_version is 2, must be 1$"):
        read_record(folder)


def test_record_with_a_value_of_another_type(folder):
    write_record(folder, RECORD)
    folder.record.write_text(
        folder.record.read_text().replace(f'"dim": {RECORD.dim}', '"dim": "x"')
    )
    with pytest.raises(InputError, match=r"Expected `int`, got `str` - at `\$\.dim`$"):
        read_record(folder)


def test_record_that_is_not_utf8(folder):
    folder.record.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"run\.json: is not a run record: "):
        read_record(folder)


def test_every_path_is_a_different_one_inside_the_folder(folder):
    properties = [n for n, v in vars(RunFolder).items() if isinstance(v, property)]
    paths = [getattr(folder, name) for name in properties]
    paths += [folder.scores(statistic) for statistic in STATISTICS]
    assert len(set(paths)) == len(paths) >= 14
    assert {path.parent for path in paths} == {folder.path}


def test_names_that_the_contract_fixes(folder):
    names = {p.name for p in map(folder.scores, STATISTICS)}
    names |= {folder.config.name, folder.metrics.name}
    names |= {folder.report_json.name, folder.report_html.name}
    assert names == {
        "scores_final.csv",
        "scores_final_minus_initial.csv",
        "scores_max.csv",
        "scores_sum.csv",
        "config.toml",
        "metrics.csv",
        "report.json",
        "report.html",
    }


# One process at a time in a folder; a dead process keeps nobody out.


_HOLDER = """
import sys, time
from pathlib import Path
from fl_audit.formats.folders import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(InputError, match=rf"another process \(number {holder.pid}\) is at work"),
            locked(tmp_path),
        ):
            pass
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    assert (tmp_path / LOCK_NAME).exists()  # as the killed process left it
    with locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_the_same_process_holds_a_lock_once(tmp_path):
    with locked(tmp_path), pytest.raises(InputError, match="is at work"), locked(tmp_path):
        pass


def test_an_error_gives_up_the_lock(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path):
        pass
