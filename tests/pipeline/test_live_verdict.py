"""A run that stops when its claim is contradicted: what it leaves behind, and how it goes on."""

import contextlib
import csv
import io
import json

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from fl_audit import RoundObserver, load_config, start_run
from fl_audit.cli import main
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.run_record import read_record
from fl_audit.formats.score_file import read_score_file

pytestmark = pytest.mark.usefixtures("toy_runtime")

ROUNDS = 12

CONFIG = """
runtime = "toy"
seed = 2
[task]
kind = "vectors"
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 0.2
clip_norm = 0.5
[participation]
kind = "shuffle"
rounds = 12
clients_per_round = 5
[canaries]
count = 60
[audit]
delta = 1e-3
claimed_epsilon = 2.0
threat_models = ["final", "final_and_initial", "all_iterates", "known_rounds"]
"""


class Listener(RoundObserver):
    """A user's observer."""

    def run_started(self, run):
        self.started, self.rounds, self.ended = run, [], None

    def round_finished(self, finished):
        self.rounds.append(finished)

    def run_ended(self, *, finished):
        self.ended = finished


@pytest.fixture(scope="module")
def told():
    """The observer of the run that stops, and what that run says on standard error."""
    return Listener(), io.StringIO()


@pytest.fixture(scope="module")
def folders(toy_runtime, tmp_path_factory, told):
    """The same run to its end, and stopped."""
    path = tmp_path_factory.mktemp("live")
    (path / "run.toml").write_text(CONFIG)
    (path / "stop.toml").write_text(CONFIG + "stop_when_contradicted = true\n")
    assert main(["run", str(path / "run.toml"), "--out", str(path / "run")]) == 3
    listener, said = told
    with contextlib.redirect_stderr(said):
        start_run(load_config(path / "stop.toml"), path / "stop", [listener])
    return RunFolder(path / "run"), RunFolder(path / "stop")


def test_an_observer_hears_what_the_metrics_say(folders, told):
    listener, _ = told
    assert listener.started.name == "stop"
    assert listener.started.num_rounds == ROUNDS
    assert listener.started.parameters["mechanism.noise_multiplier"] == 0.2
    assert listener.ended is True
    assert [f"{one.metrics.epsilon_lower_bound:.9g}" for one in listener.rounds] == lower_bound(
        folders[1]
    )
    assert [one.contradicted_at > 0 for one in listener.rounds[:-1]] == [False] * (
        len(listener.rounds) - 1
    )
    assert listener.rounds[-1].contradicted_at >= 2
    for one in listener.rounds:
        assert len(one.cosines.in_round) == one.metrics.num_canaries
        assert abs(one.cosines.excluded).max() < 1


@pytest.mark.slow
def test_a_claimed_curve_stops_a_run_too(tmp_path, capsys):
    curve = CONFIG.replace("claimed_epsilon = 2.0", "claimed_mu = 0.5")
    (tmp_path / "stop.toml").write_text(curve + "stop_when_contradicted = true\n")
    assert main(["run", str(tmp_path / "stop.toml"), "--out", str(tmp_path / "stop")]) == 3
    printed = capsys.readouterr()
    assert "the claimed curve is contradicted; the run stops" in printed.err
    assert "verdict: CONTRADICTED: the claim μ ≤ 0.5" in printed.out
    assert "are larger than the claim allows" in " ".join(printed.out.split())
    record = read_record(RunFolder(tmp_path / "stop"))
    assert record.rounds_done < ROUNDS
    assert record.live.claim_p_value <= 0.025


def test_tensorboard_has_what_is_proven_the_cosines_and_the_config(folders):
    board = EventAccumulator(str(folders[0].tensorboard), {"tensors": 0}).Reload()
    shown = [f"{value:.4g}" for value in _scalars(board, "epsilon_lower_bound")]
    assert shown == [f"{float(text):.4g}" for text in lower_bound(folders[0])]
    assert len(_scalars(board, "clip_norm")) == ROUNDS
    assert {"cosine_in_round", "cosine_excluded"} <= set(board.Tags()["tensors"])
    assert {"cosines_in_round", "cosines_excluded"} <= set(board.Tags()["tensors"])
    assert board.SummaryMetadata("_hparams_/session_start_info")


def _scalars(board, name):
    return [float(make_ndarray(event.tensor_proto)) for event in board.Tensors(name)]


def lower_bound(folder):
    with folder.metrics.open() as file:
        return [row["epsilon_lower_bound"] for row in csv.DictReader(file)]


def test_a_contradicted_run_stops_and_is_whole(folders):
    whole, stopped = folders
    record = read_record(stopped)
    assert record.stopped_after < ROUNDS
    assert record.rounds == ROUNDS
    assert record.live.claim_epsilon >= 2
    assert record.live.claim_p_value <= 0.025
    report = json.loads(stopped.report_json.read_text())
    verdict = report["verdict"]
    assert verdict["outcome"] == "contradicted"
    assert f"stopped in round {record.stopped_after} of 12" in verdict["reason"]
    assert verdict["statistic"] == "own_rounds"
    assert verdict["confidence"] == pytest.approx(0.975)
    assert f"{record.stopped_after} of 12 rounds" in stopped.report_html.read_text()
    assert set(report["statistics"]) == set(json.loads(whole.report_json.read_text())["statistics"])
    for statistic in report["statistics"]:
        assert np.isfinite(read_score_file(stopped.scores(statistic)).score).all()


def test_what_is_proven_stands_in_the_metrics_and_never_falls(folders):
    for folder, done in zip(folders, (ROUNDS, read_record(folders[1]).stopped_after), strict=True):
        numbers = [float(epsilon) for epsilon in lower_bound(folder)]
        assert len(numbers) == done
        assert numbers == sorted(numbers)
        assert read_record(folder).live.epsilon == pytest.approx(numbers[-1])


def test_a_stopped_run_without_a_report_is_not_trained_on(folders, tmp_path, monkeypatch):
    config, stopped = str(folders[1].path.parent / "stop.toml"), RunFolder(tmp_path / "stop")

    def crash(*_):
        raise RuntimeError("before the record")

    with monkeypatch.context() as patch:
        patch.setattr("fl_audit.run.train.write_text", crash)
        with pytest.raises(RuntimeError, match="before the record"):
            main(["run", config, "--out", str(stopped.path)])
    done = lower_bound(stopped)
    assert main(["run", config, "--out", str(stopped.path), "--resume"]) == 3
    assert lower_bound(stopped) == done
    record = read_record(stopped)
    assert record.stopped_after == len(done)
    assert record.live.epsilon == pytest.approx(float(done[-1]))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("participation.canary_repeats=2", "up to 2 rounds"),
        ("audit.claimed_epsilon=400", "claimed_epsilon"),
    ],
)
def test_what_cannot_be_tested_is_refused_before_training(folders, tmp_path, capsys, key, message):
    config = str(folders[1].path.parent / "stop.toml")
    assert main(["run", config, "--out", str(tmp_path / "out"), "--set", key]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
