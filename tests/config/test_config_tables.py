"""The tables of a config: every kind with its keys, and one clear line for each mistake."""

import tomllib

import pytest

from fl_audit.attacks.statistics import RunFacts
from fl_audit.attacks.threat_models import statistics_of
from fl_audit.canaries.canary_tables import coin_probability
from fl_audit.config import (
    Bernoulli,
    Canaries,
    Config,
    DigitsTask,
    EveryRound,
    ExampleCanaries,
    GaussianFixed,
)
from fl_audit.config.design import design_run
from fl_audit.config.file import config_to_toml, load_config, parse_config
from fl_audit.config_tables.audit import Audit
from fl_audit.errors import InputError
from fl_audit.verdict import chosen_tests
from fl_audit.verdict.chosen_tests import shared_confidence
from tests.small_configs import SMALLEST


def _parse(client="", server=""):
    return parse_config(
        tomllib.loads(f"[client]\n{client}\n[server]\n{server}\n{SMALLEST}"), "a.toml"
    )


@pytest.mark.parametrize(
    ("tables", "mistake"),
    [
        ({"client": 'kind = "fed_prox"'}, "key `client.proximal_strength` is missing"),
        (
            {"client": 'kind = "fed_prox"\nproximal_strength = 0'},
            "key `client.proximal_strength`: must be a number above 0",
        ),
        ({"client": "proximal_strength = 0.1"}, "unknown key `client.proximal_strength`"),
        ({"client": 'kind = "fed_sgd"\nepochs = 2'}, "unknown key `client.epochs`"),
        ({"client": 'kind = "fed_avgg"'}, "unknown 'fed_avgg'; did you mean 'fed_avg'?"),
        ({"client": 'optimizer = "adan"'}, "unknown 'adan'; did you mean 'adam'?"),
        (
            {"client": 'optimizer = "adam"\nmomentum = 0.9'},
            "key `client`: momentum is only for optimizer 'sgd', not 'adam'",
        ),
        ({"server": 'kind = "adam"\nmomentum = 0.9'}, "unknown key `server.momentum`"),
        ({"server": 'kind = "adam"\nbeta_1 = 1'}, "key `server.beta_1`: must be a number below 1"),
        ({"server": 'kind = "yogi"\ntau = 0'}, "key `server.tau`: must be a number above 0"),
    ],
)
def test_mistakes_are_named(tables, mistake):
    with pytest.raises(InputError) as caught:
        _parse(**tables)
    assert mistake in str(caught.value)
    assert "\n" not in str(caught.value)


# The table of canaries: which keys go with which kind and source.


TABLE = {
    "task": {"kind": "digits"},
    "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 0.5, "clip_norm": 1.0},
    "participation": {"kind": "bernoulli", "rounds": 3, "clients_per_round": 10},
}


def config_of(**canaries):
    return parse_config({**TABLE, "canaries": canaries}, "config.toml")


def test_examples():
    config = config_of(kind="examples", source="mislabelled", count=20, examples_per_canary=2)
    assert config.canaries == ExampleCanaries(source="mislabelled", count=20, examples_per_canary=2)
    assert 'kind = "examples"' in config_to_toml(config)
    logged = statistics_of(config.canaries, config.audit)
    assert [statistic.name for statistic in logged] == [
        "final_loss",
        "loss_difference",
        "white_box",
        "white_box_max",
        "white_box_ratio",
        "white_box_own_rounds",
    ]
    assert {s.null(RunFacts(config.audit, dim=100)).kind for s in logged} == {"empirical"}


