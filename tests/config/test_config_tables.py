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
from tests.config.test_config_file import message, write
from tests.small_configs import SMALLEST

TABLE = {
    "task": {"kind": "digits"},
    "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 0.5, "clip_norm": 1.0},
    "participation": {"kind": "bernoulli", "rounds": 3, "clients_per_round": 10},
}


def test_examples():
    table = {"kind": "examples", "source": "mislabelled", "count": 20, "examples_per_canary": 2}
    config = parse_config({**TABLE, "canaries": table}, "config.toml")
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


EXAMPLES = "canaries={kind='examples', "
REFUSED = [
    ("client={kind='fed_prox'}", "key `client.proximal_strength` is missing"),
    (
        "client={kind='fed_prox', proximal_strength=0}",
        "key `client.proximal_strength`: must be a number above 0",
    ),
    ("client.proximal_strength=0.1", "unknown key `client.proximal_strength`"),
    ("client={kind='fed_sgd', epochs=2}", "unknown key `client.epochs`"),
    ("client.optimizer=adan", "key `client.optimizer`: unknown 'adan'; did you mean 'adam'?"),
    (
        "client={optimizer='adam', momentum=0.9}",
        "key `client`: momentum is only for optimizer 'sgd', not 'adam'",
    ),
    ("server={kind='adam', momentum=0.9}", "unknown key `server.momentum`"),
    ("server={kind='adam', beta_1=1}", "key `server.beta_1`: must be a number below 1"),
    ("server={kind='yogi', tau=0}", "key `server.tau`: must be a number above 0"),
    # Which keys go with which kind and source of canaries.
    ("canaries={kind='example', count=2}", "key `canaries.kind`: unknown 'example'; did you mean"),
    (f"{EXAMPLES}count=2}}", "key `canaries.source` is missing"),
    (
        f"{EXAMPLES}source='mislabeled', count=2}}",
        "key `canaries.source`: unknown 'mislabeled'; did you mean 'mislabelled'?",
    ),
    (f"{EXAMPLES}source='mislabelled'}}", "key `canaries`: source 'mislabelled' needs count"),
    (f"{EXAMPLES}source='in_distribution', count=1}}", "key `canaries.count`"),
    (f"{EXAMPLES}source='file'}}", "key `canaries`: source 'file' needs path"),
    (
        f"{EXAMPLES}source='file', path='x', examples_per_canary=2}}",
        "key `canaries`: source 'file' takes no examples_per_canary",
    ),
    (
        f"{EXAMPLES}source='mislabelled', count=2, path='x'}}",
        "key `canaries`: path is only for source 'file', not 'mislabelled'",
    ),
    (
        f"{EXAMPLES}source='mislabelled', count=2, design='signs'}}",
        "key `canaries`: design is only for source 'random', not 'mislabelled'",
    ),
    (f"{EXAMPLES}source='random'}}", "key `canaries`: source 'random' needs count"),
    (f"{EXAMPLES}source='file', path='x', family='gaussian'}}", "unknown key `canaries.family`"),
    # Which keys go with which threat models.
    ("audit.threat_models=[]", "key `audit`: threat_models must name at least one"),
    ("audit.threat_models='final'", "key `audit.threat_models`: must be a list, got "),
    (
        "audit.threat_models=['final', 'finale']",
        "key `audit.threat_models`: unknown 'finale'; did you mean 'final'?",
    ),
    (
        "audit.threat_models=[1]",
        "key `audit.threat_models`: unknown 1; known: all_iterates, checkpoints, final, "
        "final_and_initial, known_rounds, one_upload, secret_rounds, window",
    ),
    (
        "audit.threat_models=[['final']]",
        "key `audit.threat_models`: unknown ['final']; did you",
    ),
    (
        "audit.threat_models=['final', 'final']",
        "key `audit`: threat_models names 'final' more than once",
    ),
    (
        "audit.threat_models=['checkpoints']",
        "key `audit`: threat model 'checkpoints' needs release_every",
    ),
    (
        "audit={threat_models=['window'], window_first_round=5}",
        "key `audit`: threat model 'window' needs window_last_round",
    ),
    (
        "audit={threat_models=['window'], window_last_round=5}",
        "key `audit`: threat model 'window' needs window_first_round",
    ),
    (
        "audit={window_first_round=5, window_last_round=6}",
        "key `audit`: window_first_round needs 'window' in threat_models",
    ),
    (
        "audit={threat_models=['window'], window_first_round=6, window_last_round=5}",
        "key `audit`: window_first_round is 6 and window_last_round 5; the first must not come "
        "after the last",
    ),
    (
        "audit={threat_models=['window'], window_first_round=9, window_last_round=11}",
        "key `audit.window_last_round`: is 11 of 10 rounds; must be at most 10",
    ),
    (
        "audit={threat_models=['checkpoints'], release_every=10}",
        "key `audit.release_every`: is 10, must be less than the number of rounds, 10; if no "
        "model is released in between, use 'final_and_initial'",
    ),
    (
        "audit={claimed_epsilon=1, verdict_statistic='window_max'}",
        "key `audit.verdict_statistic`: this run has no statistic 'window_max'; known: all, "
        "final, final_minus_initial, max, own_rounds, sum",
    ),
    (
        "audit={claimed_epsilon=1, verdict_statistic='summ'}",
        "key `audit.verdict_statistic`: this run has no statistic 'summ'; did you mean 'sum'?",
    ),
    (
        "audit={claimed_epsilon=1, threat_models=['final'], verdict_statistic='max'}",
        "key `audit.verdict_statistic`: this run has no statistic 'max'; known: all, final",
    ),
    ("audit.verdict_statistic=max", "key `audit`: verdict_statistic needs a claim"),
]


@pytest.mark.parametrize(("override", "expected"), REFUSED, ids=[o[:40] for o, _ in REFUSED])
def test_keys_that_do_not_fit_are_one_line(tmp_path, override, expected):
    assert message(tmp_path, SMALLEST, override).startswith(expected)


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


def test_five_threat_models_and_back(tmp_path):
    audit = """
        [audit]
        threat_models = ["final", "final_and_initial", "all_iterates", "checkpoints", "window"]
        release_every = 3
        window_first_round = 2
        window_last_round = 10
        claimed_epsilon = 2.0
        verdict_statistic = "window_max"
        """
    config = load_config(write(tmp_path, SMALLEST + audit))
    assert config.audit.threat_models[3:] == ("checkpoints", "window")
    written = tomllib.loads(config_to_toml(config))["audit"]
    assert (written["release_every"], written["window_first_round"]) == (3, 2)
    assert load_config(write(tmp_path, config_to_toml(config))) == config


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
