"""An engine from outside the package, in NumPy, through the real loop to a scored run folder."""

import dataclasses
import json
import subprocess
import sys

import msgspec
import pytest

from fl_audit import load_config
from fl_audit.config import ExampleCanaries
from fl_audit.engines.prepare import prepare
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.run.attackers import attack_context, make_attackers
from tests.engines import toy_engine

CONFIG = """
runtime = "toy"
seed = 1
[task]
kind = "vectors"
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 0.5
clip_norm = 0.5
[participation]
kind = "shuffle"
rounds = 12
clients_per_round = 10
[canaries]
count = 120
family = "rademacher"
[log]
checkpoint_every = 5
[audit]
delta = 1e-3
replay = true
"""


@pytest.fixture
def config_path(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def config(config_path, toy_runtime):
    return load_config(config_path)


@pytest.mark.slow
def test_a_run_without_tensorflow_ends_in_a_report(config_path, tmp_path):
    config_path.write_text(CONFIG + 'threat_models = ["known_rounds"]\n')
    out = tmp_path / "run"
    module = "tests.engines.toy_engine"
    program = [sys.executable, "-W", "ignore", "-m", module, str(config_path), str(out)]
    subprocess.run(program, check=True)
    report = json.loads((out / "report.json").read_text())
    assert report["run"]["runtime"] == "toy, in NumPy"
    assert "tensorflow" not in report["run"]["versions"]
    assert report["arrival"]["state"] == "arrived"
    by_name = {check["name"]: check for check in report["checks"]["results"]}
    assert all(
        check["passed"] is (True if check.get("is_conclusive", True) else None)
        for check in by_name.values()
    )
    assert by_name.pop("replay_repeatable")["measured"].startswith("not replayed: the engine draws")
    assert by_name.keys() == {
        "enough_noise",
        "noise_everywhere",
        "fresh_noise",
        "noise_distribution",
        "bounded_length",
        "no_echo",
        "once_a_round",
    }
    own_rounds = report["statistics"]["own_rounds"]["estimates"]
    bounds = {method["method"]: method["epsilon"] for method in own_rounds}
    assert 0.5 < bounds["threshold_valid"] < report["analytical_epsilon"]


def test_what_an_engine_lacks_is_one_line(config, tmp_path):
    run = prepare(config)
    canaries = ExampleCanaries(source="in_distribution", count=4, examples_per_canary=1)
    examples = msgspec.structs.replace(run.config, canaries=canaries)
    engine = toy_engine.MeanOfVectors(run)
    context = attack_context(
        dataclasses.replace(run, config=examples), engine, RunFolder(tmp_path), 0
    )
    with pytest.raises(InputError, match=r"'examples' is not for this runtime \(toy, in NumPy\)"):
        make_attackers(context)
