"""`fl-audit plan` as a user calls it, on a small config of the digits."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from fl_audit import load_config, planning
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.cli import main
from fl_audit.planning.planned_power import PlannedEfficiency
from fl_audit.planning.planned_run import plan_run
from fl_audit.planning.prediction import Interval, StatisticPrediction
from fl_audit.planning.text import bound_lines, head_lines
from fl_audit.report.headline import ESTIMATE
from fl_audit.tasks.facts import load_task_facts

CONFIG = """
seed = 1
[task]
kind = "digits"
num_clients = 60
hidden = [16]
[mechanism]
kind = "gaussian_adaptive"
noise_multiplier = 0.3
clip_norm = 1.0
[participation]
kind = "shuffle"
rounds = 6
clients_per_round = 10
[canaries]
count = 40
[audit]
delta = 1e-2
claimed_epsilon = 20.0
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return str(path)


def test_prints_one_json_object(config, capsys):
    rounds = "audit.threat_models=['all_iterates', 'known_rounds']"
    assert main(["plan", config, "--trials", "3", "--json", "--set", rounds]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["dim"] == 64 * 16 + 16 + 16 * 10 + 10
    assert (plan["coverage"], plan["cohorts_of_seed"]) == (0.5, False)
    assert set(plan["statistics"]) == {"max", "sum", "own_rounds"}
    for predicted in plan["statistics"].values():
        for method in ("gaussian_fit", "shift_fit"):
            fit = predicted[method]
            assert fit["lower"] <= fit["median"] <= fit["upper"]
    keys = [variant["key"] for variant in plan["variants"]]
    assert keys.count("canaries.count") == 5
    assert [variant for variant in plan["variants"] if variant["refused"]] == [
        {
            "key": "participation.canary_repeats",
            "value": 8,
            "planned": False,
            "statistics": {},
            "refused": "participation.canary_repeats: 8 rounds per canary do not fit into 6 "
            "rounds; must be at most 6",
        }
    ]
    assert [fault["noise_factor"] for fault in plan["power"]["faults"]] == [1.0, 0.5, 0.0]
    assert plan["cost"]["scoring_seconds"] > 0
    assert plan["analytical"]["client"] >= plan["analytical"]["canary"] > 0


def test_prints_tables_behind_a_short_answer(config, capsys, monkeypatch):
    made, make = [], planning.make_plan
    monkeypatch.setattr(planning, "make_plan", lambda *asked: made.append(make(*asked)) or made[0])
    one = ["--set", "audit.threat_models=['final']", "--set", "mechanism.noise_multiplier=0.0"]
    assert main(["plan", config, "--trials", "3", *one, "--verbose"]) == 0
    out = capsys.readouterr().out
    for title in (
        "Expected estimates and bounds",
        "How the prediction changes with the config",
        "Power against the claim ε ≤ 20 at δ = 0.01",
        "What it costs",
        "Effect on accuracy",
    ):
        assert title in out
    assert "participation.canary_repeats 8 cannot be run" in out
    assert "mechanism.noise_multiplier 0 *" in out
    assert max(map(len, out.splitlines())) <= 120
    assert "nan" not in out.lower().replace("explanation", "")
    answer = planning.answer_lines(made[0])
    assert answer[0] == out.splitlines()[0]
    assert len(answer) <= 9 and max(map(len, answer)) <= 100
    starts = [line.split()[0] for line in answer if line[0] != " "]
    assert starts[-5:] == ["lower", "estimate", "claim", "costs", "for"]


@pytest.fixture
def sampled(config):
    """A planned run of sampled clients."""
    change = 'participation={kind="bernoulli",rounds=6,clients_per_round=10}'
    changed = load_config(Path(config), [change])
    return plan_run(changed, load_task_facts(changed.task, changed.seed))


def test_cohorts_that_a_run_draws_from_a_secret_are_said_to_be_the_seeds(sampled):
    head = " ".join(head_lines(SimpleNamespace(run=sampled)))
    assert "and from a secret in a run" in head


@pytest.mark.parametrize(
    ("median", "words"),
    [(19.0, "a mean over canaries in 0 to 2 rounds"), (10.0, "estimate none: canaries differ")],
)
def test_the_estimate_of_unlike_canaries_is_said_to_be_a_mean_or_left_out(sampled, median, words):
    fit = Interval(median, median - 1, median + 2)
    epsilons = {"threshold_valid": Interval(20.0, 18.0, 22.0), ESTIMATE: fit}
    found = StatisticPrediction(OWN_ROUNDS, epsilons), PlannedEfficiency("own_rounds", *5 * [None])
    plan = SimpleNamespace(run=sampled, of_strongest=lambda: found)
    assert words in " ".join(" ".join(bound_lines(plan)).split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--trials", "2"], "--trials 2: must be at least 3"),
        (["--runs", "0"], "--runs 0: must be at least 1"),
        (["--machines", "2"], "--machines 2: is only for --calibrate"),
        (["--calibrate", "-1"], "--calibrate -1: must be above 0 and at most 3600 seconds"),
        (["--set", "canaries.cout=3"], "unknown key `canaries.cout`; did you mean 'count'?"),
        (["--set", "participation.clients_per_round=61"], "61 of 60 real clients"),
        (
            ["--set", "canaries.kind=examples", "--set", "canaries.source=mislabelled"],
            "a plan does not cover 'examples'",
        ),
        (["--set", "canaries.count=100000"], "more canaries than can be scheduled"),
    ],
)
def test_bad_input_is_one_line_and_status_2(config, arguments, words, capsys):
    assert main(["plan", config, *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1


def test_options_are_checked_before_anything_is_read(capsys):
    assert main(["plan", "no such config.toml", "--trials", "1"]) == 2
    assert capsys.readouterr().err == "fl-audit: error: --trials 1: must be at least 3\n"
