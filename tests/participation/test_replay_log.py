"""Production logs: what is refused, in one line that names file and row."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.participation.replay import read_replay_log

IDS = ["ada", "grace", "edsger"]


def read(folder, text: str):
    path = folder / "log.csv"
    path.write_text(text)
    return read_replay_log(path, IDS)


def test_a_log_in_any_order_with_other_columns(tmp_path):
    log = read(tmp_path, "when,client_id,round\n9,grace, 2\n\n8,ada,1\n8,grace,1\n")
    np.testing.assert_array_equal(log.clients, [1, 0, 1])
    np.testing.assert_array_equal(log.rounds, [1, 0, 0])
    assert log.num_rounds == 2
    assert log.clients.dtype == log.rounds.dtype == np.int32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column 'round'"),
        ("Round,client_id\n1,ada\n", "has no column 'round'; did you mean 'Round'?"),
        ("round,client\n1,ada\n", "has no column 'client_id'; did you mean 'client'?"),
        ("round,client_id\n", "must hold at least one row below the header, got none"),
        ("round,client_id\n1,ada\n2\n", "row 2: must have 2 fields, got 1"),
        ("round,client_id\n1,ada,x\n", "row 1: must have 2 fields, got 3"),
        (
            "round,client_id\n1,ada\none,ada\n",
            "row 2, column round: must be a whole number from 0 to 2147483647, got 'one'",
        ),
        ("round,client_id\n-1,ada\n", "row 1, column round: must be a whole number from 0"),
        ("round,client_id\n2147483648,ada\n", "row 1, column round: must be a whole number"),
        (f"round,client_id\n{'9' * 5000},ada\n", "row 1, column round: must be a whole number"),
        (
            "round,client_id\n1,ada\n1,grave\n",
            "row 2, column client_id: 'grave' is no client of the task; did you mean 'grace'?",
        ),
        (
            "round,client_id\n1,42\n",
            "row 1, column client_id: '42' is no client of the task; it has 3, such as 'ada'",
        ),
        ("round,client_id\n2,ada\n3,ada\n", "the first round is 2; must be 0 or 1"),
        (
            "round,client_id\n0,ada\n1,ada\n4,ada\n",
            "round 2 is missing; each up to 4 must have a row",
        ),
        (
            "round,client_id\n1,ada\n2,grace\n1,grace\n2,grace\n",
            "row 4: client 'grace' is in round 2 already (row 2); must be there at most once",
        ),
    ],
)
def test_what_is_refused(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    line = str(caught.value)
    assert line.startswith(f"{tmp_path / 'log.csv'}")
    assert message in line
    assert "\n" not in line


def test_no_file_and_no_text(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv: cannot be read: No such file"):
        read_replay_log(tmp_path / "none.csv", IDS)
    (tmp_path / "log.csv").write_bytes(b"round,client_id\n1,\xff\n")
    with pytest.raises(InputError, match="is not CSV"):
        read_replay_log(tmp_path / "log.csv", IDS)
