"""run.json: the record of a run, written and read."""

import dataclasses
import json

import pytest

from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.run_record import RunRecord, read_record, write_record

RECORD = RunRecord.from_json(
    {
        "task": "digits",
        "runtime": "native",
        "dim": 167_178,
        "num_clients": 300,
        "num_canaries": 500,
        "num_included": 251,
        "rounds": 100,
        "delta": 1e-12,
        "client_participations": 7,
        "canary_participations": None,
        "sampling_probability": 20 / 300,
        "noise_multiplier": 0.3,
        "sum_noise_multiplier": 0.31182069023261244,
        "count_noise_stddev": 0.55,
        "denominator": 22.51,
        "accuracy": 0.94,
        "accuracy_description": "share of images right",
        "training_seconds": 12.5,
        "scoring_seconds": 0.5,
        "versions": {"numpy": "1.25.2"},
    }
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
    with pytest.raises(InputError, match=r"expected a whole number, got 'x' - at `\$\.dim`$"):
        read_record(folder)


def test_record_that_is_not_utf8(folder):
    folder.record.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"run\.json: is not a run record: "):
        read_record(folder)
