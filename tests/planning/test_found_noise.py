"""`fl-audit plan --epsilon`: the noise for an epsilon, with and without a plan."""

import json
import math

import pytest

from fl_audit.cli import main
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma

CONFIG = """
[task]
kind = "numbers"
num_clients = 60
dim = 5000
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 0.3
clip_norm = 1.0
[participation]
kind = "shuffle"
rounds = 12
clients_per_round = 10
[canaries]
count = 40
[audit]
delta = 1e-2
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return str(path)


def test_a_plan_at_the_noise_that_is_found(config, capsys):
    one = ["--set", "audit.threat_models=['final_and_initial']"]
    assert main(["plan", config, "--epsilon", "4", "--trials", "3", "--json", *one]) == 0
    plan = json.loads(capsys.readouterr().out)
    # A client is in two rounds, a canary in one.
    two = epsilon_of_sigma(plan["noise_multiplier"] / math.sqrt(2), 1e-2)
    assert 4 * (1 - 1e-4) < two <= 4
    assert plan["analytical"]["client"] == pytest.approx(two, rel=1e-6)
    assert plan["analytical"]["canary"] < two


TREE = "--set=mechanism={kind='tree_aggregation', epsilon=4.0, clip_norm=1.0}"


def test_the_noise_alone_where_no_plan_can_be_made(config, capsys):
    assert main(["plan", config, "--epsilon", "2", TREE, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 2 * (1 - 1e-4) < found["analytical"]["client"] <= 2
    assert "'tree_aggregation'" in found["not_covered"]
    assert main(["plan", config, "--epsilon", "2", TREE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"noise         noise_multiplier {found['noise_multiplier']} is the")
    assert lines[-2].startswith("no plan ")
    assert main(["plan", config, TREE]) == 2  # nothing but a plan was asked for


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilon", "0"], "--epsilon 0: must be a finite number above 0"),
        (
            ["--epsilon", "2", "--set=mechanism={kind='none', canary_norm=1.0}"],
            "--epsilon: mechanism 'none' has no noise to find",
        ),
        (
            ["--epsilon", "2", TREE, "--set=participation.kind='bernoulli'"],
            "mechanism.epsilon: no analytical epsilon is known here",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(config, arguments, words, capsys):
    assert main(["plan", config, *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1
