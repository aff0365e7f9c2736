"""`fl-audit attack` with the config of a run: its clients are attacked, by whole federated runs."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from fl_audit.accounting import Denominator, FixedRounds, Noise, Party, Release
from fl_audit.cli import main
from fl_audit.config.attack_tables import FederatedAttack, FederatedAttackConfig, load_attack_config
from fl_audit.config.file import load_config
from fl_audit.engines.tff.shadow_models import FederatedRuns
from fl_audit.errors import InputError
from fl_audit.formats.score_file import read_counts_file, read_score_file
from fl_audit.pipeline.attack_targets import _accounted_bound

CONFIG = """
seed = 2
[task]
kind = "wine"
num_clients = 6
[client]
learning_rate = 0.3
epochs = 3
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 0.0
clip_norm = 1.0
[participation]
kind = "bernoulli"
rounds = 3
clients_per_round = 3
[canaries]
count = 8
[attack]
num_shadow = 20
num_base_shadow = 4
num_challenges = 20
"""


class KilledError(Exception):
    pass


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


def test_the_config_of_a_run_is_read(config, tmp_path):
    read = load_attack_config(config, ["audit.delta=1e-3", "runtime=native"])
    assert isinstance(read, FederatedAttackConfig)
    assert (read.canaries.count, read.runtime, read.audit.delta) == (0, "local", 1e-3)
    assert read.attack == FederatedAttack(num_shadow=20, num_base_shadow=4, num_challenges=20)
    assert load_config(config).canaries.count == 8  # `run` takes the same file
    without = tmp_path / "without.toml"
    without.write_text(CONFIG.split("[canaries]", maxsplit=1)[0])
    assert load_attack_config(without, []).attack == FederatedAttack()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("attack.num_clientss=2", "did you mean 'num_clients'?"),
        ("attack.epochs=2", "unknown key `attack.epochs`"),
        ("client.learning_rat=1", "unknown key `client.learning_rat`"),
    ],
)
def test_bad_configs_are_refused(config, override, message):
    with pytest.raises(InputError) as caught:
        load_attack_config(config, [override])
    assert message in str(caught.value)


@pytest.mark.parametrize(("zeroing", "reason"), [("none", None), ("adaptive", "zeroing norm")])
def test_the_bound_of_a_client_carries_why_accounting_gives_none(zeroing, reason):
    party = Party(FixedRounds(2))
    release = Release(
        rounds=8,
        noise=Noise("gaussian", 1.0, 1.0),
        denominator=Denominator("expected_cohort", 10.0),
        client=party,
        canary=party,
        zeroing=zeroing,
    )
    bound = _accounted_bound(SimpleNamespace(release=release, delta=1e-5, noise=release.noise))
    assert np.isinf(bound.epsilon) == (reason is not None)
    assert (bound.why_unknown is None) == (reason is None)
    assert (reason or "") in (bound.why_unknown or "")


@pytest.mark.tff
def test_what_cannot_be_attacked_is_refused_before_anything_is_written(config, tmp_path, capsys):
    out = tmp_path / "out"
    for override, message in [
        ("attack.num_clients=7", "attack.num_clients: must be at most 6"),
        ("task.num_clients=3", "an attack on clients needs at least 4"),
    ]:
        assert main(["attack", str(config), "--set", override, "--out", str(out)]) == 2
        assert message in capsys.readouterr().err
        assert not out.exists()


@pytest.mark.tff
@pytest.mark.slow
def test_a_killed_attack_goes_on_and_its_files_are_the_same(config, tmp_path, capsys, monkeypatch):
    overrides = ["--set", "mechanism.noise_multiplier=1.0"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main(["attack", str(config), "--out", str(whole), "--json", *overrides]) == 0
    report = json.loads(capsys.readouterr().out)
    numbers, original = [], FederatedRuns._trained

    def killed_once(self, mask, number):
        numbers.append(number)
        if len(numbers) == 23:
            raise KilledError
        return original(self, mask, number)

    monkeypatch.setattr(FederatedRuns, "_trained", killed_once)
    with pytest.raises(KilledError):
        main(["attack", str(config), "--out", str(parts), *overrides])
    assert main(["attack", str(config), "--out", str(parts), "--resume", *overrides]) == 0
    assert len(numbers) == 45
    assert len(set(numbers)) == 44
    for path in whole.iterdir():
        if path.is_file():
            assert (parts / path.name).read_bytes() == path.read_bytes()
    assert 0 < report["analytical_epsilon"] < 100
    assert report["num_models"] == 44
    (client,) = report["clients"]
    assert client["client"] == f"client-{client['index']}"
    scores = read_score_file(whole / "scores_lira.csv")
    assert len(scores.score) == 20
    assert np.sum(read_counts_file(whole / "counts.csv").n1) == np.sum(scores.included)
    text = (whole / "report.html").read_text()
    assert "federated runs" in text
    assert "one client more or less" in text


def lower_bound(report):
    return max(
        estimate["lower"]
        for statistic in report["statistics"].values()
        for estimate in statistic["estimates"]
        if estimate["method"] == "threshold_valid"
    )


EVERY_ROUND = CONFIG.replace(
    'kind = "bernoulli"\nrounds = 3\nclients_per_round = 3', 'kind = "every_round"\nrounds = 3'
)


@pytest.mark.tff
@pytest.mark.slow
def test_clients_are_told_without_privacy_and_not_with_it(config, tmp_path, capsys):
    """Noise of 8 clip norms a round guarantees less than 1; a valid bound may not exceed it."""
    config.write_text(EVERY_ROUND)
    reports = []
    for noise in ("0.0", "8.0"):
        arguments = ["--set", f"mechanism.noise_multiplier={noise}", "--json"]
        arguments += ["--set", "attack.num_challenges=50", "--set", "attack.num_base_shadow=16"]
        assert main(["attack", str(config), "--out", str(tmp_path / noise), *arguments]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    plain, private = reports
    assert plain["analytical_epsilon"] == "inf"
    assert lower_bound(plain) > 1.5
    assert plain["statistics"]["lira"]["roc"]["auc"] > 0.95
    assert private["analytical_epsilon"] < 1
    assert lower_bound(private) <= private["analytical_epsilon"]
    assert abs(private["statistics"]["lira"]["roc"]["auc"] - 0.5) < 0.4