@pytest.mark.parametrize(
    ("canaries", "message"),
    [
        ({"count": 1}, "count must be at least 2, or 0 for no canaries, got 1"),
        ({"kind": "example", "count": 2}, "`canaries.kind`: unknown 'example'; did you mean 'exam"),
        ({"kind": "examples", "count": 2}, "key `canaries.source` is missing"),
        ({"kind": "examples", "source": "mislabeled", "count": 2}, "did you mean 'mislabelled'?"),
        ({"kind": "examples", "source": "mislabelled"}, "source 'mislabelled' needs count"),
        ({"kind": "examples", "source": "in_distribution", "count": 1}, "`canaries.count`"),
        ({"kind": "examples", "source": "file"}, "source 'file' needs path"),
        (
            {"kind": "examples", "source": "file", "path": "x", "examples_per_canary": 2},
            "source 'file' takes no examples_per_canary",
        ),
        (
            {"kind": "examples", "source": "mislabelled", "count": 2, "path": "x"},
            "path is only for source 'file', not 'mislabelled'",
        ),
        (
            {"kind": "examples", "source": "mislabelled", "count": 2, "design": "signs"},
            "design is only for source 'random', not 'mislabelled'",
        ),
        ({"kind": "examples", "source": "random"}, "source 'random' needs count"),
        ({"kind": "examples", "source": "file", "path": "x", "family": "gaussian"}, "unknown key"),
    ],
)
def test_keys_that_do_not_fit_are_one_line(canaries, message):
    with pytest.raises(InputError) as caught:
        config_of(**canaries)
    assert "\n" not in str(caught.value)
    assert message in str(caught.value)


def test_a_verdict_by_coins_needs_coins():
    audit = {"claimed_epsilon": 1.0, "verdict_method": "one_run_valid"}
    half = {"count": 20, "inclusion": "fixed_half"}
    with pytest.raises(InputError, match=r"not valid for this inclusion: 'one_run_valid'"):
        parse_config({**TABLE, "canaries": half, "audit": audit}, "config.toml")
    kept = parse_config(
        {**TABLE, "canaries": half, "audit": {**audit, "verdict_method": "all"}}, "config.toml"
    )
    assert chosen_tests(kept, participations=1).methods == ("threshold_valid",)


def test_coins_that_are_not_fair_need_their_probability():
    unequal = Canaries(count=20, inclusion="unequal_coins", inclusion_probability=0.2)
    assert (coin_probability(unequal), coin_probability(Canaries(count=20))) == (0.2, 0.5)
    with pytest.raises(ValueError, match=r"needs inclusion_probability another than 0\.5"):
        Canaries(count=20, inclusion="unequal_coins")
    with pytest.raises(ValueError, match=r"'pairs' needs inclusion_probability 0\.5, got 0\.2"):
        Canaries(count=20, inclusion="pairs", inclusion_probability=0.2)


# Threat models in a config: what fits together, and one clear line for what does not.


CONFIG = """
[task]
kind = "digits"
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 0.5
clip_norm = 1.0
[participation]
kind = "shuffle"
rounds = 100
clients_per_round = 20
[canaries]
count = 500
[audit]
"""


