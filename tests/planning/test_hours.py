"""Hours from a calibration, and plans from numbers alone."""

import json

import numpy as np
import pytest

from fl_audit.cli import main
from fl_audit.planning.cost import Calibration
from fl_audit.planning.planned_run import NumberedClients
from tests.planning.test_plan_command import CONFIG

pytestmark = pytest.mark.tff

NUMBERS = "task={kind='numbers', num_clients=60, dim=1210}"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.replace("claimed_epsilon = 20.0", ""))
    return str(path)


def test_runs_go_to_the_next_free_machine():
    measured = Calibration(start_seconds=40.0, round_seconds=2.0, rounds_timed=9, rounds=101)
    assert measured.seconds() == 240
    assert measured.seconds(runs=10, machines=4) == 3 * 240
    assert measured.seconds(runs=2, machines=4) == 240


@pytest.mark.slow
def test_a_calibration_trains_the_first_rounds(config, capsys):
    asked = ["plan", config, "--trials", "3", "--json", "--calibrate", "0.01"]
    assert main([*asked, "--runs", "12", "--machines", "4"]) == 0
    hours = json.loads(capsys.readouterr().out)["hours"]
    assert (hours["runs"], hours["machines"], hours["rounds_timed"]) == (12, 4, 3)
    one = hours["start_seconds"] + 5 * hours["round_seconds"]
    assert hours["hours"] == pytest.approx(3 * one / 3600)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--runs", "0"], "--runs 0: must be at least 1"),
        (["--calibrate", "-1"], "--calibrate -1: must be above 0 and at most 3600 seconds"),
    ],
)
def test_bad_numbers_are_one_line_before_anything_is_loaded(config, capsys, asked, message):
    assert main(["plan", config, *asked]) == 2
    assert message in capsys.readouterr().err


def test_numbers_alone_plan_as_the_task_does(config, capsys):
    def plan(*sets):
        changed = [part for entry in sets for part in ("--set", entry)]
        assert main(["plan", config, "--trials", "3", "--json", *changed]) == 0
        return json.loads(capsys.readouterr().out)

    loaded, stated = plan(), plan(NUMBERS)
    assert (stated["dim"], stated["num_clients"]) == (loaded["dim"], loaded["num_clients"])
    assert stated["not_predicted"] == ["final"]
    for name, predicted in stated["statistics"].items():
        assert predicted == loaded["statistics"][name]


def test_numbers_alone_are_not_trained(config, tmp_path, capsys):
    assert main(["run", config, "--out", str(tmp_path / "out"), "--set", NUMBERS]) == 2
    assert "'numbers' has no data to train on" in capsys.readouterr().err


def test_clients_are_numbered():
    clients = NumberedClients(342_477)
    assert (len(clients), clients[342_476], clients[2:4]) == (342_477, "342476", ["2", "3"])
    assert np.isin("7", clients[:10])
