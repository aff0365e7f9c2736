"""Whole runs through the command line: what they leave, without canaries, bad input."""

import csv
import errno
import json
import os
from pathlib import Path

import pytest

from fl_audit.cli import main
from tests.small_configs import TINY_RUN

STATISTICS = (
    *("final", "final_minus_initial", "max", "sum"),
    *("checkpoints_max", "checkpoints_sum", "window_max", "window_sum"),
)

pytestmark = pytest.mark.tff

_CONFIG = """
seed = 2
[task]
kind = "digits"
num_clients = 100
hidden = []
[client]
batch_size = 5
learning_rate = 0.3
[mechanism]
kind = "gaussian_adaptive"
noise_multiplier = 0.0
clip_norm = 1.0
[participation]
kind = "shuffle"
rounds = 12
clients_per_round = 10
[canaries]
count = 120
[log]
checkpoint_every = 3
evaluate_every = 4
[audit]
delta = 1e-3
threat_models = ["final", "final_and_initial", "all_iterates", "checkpoints", "window"]
release_every = 5
window_first_round = 4
window_last_round = 7
"""


@pytest.fixture(scope="module")
def config_path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("config") / "run.toml"
    path.write_text(_CONFIG)
    return path


@pytest.fixture(scope="module")
def noiseless(config_path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "noiseless"
    assert main(["run", str(config_path), "--out", str(out)]) == 0
    return out


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_run_folder_holds_what_the_contract_says(noiseless):
    names = {path.name for path in noiseless.iterdir()}
    scores = {f"scores_{statistic}.csv" for statistic in STATISTICS}
    assert names >= {"config.toml", "metrics.csv", "report.json", "report.html", *scores}
    assert list((noiseless / "tensorboard").glob("events.out.tfevents.*"))
    rows = _rows(noiseless / "metrics.csv")
    assert [row["round"] for row in rows] == [str(r) for r in range(1, 13)]
    assert {row["num_clients"] for row in rows} == {"10"}
    report = json.loads((noiseless / "report.json").read_text())
    assert set(report["statistics"]) == set(STATISTICS)
    assert report["analytical_epsilon"] == "inf"
    assert report["accuracy"] == pytest.approx(float(rows[-1]["accuracy"]))
    assert report["accuracy"] > 0.6  # ten classes: it has learned


@pytest.mark.slow
def test_a_run_without_canaries_learns_and_audits_nothing(config_path, tmp_path, capsys):
    without = ["run", str(config_path), "--set", "canaries.count=0"]
    assert main([*without, "--out", str(tmp_path / "claim"), "--set", "audit.claimed_epsilon=1"])
    assert "a claim is tested with canaries, but canaries.count is 0" in capsys.readouterr().err
    out = tmp_path / "baseline"
    short = ["--set", "participation.rounds=8", "--set", "mechanism.noise_multiplier=0.1"]
    assert main([*without, "--out", str(out), *short]) == 0
    assert "This run had no canaries" in capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    assert (report["statistics"], report["verdict"]) == ({}, None)
    assert report["accuracy"] > 0.1
    assert report["analytical_epsilon"] > 0  # what a client would be promised
    assert {row["num_canaries"] for row in _rows(out / "metrics.csv")} == {"0"}
    assert not list(out.glob("scores_*.csv"))
    assert "This run had no canaries" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "mechanism.noise_multiplier=-1"], "`mechanism.noise_multiplier`"),
        (["--set", "mechanism.noise_multipler=1"], "did you mean 'noise_multiplier'?"),
        (["--set", "canaries.count=1000000"], "more canaries than can be scheduled"),
        (["--set", "task.num_clients=5"], "clients_per_round: 10 of 5 real clients"),
        (["--set", "audit.window_last_round=13"], "is 13 of 12 rounds"),
        (["--set", "audit.release_every=12"], "is 12, must be less than the number of rounds, 12"),
        (["--set", "audit.claimed_mu=50"], "claimed mu must allow an epsilon above 0"),
        (["--resume"], "holds no run to resume"),
        (
            ["--set", "runtime=native", "--set", "clients_per_block=4"],
            "clients_per_block: is for runtime 'local'",
        ),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    config_path, tmp_path, capsys, arguments, message
):
    out = tmp_path / "out"
    assert main(["run", str(config_path), "--out", str(out), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("fl-audit: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert not out.exists()


def test_a_store_of_another_pool_is_refused_before_anything_is_written(
    config_path, tmp_path, capsys
):
    pool, out = tmp_path / "pool", tmp_path / "out"
    pool.write_bytes(b"someone's notes")
    keys = ("family=gaussian", "store=disk", f"store_path={pool}")
    overrides = [item for key in keys for item in ("--set", f"canaries.{key}")]
    assert main(["run", str(config_path), "--out", str(out), *overrides]) == 2
    assert capsys.readouterr().err.startswith(f"fl-audit: error: {pool}: must start with")
    assert list(tmp_path.iterdir()) == [pool]
    assert pool.read_bytes() == b"someone's notes"


def test_a_log_that_the_disk_has_no_room_for_leaves_nothing(
    config_path, tmp_path, capsys, monkeypatch
):
    def no_room(descriptor, start, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    out = tmp_path / "out"
    for is_there in (False, True):
        assert out.exists() == is_there
        assert main(["run", str(config_path), "--out", str(out)]) == 2
        assert "5,760 bytes: No space left on device; once that is" in capsys.readouterr().err
        assert not is_there or not list(out.iterdir())
        out.mkdir(exist_ok=True)


@pytest.mark.slow
def test_a_training_that_diverges_ends_in_one_line_with_its_round(tmp_path, capsys):
    config, out = tmp_path / "config.toml", tmp_path / "out"
    unclipped = 'kind = "none"\ncanary_norm = 1.0'
    clipped = 'kind = "gaussian_fixed"\nnoise_multiplier = 0.0\nclip_norm = 1.0'
    rates = "[client]\nlearning_rate = 1e30\n[server]\nlearning_rate = 1e30\n"
    linear = TINY_RUN.replace("hidden = [8]", "hidden = []")
    config.write_text(linear.replace(clipped, unclipped) + rates)
    assert main(["run", str(config), "--out", str(out)]) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "fl-audit" in one]
    assert line.startswith("fl-audit: error: round 1: the training diverged: ")
    assert "server.learning_rate" in line
    assert not out.exists()
