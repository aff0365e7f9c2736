"""The hours that a dry run tells: by a calibration, by finished runs, or none."""

import dataclasses
import types

import msgspec
import pytest

from fl_audit.cli import main
from fl_audit.participation.logged_cohorts import Replay
from fl_audit.planning import cost as planning_hours
from fl_audit.planning.cost import Calibration
from fl_audit.sweeps import plan_sweep, read_grid
from fl_audit.sweeps.sweep import RunTime, hours_line, time_of_finished


@pytest.fixture
def sweep(grid, tmp_path):
    """Three runs of four rounds: their file, their folder and their states, none finished."""
    path = grid("seeds = [1, 2, 3]")
    return path, tmp_path / "out", plan_sweep(path, tmp_path / "out")


def test_each_run_counts_its_start_and_its_rounds(sweep):
    path, _, states = sweep
    line = hours_line(read_grid(path), states, RunTime(600.0, 1800.0, "2 runs"))
    assert line == "hours: about 6 h 30 min for 3 runs in turn; 1,800 s a round, measured on 2 runs"


def test_runs_of_unknown_rounds_are_counted(sweep):
    path, _, states = sweep
    first, *rest = read_grid(path)
    replayed = dataclasses.replace(
        first,
        config=msgspec.structs.replace(first.config, participation=Replay(path="log.csv")),
    )
    line = hours_line([replayed, *rest], states, RunTime(600.0, 1800.0, "2 runs"))
    assert "for 2 runs in turn, without 1 run whose rounds depend on a log; 1,800 s" in line


def test_finished_runs_tell_the_time_of_the_rest(sweep, monkeypatch):
    path, _, (first, *rest) = sweep
    first.folder.mkdir(parents=True)
    (first.folder / "run.json").touch()
    record = types.SimpleNamespace(training_seconds=9.0, scoring_seconds=1.0, rounds_done=5)
    monkeypatch.setattr("fl_audit.sweeps.sweep.read_record", lambda folder: record)
    states = [dataclasses.replace(first, state="finished"), *rest]
    time = time_of_finished(states)
    assert time == RunTime(0.0, 2.0, "1 finished run of the sweep")
    assert hours_line(read_grid(path), states, time).startswith("hours: about 16 s for 2 runs in")


def test_a_calibration_trains_the_first_run_that_is_left(sweep, capsys, monkeypatch):
    path, out, _ = sweep
    asked = []

    def calibrate(config, seconds):
        asked.append((config.seed, seconds))
        return Calibration(start_seconds=60.0, round_seconds=20.0, rounds_timed=7, rounds=4)

    monkeypatch.setattr(planning_hours, "calibrate", calibrate)
    assert main(["sweep", str(path), "--out", str(out), "--dry-run", "--calibrate", "5"]) == 0
    assert asked == [(1, 5.0)]
    told = (
        "about 6 min for 3 runs in turn; 20 s a round, measured on 7 rounds of seed_1, trained now"
    )
    assert told in capsys.readouterr().out
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--calibrate"], "--calibrate 60: is only for --dry-run"),
        (["--dry-run", "--json", "--calibrate"], "--calibrate 60: is only for --dry-run without"),
        (["--dry-run", "--calibrate", "0"], "--calibrate 0: must be above 0 and at most 3600 s"),
        (["--dry-run", "--calibrate", "3601"], "--calibrate 3601: must be above 0 and at most"),
        (["--dry-run", "--jobs", "3"], "--jobs 3: is not for --dry-run, which starts no run"),
    ],
)
def test_a_calibration_belongs_to_a_dry_run_and_ends_and_jobs_to_a_run(
    sweep, capsys, arguments, message
):
    path, out, _ = sweep
    assert main(["sweep", str(path), "--out", str(out), *arguments]) == 2
    assert message in capsys.readouterr().err
