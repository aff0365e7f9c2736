"""Settings: which keys make one, their labels and order, and mean and spread over runs."""

import math

import pytest

from fl_audit.comparison.reported_run import read_reported_runs
from fl_audit.comparison.settings import Spread, differing_keys, group_by_setting

NOISE = "config.mechanism.noise_multiplier"
REPEATS = "config.participation.canary_repeats"
CANARIES = "config.participation.canaries"
WINDOW = {
    "config.audit.threat_models": ["window"],
    "config.audit.window_first_round": 2,
    "config.audit.window_last_round": 4,
}


def settings_of(make_run, *runs):
    folders = [make_run(str(number), changes) for number, changes in enumerate(runs)]
    return group_by_setting(read_reported_runs(folders))


def test_runs_are_named_by_what_differs(make_run):
    settings = settings_of(
        make_run,
        {NOISE: 0.5, REPEATS: 10},
        {NOISE: 0, REPEATS: 10},
        {NOISE: 0.5, REPEATS: 4},
    )
    assert [setting.label for setting in settings] == [
        "repeats 4, noise 0.5",
        "repeats 10, noise 0",
        "repeats 10, noise 0.5",
    ]
    assert [setting.pattern for setting in settings] == ["repeats 4", "repeats 10", "repeats 10"]
    assert settings[1].keys == {
        "mechanism.noise_multiplier": 0,
        "participation.canary_repeats": 10,
    }


@pytest.mark.parametrize(
    ("runs", "labels"),
    [
        (
            [
                {"config.clients_per_block": None, "config.task.hidden": [8, 4]},
                {"config.clients_per_block": 2, "config.task.hidden": [8]},
                {"config.audit.delta": 0.01, "config.task.hidden": [8]},
            ],
            [
                "task hidden 8 × 4, audit delta default",
                "task hidden 8, audit delta default",
                "task hidden 8, audit delta 0.01",
            ],
        ),
        (
            [
                {CANARIES: "like_clients", REPEATS: 1},
                {CANARIES: "repeats", REPEATS: 1},
                {CANARIES: "repeats", REPEATS: 4},
            ],
            ["canaries like_clients", "repeats 1", "repeats 4"],
        ),
    ],
    ids=["defaults", "repeats of canaries that repeat"],
)
def test_labels(make_run, runs, labels):
    assert [setting.label for setting in settings_of(make_run, *runs)] == labels


def test_who_sees_other_rounds_is_another_attacker(make_run):
    later = {**WINDOW, "config.audit.window_first_round": 3}
    labels = [setting.label for setting in settings_of(make_run, {}, WINDOW, later)]
    assert {"audit window first round 2", "audit window first round 3"} < set(labels)
    assert len(labels) == 3


def test_seeds_and_means_are_repetitions(make_run):
    (setting,) = settings_of(
        make_run,
        {"config.seed": 1, "accuracy": 0.8},
        {"config.seed": 2, "accuracy": 0.9, "config.runtime": "native"},
        {
            "config.seed": 3,
            "accuracy": 0.7,
            "config.log.evaluate_every": 1,
            "analytical.client.epsilon": None,
        },
    )
    assert len(setting.runs) == 3
    assert setting.accuracy.mean == pytest.approx(0.8)
    assert (setting.accuracy.smallest, setting.accuracy.largest) == (0.7, 0.9)
    assert setting.label == "all runs"
    assert setting.guarantee("client") is None  # unknown unless known for every run
    assert setting.guarantee("canary") is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ray", {"address": "auto"}),
        ("schedule_secret", "secret.txt"),
        ("audit.lost_canaries", "warn"),
    ],
)
def test_computing_and_secrets_are_repetitions(make_run, key, value):
    (setting,) = settings_of(make_run, {}, {f"config.{key}": value})
    assert setting.label == "all runs"


def test_a_kind_beside_none_is_a_setting():
    none = {"mechanism.kind": "gaussian_fixed"}
    fixed = none | {"mechanism.zeroing.kind": "fixed", "mechanism.zeroing.norm": 1.0}
    assert differing_keys([none, fixed]) == ["mechanism.zeroing.kind"]


def test_a_key_of_one_kind_alone_differs_only_if_it_has_two_values():
    shuffle = {"participation.kind": "shuffle", "participation.canary_repeats": 1}
    bernoulli = {"participation.kind": "bernoulli"}
    assert differing_keys([shuffle, bernoulli]) == ["participation.kind"]
    four = {**shuffle, "participation.canary_repeats": 4}
    assert differing_keys([shuffle, bernoulli, four]) == list(shuffle)


def test_the_spread_of_several_values():
    assert Spread((1.0, 2.0, 6.0)).std == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert Spread((1.0,)).std is None
    assert Spread((1.0, math.inf)).to_json() == {
        "values": [1.0, "inf"],
        "mean": "inf",
        "std": None,
        "smallest": 1.0,
        "largest": "inf",
    }
