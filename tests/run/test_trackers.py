"""MLflow and Weights & Biases, played by modules that write down what is called."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from fl_audit.config import Canaries, Config, DigitsTask, GaussianFixed, Shuffle
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.metrics_file import RoundMetrics
from fl_audit.run.observers import CanaryCosines, FinishedRound, StartedRun
from fl_audit.run.trackers import MlflowObserver, WandbObserver

FINISHED = FinishedRound(
    RoundMetrics(3, 10, 2, 0.1, 0.05, 0.02, 2.3, None, 0.4, 0.01, 1.5),
    CanaryCosines(in_round=np.array([0.25, 0.75]), excluded=np.zeros(4)),
)
NUMBERS = {
    "num_clients": 10,
    "num_canaries": 2,
    "clip_norm": 0.1,
    "noise_stddev": 0.05,
    "aggregate_norm": 0.02,
    "train_loss": 2.3,
    "seconds_training": 0.4,
    "seconds_scoring": 0.01,
    "epsilon_lower_bound": 1.5,
    "cosine_in_round": 0.5,
    "cosine_excluded": 0.0,
}


@pytest.fixture
def run(tmp_path):
    config = Config(
        task=DigitsTask(num_clients=60, hidden=[64]),
        mechanism=GaussianFixed(noise_multiplier=0.5, clip_norm=1.0),
        participation=Shuffle(rounds=4, clients_per_round=10),
        canaries=Canaries(count=8),
    )
    return StartedRun(RunFolder(tmp_path / "first"), config, num_rounds=4, completed_rounds=0)


class Calls(list):
    """A list of the calls of functions that it makes."""

    def function(self, name, result=None):
        def call(*arguments, **named):
            self.append((name, *arguments, named) if named else (name, *arguments))
            return result

        return call


@pytest.fixture
def calls(monkeypatch):
    """The calls of both packages."""
    calls = Calls()
    mlflow = ModuleType("mlflow")
    for name in ("start_run", "log_params", "log_metrics", "end_run"):
        setattr(mlflow, name, calls.function(name))
    mlflow.active_run = lambda: None
    wandb = ModuleType("wandb")
    wandb.run = None
    tracked = SimpleNamespace(
        config=SimpleNamespace(update=calls.function("config.update")),
        log=calls.function("log"),
        finish=calls.function("finish"),
    )
    wandb.init = calls.function("init", tracked)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    return calls


def tell(observer, run):
    observer.run_started(run)
    observer.round_finished(FINISHED)
    observer.run_ended(finished=False)


def test_mlflow_gets_the_config_and_the_rounds(calls, run):
    tell(MlflowObserver(), run)
    assert calls == [
        ("start_run", {"run_name": "first"}),
        ("log_params", run.parameters),
        ("log_metrics", NUMBERS, {"step": 3}),
        ("end_run", "KILLED"),
    ]
    assert run.parameters["task.hidden"] == "[64]"
    assert run.parameters["mechanism.noise_multiplier"] == 0.5


def test_wandb_gets_the_config_and_the_rounds(calls, run):
    tell(WandbObserver(), run)
    assert calls == [
        ("init", {"name": "first"}),
        ("config.update", run.parameters),
        ("log", NUMBERS, {"step": 3}),
        ("finish", {"exit_code": 1}),
    ]


@pytest.mark.parametrize("observer", [MlflowObserver, WandbObserver])
def test_what_is_not_installed_is_named_with_its_extra(observer, monkeypatch):
    package = observer.__name__.removesuffix("Observer").lower()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"needs {package}.*pip install '\.\[{package}\]'"):
        observer()