def load(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_text(CONFIG + text)
    return load_config(path)


def test_five_threat_models_and_back(tmp_path):
    config = load(
        tmp_path,
        """
        threat_models = ["final", "final_and_initial", "all_iterates", "checkpoints", "window"]
        release_every = 10
        window_first_round = 21
        window_last_round = 100
        claimed_epsilon = 2.0
        verdict_statistic = "window_max"
        """,
    )
    assert config.audit.threat_models[3:] == ("checkpoints", "window")
    written = tomllib.loads(config_to_toml(config))["audit"]
    assert (written["release_every"], written["window_first_round"]) == (10, 21)
    path = tmp_path / "again.toml"
    path.write_text(config_to_toml(config))
    assert load_config(path) == config


@pytest.mark.parametrize(
    ("audit", "message"),
    [
        ("threat_models = []", "key `audit`: threat_models must name at least one"),
        ('threat_models = "final"', "key `audit.threat_models`: must be a list, got "),
        (
            'threat_models = ["final", "finale"]',
            "key `audit.threat_models`: unknown 'finale'; did you mean 'final'?",
        ),
        (
            "threat_models = [1]",
            "key `audit.threat_models`: unknown 1; known: all_iterates, checkpoints, final, "
            "final_and_initial, known_rounds, one_upload, secret_rounds, window",
        ),
        ('threat_models = [["final"]]', "key `audit.threat_models`: unknown ['final']; did you"),
        (
            'threat_models = ["final", "final"]',
            "key `audit`: threat_models names 'final' more than once",
        ),
        (
            'threat_models = ["checkpoints"]',
            "key `audit`: threat model 'checkpoints' needs release_every",
        ),
        ("release_every = 5", "key `audit`: release_every needs 'checkpoints' in threat_models"),
        (
            'threat_models = ["window"]\nwindow_first_round = 5',
            "key `audit`: threat model 'window' needs window_last_round",
        ),
        (
            'threat_models = ["window"]\nwindow_last_round = 5',
            "key `audit`: threat model 'window' needs window_first_round",
        ),
        (
            "window_first_round = 5\nwindow_last_round = 6",
            "key `audit`: window_first_round needs 'window' in threat_models",
        ),
        (
            'threat_models = ["window"]\nwindow_first_round = 6\nwindow_last_round = 5',
            "key `audit`: window_first_round is 6 and window_last_round 5; the first must not come "
            "after the last",
        ),
        (
            'threat_models = ["window"]\nwindow_first_round = 0\nwindow_last_round = 5',
            "key `audit.window_first_round`: must be a whole number of at least 1",
        ),
        (
            'threat_models = ["window"]\nwindow_first_round = 90\nwindow_last_round = 101',
            "key `audit.window_last_round`: is 101 of 100 rounds; must be at most 100",
        ),
        (
            'threat_models = ["checkpoints"]\nrelease_every = 0',
            "key `audit.release_every`: must be a whole number of at least 1",
        ),
        (
            'threat_models = ["checkpoints"]\nrelease_every = 100',
            "key `audit.release_every`: is 100, must be less than the number of rounds, 100; if no "
            "model is released in between, use 'final_and_initial'",
        ),
        (
            'claimed_epsilon = 1\nverdict_statistic = "window_max"',
            "key `audit.verdict_statistic`: this run has no statistic 'window_max'; known: all, "
            "final, final_minus_initial, max, own_rounds, sum",
        ),
        (
            'claimed_epsilon = 1\nverdict_statistic = "summ"',
            "key `audit.verdict_statistic`: this run has no statistic 'summ'; did you mean 'sum'?",
        ),
        (
            'claimed_epsilon = 1\nthreat_models = ["final"]\nverdict_statistic = "max"',
            "key `audit.verdict_statistic`: this run has no statistic 'max'; known: all, final",
        ),
        ('verdict_statistic = "max"', "key `audit`: verdict_statistic needs a claim"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, audit, message):
    with pytest.raises(InputError) as caught:
        load(tmp_path, audit)
    line = str(caught.value)
    assert "\n" not in line
    assert line.removeprefix(f"{tmp_path / 'run.toml'}: ").startswith(message)


# The key stop_when_contradicted, and the level that it costs the tests at the end.


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "needs a claim"),
        ({"claimed_epsilon": 2.0, "threat_models": ("final",)}, "needs 'known_rounds'"),
        (
            {
                "claimed_epsilon": 2.0,
                "threat_models": ("known_rounds", "window"),
                "window_first_round": 1,
                "window_last_round": 2,
            },
            "before 'window' has seen",
        ),
        ({"claimed_epsilon": 2.0, "verdict_statistic": "max"}, "got 'max'"),
        ({"claimed_epsilon": 2.0, "verdict_method": "one_run_valid"}, "got 'one_run_valid'"),
    ],
)
def test_what_the_live_verdict_needs(keys, message):
    with pytest.raises(ValueError, match=message):
        Audit(stop_when_contradicted=True, **keys)


def test_live_test_and_final_tests_share_the_level():
    assert shared_confidence(Audit(claimed_epsilon=2.0)) == pytest.approx(0.95)
    live = Audit(claimed_epsilon=2.0, stop_when_contradicted=True, confidence=0.9)
    assert shared_confidence(live) == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("participation", "family", "message"),
    [
        (Bernoulli(rounds=12, clients_per_round=5), "gaussian", "the sampling of clients"),
        (EveryRound(rounds=12), "gaussian", "up to 12 rounds"),
    ],
)
def test_what_cannot_be_tested_round_by_round_is_refused(participation, family, message):
    config = Config(
        task=DigitsTask(num_clients=60),
        mechanism=GaussianFixed(noise_multiplier=1.0, clip_norm=1.0),
        participation=participation,
        canaries=Canaries(count=40, family=family),
        audit=Audit(claimed_epsilon=2.0, stop_when_contradicted=True),
    )
    with pytest.raises(InputError, match=message):
        design_run(config, [str(client) for client in range(60)], 40)
