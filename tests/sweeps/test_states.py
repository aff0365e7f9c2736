"""Which runs of a sweep are recognised as finished, and what the command says without Ray."""

import csv
import dataclasses
import importlib
import json
import subprocess
import sys

import msgspec
import pytest

from fl_audit.cli import main
from fl_audit.config.file import config_to_toml
from fl_audit.errors import InputError
from fl_audit.sweeps import plan_sweep, read_grid, run_sweep, sweep_json
from fl_audit.sweeps.sweep import (
    MEMORY_OF_A_RUN,
    RUNS_OF_A_PROCESS,
    Share,
    runs_of_a_process,
    share_of,
)
from fl_audit.tasks.task_kinds import PythonTask


@pytest.fixture
def begun(grid, tmp_path):
    """A sweep of three runs: one finished, one interrupted, one not begun."""
    path, out = grid("seeds = [1, 2, 3]"), tmp_path / "out"
    for run, is_finished in zip(read_grid(path), (True, False), strict=False):
        folder = out / "runs" / run.name
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(config_to_toml(run.config))
        if is_finished:
            (folder / "report.json").write_text("{}")
    return path, out


def test_a_finished_run_is_recognised_by_its_config(begun):
    states = plan_sweep(*begun)
    assert [state.state for state in states] == ["finished", "planned", "planned"]


def test_a_run_of_another_config_under_the_name_is_refused(begun):
    path, out = begun
    base = path.parent / "base.toml"
    base.write_text(base.read_text().replace("clip_norm = 1.0", "clip_norm = 2.0"))
    with pytest.raises(InputError, match=r"seed_1: holds a run of another config: `mechanism\.c"):
        plan_sweep(path, out)


def test_a_dry_run_prints_what_sweep_json_would_hold_and_writes_nothing(begun, capsys):
    path, out = begun
    before = sorted(out.rglob("*"))
    assert main(["sweep", str(path), "--out", str(out), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == sweep_json(plan_sweep(path, out))
    assert sorted(out.rglob("*")) == before
    assert main(["sweep", str(path), "--out", str(out), "--dry-run"]) == 0
    assert "runs: 3; 1 finished, 2 to run\nhours: " in capsys.readouterr().out


def test_a_dry_run_needs_neither_ray_nor_tensorflow(begun):
    path, out = begun
    program = (
        "import sys; from fl_audit.cli import main; "
        f"main(['sweep', {str(path)!r}, '--out', {str(out)!r}, '--dry-run']); "
        "sys.exit('ray' in sys.modules or 'tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_ray_one_line_names_the_extra_and_nothing_is_written(
    begun, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "ray", None)
    importlib.invalidate_caches()
    assert main(["sweep", str(begun[0]), "--out", str(tmp_path / "new")]) == 2
    assert "this needs ray, which is not installed" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_where_all_is_finished_ray_is_not_started(grid, make_run, tmp_path, monkeypatch, seeds):
    monkeypatch.setitem(sys.modules, "ray", None)
    path, out = grid(f"seeds = {list(seeds)}"), tmp_path / "out"
    (out / "runs").mkdir(parents=True)
    for run in read_grid(path):
        made = make_run(run.name, {"config.seed": run.config.seed})
        (made / "config.toml").write_text(config_to_toml(run.config))
        made.rename(out / "runs" / run.name)
    states = run_sweep(path, out)
    assert json.loads((out / "sweep.json").read_text()) == sweep_json(states)
    assert (out / "compare.html").exists() == (len(seeds) == 2)
    with (out / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["run"], row["seed"]) for row in rows} == {
        (f"runs/seed_{seed}", str(seed)) for seed in seeds
    }
    named = [(row["run"], row["statistic"], row["method"]) for row in rows]
    assert len(set(named)) == len(named)
    assert {"own_rounds", "max"} & {row["statistic"] for row in rows}
    assert {"threshold_valid", "gaussian_fit"} <= {row["method"] for row in rows}


_LARGE = 1000 * MEMORY_OF_A_RUN


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ((None, 8, 0, _LARGE, 20), Share(8, 1, 0.0)),
        ((None, 8, 0, 3 * MEMORY_OF_A_RUN, 20), Share(3, 2, 0.0)),
        ((None, 8, 0, 0, 20), Share(1, 8, 0.0)),
        ((None, 8, 0, _LARGE, 2), Share(2, 4, 0.0)),
        ((None, 16, 4, _LARGE, 20), Share(4, 4, 1.0)),
        ((2, 16, 4, _LARGE, 20), Share(2, 8, 2.0)),
        ((3, 16, 1, _LARGE, 20), Share(3, 5, 0.3333)),
        ((3, 16, 2, _LARGE, 20), Share(3, 5, 0.5)),
        ((5, 2, 0, _LARGE, 20), Share(5, 1, 0.0)),
    ],
)
def test_runs_share_the_machine(machine, expected):
    """`machine` is jobs, cores, GPUs, memory and runs."""
    assert share_of(*machine) == expected


def test_a_process_makes_several_runs_unless_it_has_a_gpu_or_code_of_the_users(grid):
    (run,) = read_grid(grid("seeds = [1]"))
    assert runs_of_a_process([(run, None)], gpus=0) == RUNS_OF_A_PROCESS > 1
    assert runs_of_a_process([(run, None)], gpus=1) == 1
    task = PythonTask(module="any:make", folder=".")
    own = dataclasses.replace(run, config=msgspec.structs.replace(run.config, task=task))
    assert runs_of_a_process([(run, None), (own, None)], gpus=0) == 1
