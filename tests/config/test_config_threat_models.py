"""Threat models in a config: what fits together, and one clear line for what does not."""

import tomllib

import pytest

from fl_audit.config.file import config_to_toml, load_config
from fl_audit.errors import InputError

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
        ('threat_models = "final"', "key `audit.threat_models`: Expected `array`, got `str`"),
        (
            'threat_models = ["final", "finale"]',
            "key `audit.threat_models`: unknown 'finale'; did you mean 'final'?",
        ),
        (
            "threat_models = [1]",
            "key `audit.threat_models`: unknown 1; known: all_iterates, checkpoints, final, "
            "final_and_initial, known_rounds, window",
        ),
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
            "key `audit.window_first_round`: Expected `int` >= 1",
        ),
        (
            'threat_models = ["window"]\nwindow_first_round = 90\nwindow_last_round = 101',
            "key `audit.window_last_round`: is 101 of 100 rounds; must be at most 100",
        ),
        (
            'threat_models = ["checkpoints"]\nrelease_every = 0',
            "key `audit.release_every`: Expected `int` >= 1",
        ),
        (
            'threat_models = ["checkpoints"]\nrelease_every = 100',
            "key `audit.release_every`: is 100 of 100 rounds; must be less, as who sees no model "
            "between the first and the last is 'final_and_initial'",
        ),
        (
            'claimed_epsilon = 1\nverdict_statistic = "window_max"',
            "key `audit.verdict_statistic`: this run has no 'window_max'; known: all, final, "
            "final_minus_initial, max, own_rounds, sum",
        ),
        (
            'claimed_epsilon = 1\nverdict_statistic = "summ"',
            "key `audit.verdict_statistic`: this run has no 'summ'; did you mean 'sum'?",
        ),
        (
            'claimed_epsilon = 1\nthreat_models = ["final"]\nverdict_statistic = "max"',
            "key `audit.verdict_statistic`: this run has no 'max'; known: all, final",
        ),
        ('verdict_statistic = "max"', "key `audit`: verdict_statistic needs claimed_epsilon"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, audit, message):
    with pytest.raises(InputError) as caught:
        load(tmp_path, audit)
    line = str(caught.value)
    assert "\n" not in line
    assert line.removeprefix(f"{tmp_path / 'run.toml'}: ").startswith(message)
