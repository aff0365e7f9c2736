"""The replay of a run's first round, from the config to the report."""

import json

import pytest

from experiments.broken_mechanisms.audited_run import compiled_runtime
from experiments.broken_mechanisms.zoo import ZOO
from fl_audit.checks import read_replay, write_replay
from fl_audit.checks.check import failed
from fl_audit.cli import main
from fl_audit.config.file import load_config
from fl_audit.engines.prepare import prepare
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.report import write_report
from tests.verification.toy_runs import config_file

pytestmark = pytest.mark.tff

CONFIG = """
seed = 1
[task]
kind = "digits"
num_clients = 40
hidden = [8]
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 0.5
clip_norm = 0.3
[client]
learning_rate = 0.1
batch_size = 5
[participation]
kind = "shuffle"
rounds = 2
clients_per_round = 20
[canaries]
count = 20
[audit]
delta = 1e-3
replay = true
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_text(CONFIG)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["jax", "local"])
def test_a_run_is_replayed_before_it_is_trained(config, runtime):
    out = config.parent / runtime
    assert main(["run", str(config), "--out", str(out), "--set", f"runtime={runtime}"]) == 0
    checks = json.loads((out / "report.json").read_text())["checks"]
    replayed = [check for check in checks["results"] if check["name"].startswith("replay_")]
    assert len(replayed) == 12
    assert all(
        check["passed"] is (True if check.get("is_conclusive", True) else None)
        for check in replayed
    )
    assert replayed[1]["measured"].startswith("at most 1 times what one client may change")
    inconclusive = [check["name"] for check in replayed if not check.get("is_conclusive", True)]
    assert inconclusive == ["replay_not_finite"]
    (noise,) = [check for check in replayed if check["name"] == "replay_noise_length"]
    assert 0.9 < noise["detectable_ratio"] < 1
    assert "Replay: one client" in (out / "report.html").read_text()


@pytest.mark.usefixtures("toy_runtime")
def test_what_fails_keeps_a_run_from_being_consistent(tmp_path):
    out = tmp_path / "run"
    kept = config_file(tmp_path / "config.toml", "audit.claimed_epsilon=50")
    assert main(["run", str(kept), "--out", str(out)]) == 0
    (out / "chain.jsonl").unlink()  # which would refuse another replay
    wrong = failed("clip", "it clips", "it does not")
    write_replay(out / "replay.json", [wrong])
    assert read_replay(out / "replay.json") == (wrong,)
    report = write_report(RunFolder(out))
    assert not report.checks.passed
    assert report.verdict is not None
    assert report.verdict.outcome == "inconclusive"
    assert "Replay: clip" in report.verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        "none",
        "tree_aggregation",
        "matrix_factorisation",
        "distributed",
    ],
)
def test_every_mechanism_is_replayed_or_says_why_not(config, mechanism):
    overrides = [f'mechanism.kind="{mechanism}"']
    if mechanism == "none":
        overrides = ["mechanism={kind='none',canary_norm=1.0}"]
    if mechanism == "matrix_factorisation":
        overrides += ['mechanism.strategy="banded_sqrt"', "mechanism.bands=2"]
    if mechanism == "distributed":
        overrides = ["mechanism={kind='distributed',noise_multiplier=0.5}"]
    run = prepare(load_config(config, overrides))
    member = ZOO[0]
    findings = compiled_runtime(run, member.make_aggregator).replay(run)
    assert not any(finding.failed for finding in findings), findings
    assert (len(findings) == 1) is (mechanism == "distributed")
    is_correlated = mechanism in ("tree_aggregation", "matrix_factorisation")
    assert ("noise_rounds" in {finding.name for finding in findings}) is is_correlated


def test_a_damaged_record_is_refused(tmp_path):
    (tmp_path / "replay.json").write_text("[{}]")
    with pytest.raises(InputError, match="record of a replay"):
        read_replay(tmp_path / "replay.json")
    assert read_replay(tmp_path / "none.json") == ()
