"""The checks of the mechanism of logs: by a scorer, of files, after crashes, in the verdict."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.checks.measured_rounds import MechanismWatch
from fl_audit.cli import main
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder
from fl_audit.participation.placement import spread
from fl_audit.report.build import EstimateRequest, report_on_statistics
from fl_audit.report.checks import folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict import Claim
from tests.checks.told_servers import (
    CLIP,
    COHORT,
    DIM,
    NOISE,
    RIGHT,
    SIZES,
    WRONG,
    Server,
)

COUNT, ROUNDS, CLAIM = 400, 20, 7.6


def scored(path: Path, server: Server, *, is_told: bool = True, rounds: range = range(ROUNDS)):
    """A log of a server beside whose clients 400 canaries take part, each in one round."""
    pool = CanaryPool(seed=5, count=COUNT, dim=DIM)
    dealt = spread(np.arange(COUNT), 5, ROUNDS, 1).by_member(COUNT)
    if path.exists():
        scorer = RoundScorer.open(path)
    else:
        scorer = RoundScorer.create(path, pool, ROUNDS, dealt)
        (path / "participation.json").write_text(
            '{"sampling": "none", "claim_counts_on_sampling": false}'
        )
    for index in rounds:
        present = [c for c in np.flatnonzero(pool.included) if list(dealt[c]) == [index + 1]]
        released = server.released[index].copy()
        for canary in present:
            released += CLIP / COHORT * pool.vector(int(canary))
        told = {}
        if is_told:
            told["noise_stddev"] = server.stddev[index]
            if server.bound is not None:
                told["norm_bound"] = server.bound[index] + len(present) * CLIP / COHORT
        arrays = np.split(released, np.cumsum(SIZES)[:-1])
        scorer.score_round(index + 1, arrays, canary_length=CLIP / COHORT, **told)
    return scorer


def report(path: Path):
    folder = AuditedFolder(path)
    asked = EstimateRequest(1e-3, methods=("threshold_valid",), claim=Claim(CLAIM, 1e-3))
    chosen = [one for one in folder_statistics(folder) if one.name == "own_rounds"]
    return report_on_statistics(folder, chosen, asked)


def failed(path: Path) -> set[str]:
    return {check.name for check in folder_checks(AuditedFolder(path)).results if check.failed}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_log_is_not_consistent(name, tmp_path):
    make, check = WRONG[name]
    scored(tmp_path / "log", make(1, ROUNDS)).finish()
    made = report(tmp_path / "log")
    assert check in failed(tmp_path / "log")
    assert made.verdict.outcome != "consistent"
    if made.verdict.outcome == "inconclusive":
        assert "The mechanism is not as configured" in made.verdict.reason


@pytest.mark.parametrize(
    ("name", "outcome"), [("short updates", "consistent"), ("correlated noise", "inconclusive")]
)
def test_a_right_log_is_consistent_where_clients_do_not_hide_canaries(name, outcome, tmp_path):
    """Six checks fail with 1e-6 each; canaries arrive by chance with the seed that is fixed."""
    scored(tmp_path / "log", RIGHT[name](1, ROUNDS)).finish()
    made = report(tmp_path / "log")
    assert failed(tmp_path / "log") == set()
    assert [check.name for check in made.checks.results][:5] == [
        "enough_noise",
        "noise_everywhere",
        "fresh_noise",
        "noise_distribution",
        "bounded_length",
    ]
    assert made.verdict.outcome == outcome, made.verdict.reason
    assert ("norm_bound" in (made.checks.not_checked or "")) is (name == "correlated noise")
    is_hidden = "of what hides the canaries is clients' updates" in made.verdict.reason
    assert is_hidden is (outcome == "inconclusive")


def unstated(path: Path):
    """The verdict on own rounds of a log on which nobody claims anything."""
    folder = AuditedFolder(path)
    asked = EstimateRequest(1e-3, methods=("threshold_valid",))
    chosen = [one for one in folder_statistics(folder) if one.name == "own_rounds"]
    return report_on_statistics(folder, chosen, asked).verdict


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["as told", "correlated noise"])
def test_where_nothing_is_claimed_the_told_noise_is_tested(name, tmp_path):
    scored(tmp_path / "log", RIGHT[name](1, ROUNDS)).finish()
    verdict = unstated(tmp_path / "log")
    assert verdict.outcome != "contradicted"
    assert (verdict.claim.kind, verdict.claim.is_stated) == ("configured", False)
    assert verdict.claim.noise_multiplier == pytest.approx(NOISE)
    assert (verdict.confidence, verdict.statistic) == (0.999, "own_rounds")


def test_noise_that_is_not_told_or_of_several_rounds_is_not_tested(tmp_path):
    scored(tmp_path / "log", RIGHT["as told"](1, ROUNDS), is_told=False).finish()
    assert unstated(tmp_path / "log") is None
    server = RIGHT["as told"](1, ROUNDS)
    scorer = scored(tmp_path / "partly", server, rounds=range(ROUNDS - 1))
    scorer.score_round(ROUNDS, server.released[-1], canary_length=CLIP / COHORT)
    assert unstated(tmp_path / "partly") is None
    pool = CanaryPool(seed=5, count=COUNT, dim=DIM)
    twice = spread(np.arange(COUNT), 5, ROUNDS, 2).by_member(COUNT)
    several = RoundScorer.create(tmp_path / "several", pool, ROUNDS, twice)
    for index, released in enumerate(server.released):
        told = {"noise_stddev": server.stddev[index], "canary_length": CLIP / COHORT}
        several.score_round(index + 1, released, **told)
    assert unstated(tmp_path / "several") is None


def test_checks_are_shown_in_the_terminal_on_the_page_and_in_json(tmp_path, capsys):
    scored(tmp_path / "log", WRONG["half the noise"][0](1, ROUNDS)).finish()
    page = tmp_path / "page.html"
    asked = ["estimate", str(tmp_path / "log"), "--delta=1e-3", f"--out={page}"]
    asked += ["--statistic=own_rounds", "--methods=threshold_valid"]
    assert main(asked) == 0
    assert "mechanism checks: FAILED: Enough noise" in capsys.readouterr().out
    text = page.read_text()
    assert "The mechanism is not as configured" in text
    assert 'id="checks"' in text
    assert "or what noise was added" not in text
    assert main([*asked, "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert (checks["passed"], checks["results"][0]["name"]) == (False, "enough_noise")


def foreign(path: Path, log: Path, server: Server) -> LogFolder:
    """The same log as another system writes it, with its aggregates and nothing measured."""
    folder, told = LogFolder(path), LogFolder(log)
    folder.aggregates.mkdir(parents=True)
    for kept in (told.pool, told.canaries, told.round_mechanism, told.variables):
        shutil.copy(kept, path)
    pool = CanaryPool(seed=5, count=COUNT, dim=DIM)
    dealt = spread(np.arange(COUNT), 5, ROUNDS, 1).by_member(COUNT)
    for index, released in enumerate(server.released):
        vector = released.copy()
        for canary in np.flatnonzero(pool.included):
            if list(dealt[canary]) == [index + 1]:
                vector += CLIP / COHORT * pool.vector(int(canary))
        np.save(folder.aggregates / f"round_{index + 1}.npy", vector.astype(np.float32))
    return folder


@pytest.mark.parametrize("name", ["as told", "the same noise in every round"])
def test_files_of_another_system_are_checked_as_a_scorer_checks_them(name, tmp_path):
    server = (RIGHT[name] if name in RIGHT else WRONG[name][0])(2, ROUNDS)
    scored(tmp_path / "log", server)
    folder = foreign(tmp_path / "files", tmp_path / "log", server)
    of_files = folder_checks(AuditedFolder(folder.path))
    assert of_files == folder_checks(AuditedFolder(tmp_path / "log"))
    assert of_files.passed is (name in RIGHT)


def test_variables_and_frozen_ones(tmp_path):
    pool = CanaryPool(seed=5, count=COUNT, dim=DIM)
    path = tmp_path / "log"
    with pytest.raises(InputError, match=r"sizes must be positive and add up to dim = 2,000"):
        RoundScorer.create(path, pool, 9, variable_sizes=[7, 8])
    with pytest.raises(
        InputError, match="frozen must list some variables, not all, by numbers from 1 to 2"
    ):
        RoundScorer.create(path, pool, 9, variable_sizes=[1900, 100], frozen=[3])
    with pytest.raises(InputError, match="variable_sizes: is required with frozen"):
        RoundScorer.create(path, pool, 9, frozen=[3])
    scorer = RoundScorer.create(path, pool, 9, variable_sizes=[1900, 100], frozen=[2])
    watch = MechanismWatch((1900, 100), frozen=[2])
    random = np.random.default_rng(8)
    for number in range(1, 10):
        vector = np.append(random.normal(size=1900), np.zeros(100)).astype(np.float32)
        scorer.score_round(number, vector, noise_stddev=1.0, norm_bound=0.5)
        watch.see_round(vector, noise_stddev=1.0, norm_bound=0.5)
    made = folder_checks(AuditedFolder(path)).results
    assert [(check.name, check.p_value) for check in made] == [
        (check.name, check.p_value) for check in watch.checks()
    ]
    assert all(check.passed for check in made)
    assert made[-1].name == "frozen_variables"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"norm_bound": 1.0}, "noise_stddev: is required with norm_bound"),
        ({"noise_stddev": -1.0}, "noise_stddev: must be a number, at least 0, got -1.0"),
        ({"noise_stddev": 1.0, "norm_bound": np.inf}, "norm_bound: must be a number, at least 0"),
    ],
)
def test_what_cannot_be_is_refused(told, message, tmp_path):
    scorer = RoundScorer.create(tmp_path / "log", CanaryPool(5, COUNT, DIM), 2)
    with pytest.raises(InputError, match=message):
        scorer.score_round(1, np.ones(DIM), **told)
    assert scorer.scored_rounds == []


def test_a_damaged_file_is_named(tmp_path):
    server = RIGHT["as told"](7, ROUNDS)
    scored(tmp_path / "log", server, rounds=range(3))
    folder = LogFolder(tmp_path / "log")
    rows = np.load(folder.round_mechanism)
    rows[1, 0] = -3
    np.save(folder.round_mechanism, rows)
    with pytest.raises(InputError, match=r"round_mechanism\.npy: round 2: must be numbers of at"):
        folder_checks(AuditedFolder(folder.path))
    rows[1, 0] = 1
    np.save(folder.round_mechanism, rows)
    folder.variables.write_text('{"sizes": [2000], "frozen": [1]}')
    with pytest.raises(InputError, match=r"variables\.json: frozen must list some variables"):
        folder_checks(AuditedFolder(folder.path))
