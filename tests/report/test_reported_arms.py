"""Arms in reports: of a log whose canaries.csv names them, and of a run that deals them."""

import dataclasses
import json
import math
import tomllib

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.attacks.statistics import RunFacts
from fl_audit.cli import main
from fl_audit.config import Audit
from fl_audit.config.file import config_to_toml, parse_config, set_key
from fl_audit.formats.participation_files import CanaryRow, read_canaries
from fl_audit.formats.score_file import ScoreFile
from fl_audit.report.arms import allowed_words, arms_of_log, arms_words
from fl_audit.report.folder import AuditedFolder, folder_arms
from fl_audit.report.patterns import Detection, PatternAttacker, PatternTable
from tests.small_configs import TINY_RUN

DIM, COUNT, ROUNDS = 20_000, 240, 8
ARMS = ("once", "twice")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of included canaries that stand out by 1 standard deviation in each of their rounds."""
    random = np.random.default_rng(2)
    pool = CanaryPool(seed=1, count=COUNT, dim=DIM)
    arms = [ARMS[index] for index in random.integers(2, size=COUNT)]
    rounds = [(1 + random.permutation(ROUNDS)[: 1 + ARMS.index(arm)]).tolist() for arm in arms]
    folder = tmp_path_factory.mktemp("arms") / "log"
    scorer = RoundScorer.create(folder, pool, ROUNDS, rounds, canary_arms=arms)
    for number in range(1, ROUNDS + 1):
        there = [j for j in range(COUNT) if pool.included[j] and number in rounds[j]]
        aggregate = random.standard_normal(DIM)
        for canary in there:
            aggregate = aggregate + pool.vector(canary)
        scorer.score_round(number, aggregate)
    scorer.finish()
    return folder, arms


def test_a_logs_arms_are_compared(log, capsys, tmp_path):
    folder, arms = log
    assert [row.arm for row in read_canaries(folder / "canaries.csv").values()] == arms
    page = tmp_path / "page.html"
    argv = ["estimate", str(folder), "--delta", "1e-4", "--out", str(page)]
    assert main([*argv, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)["arms"]
    once, twice = made["comparison"]["arms"]
    assert (once["arm"], twice["arm"]) == ARMS
    # The null adds a fifth of a standard deviation to the mean of 60 canaries or so: 6 standard
    # errors of each, for aggregates that are a little longer than their noise.
    assert once["mu"] == pytest.approx(1.0, abs=0.8)
    assert twice["mu"] == pytest.approx(np.sqrt(2), abs=0.8)
    (difference,) = made["comparison"]["differences"]
    assert difference["lower"] < np.sqrt(2) - 1 < difference["upper"]
    assert made["allowed"] == {}
    text = page.read_text()
    assert "Arms of canaries" in text
    assert "twice − once" in text
    assert main([*argv, "--verbose"]) == 0
    assert "shift of included canaries" in capsys.readouterr().out


def test_an_arm_of_which_few_participate_has_no_interval():
    # 30 included canaries of each arm; of `rare` a fifth of the pool participates: 6 are expected.
    random = np.random.default_rng(4)
    pool, scores = {}, []
    for number in range(180):
        arm = ("once", "rare", "twice")[number % 3]
        present = arm != "rare" or number % 15 == 1
        rounds = np.arange(1 + (arm == "twice")) if present else np.zeros(0, np.int64)
        included = number // 3 % 2 == 0
        pool[str(number)] = CanaryRow(included, rounds, arm)
        scores.append(random.normal() / math.sqrt(DIM))
    flags = np.array([row.included for row in pool.values()])
    scores_of = {"own_rounds": ScoreFile(tuple(pool), flags, np.array(scores))}
    made = arms_of_log(pool, scores_of, RunFacts(Audit(), DIM), None, (1e-4, 0.95))
    assert made is not None
    assert made.left_out == ("rare",)
    assert [arm.arm for arm in made.comparison.arms] == ["once", "twice"]
    start = "Left out, because too few of their canaries participate: rare."
    assert arms_words(made).startswith(start)


def test_score_files_may_list_canaries_in_different_orders():
    random, count = np.random.default_rng(0), 400
    names, included = [f"c{number}" for number in range(count)], random.random(count) < 0.5
    is_early = random.random(count) < 0.5
    pool = {
        name: CanaryRow(bool(is_in), np.array([0 if early else 2]), "early" if early else "late")
        for name, is_in, early in zip(names, included, is_early, strict=True)
    }
    scores = random.standard_normal((2, count)) + 3.0 * (is_early & included)
    files = [ScoreFile(tuple(names), included, own / math.sqrt(DIM)) for own in scores]
    order = random.permutation(count)
    shuffled = ScoreFile(tuple(names[row] for row in order), included[order], files[1].score[order])
    made, same = (
        arms_of_log(pool, of_statistics, RunFacts(Audit(), DIM), None, (1e-3, 0.95))
        for of_statistics in (
            {"own_rounds": files[0], "max": shuffled},
            {"own_rounds": files[0], "max": files[1]},
        )
    )
    assert len(made.attackers) == 2
    for attacker, other in zip(made.attackers, same.attackers, strict=True):
        early, late = attacker.detections
        # Two normal distributions 3 standard deviations apart have an AUC of 0.983.
        assert early.auc > 0.95
        assert late.auc < 0.6
        assert early.auc == pytest.approx(other.detections[0].auc, rel=1e-12)


def test_bounds_compare_a_pattern_with_others_alone():
    def notes(upper_bound_of_shuffle):
        found = (
            Detection("poisson", 8.0, 9.0, 0.9, 0.1),  # above its own upper bound
            Detection("shuffle", upper_bound_of_shuffle, 1.0, 0.8, 0.1),
        )
        return PatternTable((PatternAttacker("of rounds", "max", found),), "", 0.95).notes

    assert notes(9.5) == []
    (note,) = notes(8.5)
    assert "“poisson” (ε ≥ 9.00) leaks more than “shuffle” (ε ≤ 8.50)" in note


@pytest.mark.parametrize("is_whole", [True, False])
def test_arms_of_a_run_have_allowed_shifts_if_the_run_can_be_read(run_folder, is_whole):
    if not is_whole:
        run_folder.metrics.unlink()
    header, *rows = run_folder.canaries.read_text().splitlines()
    named = [f"{row},{ARMS[number % 2]}" for number, row in enumerate(rows)]
    run_folder.canaries.write_text("\n".join([f"{header},arm", *named]) + "\n")
    found = folder_arms(AuditedFolder(run_folder.path), 1e-3, 0.95)
    assert [arm.arm for arm in found.comparison.arms] == [*ARMS]
    assert [*found.allowed] == ([*ARMS] if is_whole else [])
    shifts = dict(zip(ARMS, (0.3, 0.1 + 0.2), strict=True))
    rounded = dataclasses.replace(found, allowed=shifts if is_whole else {})
    (difference,) = found.comparison.differences
    assert allowed_words(rounded, difference) == ("0" if is_whole else "not known")


@pytest.mark.tff
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "secret"),
    [
        ({"kind": "gaussian_fixed"}, True),
        ({"kind": "matrix_factorisation", "strategy": "banded_sqrt", "bands": 3}, False),
    ],
)
def test_arms_of_equal_rounds_are_compared_by_every_attacker(mechanism, secret, tmp_path, capsys):
    path, folder = tmp_path / "config.toml", tmp_path / "run"
    path.write_text(TINY_RUN)
    models = ["final_and_initial", "all_iterates", "known_rounds", *["secret_rounds"] * secret]
    keys = {
        "canaries.arms": ["repeats:2", "random_allocation:2"],
        "canaries.count": 80,
        "canaries.family": "gaussian",
        "mechanism": mechanism | {"noise_multiplier": 1.0, "clip_norm": 1.0},
        "audit.threat_models": models,
    }
    toml = tomllib.loads(path.read_text())
    for key, value in keys.items():
        set_key(toml, key, value, "test")
    path.write_text(config_to_toml(parse_config(toml, "test")))
    assert main(["run", str(path), "--out", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Which pattern leaks least (2 rounds per canary)?"
    made = json.loads((folder / "report.json").read_text())["arms"]["attackers"]
    best = "likelihood_ratio" if secret else "max"
    assert [one["statistic"] for one in made] == [best, "own_rounds", "final_minus_initial"]
    for attacker in made:
        labels = [found["label"] for found in attacker["detections"]]
        assert labels == ["random_allocation:2", "repeats:2"]
    assert "Which pattern leaks least" in (folder / "report.html").read_text()
    assert main(["verify", str(folder)]) == 0


@pytest.mark.tff
@pytest.mark.slow
def test_a_run_deals_its_canaries_to_arms(tmp_path, capsys):
    path = tmp_path / "config.toml"
    path.write_text(TINY_RUN)
    folder = tmp_path / "run"
    arms = "canaries.arms=['once','every_round']"
    few = ["--set", arms, "--set", "canaries.count=80", "--set", "mechanism.noise_multiplier=1.0"]
    assert main(["run", str(path), "--out", str(folder), *few]) == 0
    capsys.readouterr()
    made = json.loads((folder / "report.json").read_text())["arms"]
    names = [row.arm for row in read_canaries(folder / "canaries.csv").values()]
    assert names.count("once") == names.count("every_round") == 40
    shifts = {arm["arm"]: arm for arm in made["comparison"]["arms"]}
    for name, arm in shifts.items():
        # The intervals hold in 95 % of runs; this seed is one of them, and twice as wide all are.
        reach = arm["upper"] - arm["mu"]
        assert abs(arm["mu"] - made["allowed"][name]) < 2 * reach
    assert made["allowed"]["every_round"] > made["allowed"]["once"]
    assert main(["verify", str(folder)]) == 0
    assert main(["show", str(folder)]) == 0
