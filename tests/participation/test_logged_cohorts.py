"""Replay of a production log, and its canaries."""

from pathlib import Path

import attendance
import numpy as np
import pytest
from attendance import INCLUDED, chi_square, schedule_of

from fl_audit.accounting import FixedRounds
from fl_audit.config import Replay
from fl_audit.config.file import load_config
from fl_audit.errors import InputError
from fl_audit.participation.logged_cohorts import logged_clients, read_replay_log

NUM_CLIENTS = 12
# 30 rounds from 1; client 7 takes part most often, client 11 never.
PRESENT = np.random.default_rng(5).random((30, NUM_CLIENTS)) < 0.2
PRESENT[:, 0] = True
PRESENT[::2, 0] = False
PRESENT[:, 7] = True
PRESENT[::5, 7] = False
PRESENT[:, 11] = False


def log_of(folder: Path, present: np.ndarray, first: int = 1) -> str:
    """A log in shuffled order, with a column of its own."""
    rows = [f"{first + r},x,client-{c}" for r, c in np.argwhere(present)]
    shuffled = np.random.default_rng(6).permutation(rows)
    path = folder / "log.csv"
    path.write_text("\n".join(["round,region,client_id", *shuffled]) + "\n")
    return str(path)


@pytest.mark.parametrize("first", [0, 1])
def test_real_clients_are_where_the_log_says(tmp_path, first):
    schedule = schedule_of(Replay(path=log_of(tmp_path, PRESENT, first)), NUM_CLIENTS)
    table = attendance.attendance(schedule, NUM_CLIENTS)
    np.testing.assert_array_equal(table.clients, PRESENT)
    assert schedule.num_rounds == 30
    assert schedule.expected_clients == pytest.approx(PRESENT.sum() / 30)
    assert schedule.client_participations == PRESENT.sum(axis=0).max() == 24
    assert type(schedule.client_attendance.sampling) is FixedRounds


def test_canaries_like_clients_have_the_rounds_of_one_of_the_log(tmp_path):
    included = np.ones(11_000, bool)
    schedule = schedule_of(Replay(path=log_of(tmp_path, PRESENT)), NUM_CLIENTS, included)
    table = attendance.attendance(schedule, NUM_CLIENTS, pool=11_000).canaries
    matches = (table.T[:, None, :] == PRESENT.T[None, :11, :]).all(axis=2)
    assert (matches.sum(axis=1) == 1).all()
    # 11 clients are in the log: chi2.sf(53, 10) = 7e-8.
    assert chi_square(matches.sum(axis=0), 1000) < 53
    assert schedule.canary_participations == table.sum(axis=0).max()
    assert schedule.expected_canaries == pytest.approx(table.sum() / 30)


def test_most_frequent_canaries_have_the_rounds_of_the_most_frequent_client(tmp_path):
    config = Replay(path=log_of(tmp_path, PRESENT), canaries="most_frequent")
    schedule = schedule_of(config, NUM_CLIENTS)
    table = attendance.attendance(schedule, NUM_CLIENTS).canaries
    np.testing.assert_array_equal(table, np.outer(PRESENT[:, 7], INCLUDED))
    assert schedule.canary_participations == 24


def test_most_frequent_clients_share_canaries_where_there_are_several(tmp_path):
    tied = PRESENT.copy()
    tied[:, 7] = np.roll(tied[:, 0], 1)
    tied[:, 1:7] = tied[:, 8:] = False
    config = Replay(path=log_of(tmp_path, tied), canaries="most_frequent")
    schedule = schedule_of(config, NUM_CLIENTS, np.ones(10_000, bool))
    sizes = np.array([len(schedule.canaries(r)) for r in range(2)])
    assert sizes.sum() == 10_000
    # chi2.sf(29, 1) = 7e-8.
    assert chi_square(sizes, 5000) < 29


def test_a_relative_path_starts_at_the_configs_folder(tmp_path):
    (tmp_path / "config.toml").write_text(
        "task = { kind = 'digits' }\n"
        "mechanism = { kind = 'gaussian_fixed', noise_multiplier = 1.0, clip_norm = 1.0 }\n"
        "participation = { kind = 'replay', path = 'logs/monday.csv' }\n"
        "canaries = { count = 10 }\n"
    )
    found = load_config(tmp_path / "config.toml").participation
    assert found == Replay(path=str(tmp_path / "logs" / "monday.csv"))


# Production logs: what is refused, in one line that names file and row.


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


def test_rounds_without_a_client_are_rows_without_one(tmp_path):
    log = read(tmp_path, "round,client_id\n0,\n1,ada\n2, \n3,ada\n4,\n")
    np.testing.assert_array_equal(log.clients, [0, 0])
    np.testing.assert_array_equal(log.rounds, [1, 3])
    assert log.num_rounds == 5
    assert logged_clients(tmp_path / "log.csv") == {"ada"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must start with a header naming round, client_id"),
        ("Round,client_id\n1,ada\n", "has no column 'round': did you mean 'Round'?"),
        ("round,client\n1,ada\n", "has no column 'client_id': did you mean 'client'?"),
        ("round,client_id\n", "must hold at least one row with a client, got none"),
        ("round,client_id\n1,ada\n2\n", "line 3: must have 2 fields, got 1"),
        ("round,client_id\n1,ada,x\n", "line 2: must have 2 fields, got 3"),
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
            "row 1, column client_id: '42' is no client of the task; the task has 3, such as 'ada'",
        ),
        ("round,client_id\n2,ada\n3,ada\n", "the first round is 2; must be 0 or 1"),
        (
            "round,client_id\n0,ada\n1,ada\n4,ada\n",
            "round 2 is missing; each round up to 4 must have a row, `2,` if no client came",
        ),
        (
            "round,client_id\n1,ada\n2,grace\n1,grace\n2,grace\n",
            "row 4: client 'grace' is in round 2 already (row 2); must be there at most once",
        ),
        (
            "round,client_id\n1,ada\n2,\n3,grace\n3,grace\n",
            "row 4: client 'grace' is in round 3 already (row 3); must be there at most once",
        ),
        (
            "round,client_id\n1,ada\n1,\n",
            "round 1 has rows with clients and a row without",
        ),
        ("round,client_id\n1,\n2,\n", "must hold at least one row with a client, got none"),
    ],
)
def test_what_is_refused(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    line = str(caught.value)
    assert line.startswith(f"{tmp_path / 'log.csv'}")
    assert message in line
    assert "\n" not in line


def test_rounds_kept_of_a_log_must_have_a_client(tmp_path):
    (tmp_path / "log.csv").write_text("round,client_id\n0,\n1,\n2,client-1\n")
    config = Replay(path=str(tmp_path / "log.csv"), rounds=2)
    with pytest.raises(InputError, match=r"^participation\.rounds: .* must be at least 3, the log"):
        schedule_of(config, NUM_CLIENTS)
