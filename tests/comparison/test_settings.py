"""Settings: which keys make one, their labels and order, and mean and spread over runs."""

import math

import pytest

from fl_audit.comparison.reported_run import read_reported_runs
from fl_audit.comparison.settings import Spread, differing_keys, group_by_setting

# Settings: which keys make one, their labels, their order, repetitions.


NOISE = "config.mechanism.noise_multiplier"
REPEATS = "config.participation.canary_repeats"


def settings_of(*folders):
    return group_by_setting(read_reported_runs(folders))


def test_runs_are_named_by_what_differs(make_run):
    settings = settings_of(
        make_run("a", {NOISE: 0.5, REPEATS: 10}),
        make_run("b", {NOISE: 0, REPEATS: 10}),
        make_run("c", {NOISE: 0.5, REPEATS: 4}),
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


def test_seeds_and_means_are_repetitions(make_run):
    (setting,) = settings_of(
        make_run("a", {"config.seed": 1, "accuracy": 0.8}),
        make_run("b", {"config.seed": 2, "accuracy": 0.9, "config.runtime": "native"}),
        make_run("c", {"config.seed": 3, "accuracy": 0.7, "config.log.evaluate_every": 1}),
    )
    assert len(setting.runs) == 3
    assert setting.accuracy.mean == pytest.approx(0.8)
    assert (setting.accuracy.smallest, setting.accuracy.largest) == (0.7, 0.9)
    assert setting.label == "all runs"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ray", {"address": "auto"}),
        ("schedule_secret", "secret.txt"),
        ("audit.lost_canaries", "warn"),
    ],
)
def test_computing_and_secrets_are_repetitions(make_run, key, value):
    (setting,) = settings_of(make_run("a"), make_run("b", {f"config.{key}": value}))
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


def test_a_default_and_a_value_differ(make_run):
    settings = settings_of(
        make_run("a", {"config.clients_per_block": None, "config.task.hidden": [8, 4]}),
        make_run("b", {"config.clients_per_block": 2, "config.task.hidden": [8]}),
        make_run("c", {"config.audit.delta": 0.01, "config.task.hidden": [8]}),
    )
    assert [setting.label for setting in settings] == [
        "task hidden 8 × 4, audit delta default",
        "task hidden 8, audit delta default",
        "task hidden 8, audit delta 0.01",
    ]


def test_the_guarantee_is_unknown_unless_known_for_every_run(make_run):
    (setting,) = settings_of(
        make_run("a"), make_run("b", {"config.seed": 2, "analytical.client.epsilon": None})
    )
    assert setting.guarantee("client") is None
    assert setting.guarantee("canary") is not None


def test_repeats_are_told_only_of_canaries_that_repeat(make_run):
    canaries = "config.participation.canaries"
    settings = settings_of(
        make_run("a", {canaries: "like_clients", REPEATS: 1}),
        make_run("b", {canaries: "repeats", REPEATS: 1}),
        make_run("c", {canaries: "repeats", REPEATS: 4}),
    )
    assert [setting.label for setting in settings] == [
        "canaries like_clients",
        "repeats 1",
        "repeats 4",
    ]


WINDOW = {
    "config.audit.threat_models": ["window"],
    "config.audit.window_first_round": 2,
    "config.audit.window_last_round": 4,
}


def test_who_sees_other_rounds_is_another_attacker(make_run):
    later = {**WINDOW, "config.audit.window_first_round": 3}
    settings = settings_of(make_run("a"), make_run("b", WINDOW), make_run("c", later))
    labels = [setting.label for setting in settings]
    assert "audit window first round 2" in labels
    assert "audit window first round 3" in labels
    assert len(labels) == 3


def test_of_several_values():
    spread = Spread((1.0, 2.0, 6.0))
    assert (spread.mean, spread.smallest, spread.largest) == (3.0, 1.0, 6.0)
    assert spread.std == pytest.approx(math.sqrt((4 + 1 + 9) / 2))


def test_a_single_value_has_no_deviation():
    assert Spread((1.0,)).std is None


# Mean, deviation and ends over runs.


def test_an_infinite_value_makes_the_mean_infinite():
    assert Spread((1.0, math.inf)).to_json() == {
        "values": [1.0, "inf"],
        "mean": "inf",
        "std": None,
        "smallest": 1.0,
        "largest": "inf",
    }
