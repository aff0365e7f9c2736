"""participation.json of a log: what is written is read, and what is wrong is named."""

import json

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.formats.participation_files import (
    Participation,
    read_canaries,
    read_participation,
    write_participation,
)


@pytest.mark.parametrize(("sampling", "counts"), [("none", False), ("poisson", True)])
def test_a_claim_counts_on_sampling_where_somebody_is_drawn_unless_it_is_said_not_to(
    tmp_path, sampling, counts
):
    path = tmp_path / "participation.json"
    path.write_text(json.dumps({"sampling": sampling}))
    assert read_participation(path).claim_counts_on_sampling is counts


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], "must be a table, got a list"),
        ({}, "lacks the key `sampling`"),
        ({"sampling": "none", "client_round": 3}, "unknown key `client_round`; .*client_rounds"),
        ({"sampling": "poison"}, "sampling: must be one of none, .*mean .poisson"),
        ({"sampling": "poisson", "probability": 1.5}, "`probability`: must be a number of at most"),
        ({"sampling": "poisson", "probability": "0.1"}, "`probability`: must be a number, got te"),
        ({"sampling": "none", "client_rounds": 0}, "`client_rounds`: must be a whole number of at"),
        ({"sampling": "none", "client_rounds": True}, "`client_rounds`: must be a whole number"),
        ({"sampling": "none", "client_rounds": 2.5}, "`client_rounds`: must be a whole number"),
        ({"sampling": "none", "client_weight": -1}, "`client_weight`: must be a number above 0"),
        ({"sampling": "cyclic_poisson", "probability": 0.1}, "separation: must be given if"),
        ({"sampling": "random_allocation"}, "client_rounds: must be given if"),
        ({"sampling": "balls_in_bins", "separation": 0}, "`separation`: must be a whole number of"),
        ({"sampling": "poisson", "canaries": "alike"}, "`canaries`: unknown 'alike'"),
        ({"sampling": "none", "claim_counts_on_sampling": 1}, "must be true or false, got a whole"),
        ({"sampling": "none", "claim_counts_on_sampling": True}, "must be false where sampling"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(tmp_path, fields, message):
    path = tmp_path / "participation.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(InputError, match=message) as caught:
        read_participation(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("rounds", [0, 2.5, True, "2"])
def test_a_value_that_no_file_holds_is_refused_too(rounds):
    with pytest.raises(InputError, match="key `client_rounds`: must be a whole number"):
        Participation("none", client_rounds=rounds)


def test_blanks_around_a_canary_are_no_part_of_its_name(tmp_path):
    (tmp_path / "canaries.csv").write_text("canary_id, included, arm\n 3 , 1, once\n4, 0, \n")
    read = read_canaries(tmp_path / "canaries.csv")
    assert {name: row.included for name, row in read.items()} == {"3": True, "4": False}
    assert {name: row.arm for name, row in read.items()} == {"3": "once", "4": ""}


def test_numbers_of_numpy_are_numbers(tmp_path):
    path = tmp_path / "participation.json"
    stated = Participation("poisson", np.float64(0.25), members=np.int64(40))
    write_participation(path, stated)
    assert read_participation(path) == stated
