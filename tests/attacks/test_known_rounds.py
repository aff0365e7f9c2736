"""Own rounds: scores by hand, the null law by simulation, and logs with and without rounds."""

import csv
import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.attacks.own_rounds import OwnRounds, sums_in_own_rounds
from fl_audit.errors import InputError
from fl_audit.estimators.threshold.valid import threshold_gdp, threshold_valid
from fl_audit.report.folder import AuditedFolder, folder_statistics

FAMILIES = ["gaussian", "rademacher", "hadamard"]


def own(*rounds):
    return OwnRounds(tuple(np.array(of_canary, np.int64) for of_canary in rounds))


def test_scores_by_hand():
    rows = [(0, np.float32([1, 2, 3, 4])), (2, np.float32([5, 6, 7, 8]))]
    # The third has a round that was not scored, the fourth has none: both take the first.
    scores = sums_in_own_rounds(rows, own([2], [0, 2], [1], [])).over_roots()
    np.testing.assert_allclose(scores, [5, 8 / math.sqrt(2), 3, 4])
    assert own([2], [0, 2], [1], []).most == 2
    assert sums_in_own_rounds([], own([2], [])).totals.tolist() == [0, 0]


def audited(folder, family, noise, seed, *, pool_size=400, dim=3000, num_rounds=20):
    """A log of noised sums of unit canaries, each in one round: Gaussian mechanisms."""
    pool = CanaryPool(seed, pool_size, dim, family)
    random = np.random.default_rng(seed)
    rounds = random.integers(num_rounds, size=pool_size)
    scorer = RoundScorer.create(folder, pool, num_rounds, [[int(r) + 1] for r in rounds])
    for index in range(num_rounds):
        total = noise * random.standard_normal(dim)
        for canary in np.flatnonzero(pool.included & (rounds == index)):
            total += pool.vector(int(canary))
        scorer.score_round(index + 1, total.astype(np.float32))
    scorer.finish()
    return pool


@pytest.mark.parametrize("family", FAMILIES)
def test_a_log_with_rounds_proves_most_of_what_noise_guarantees(tmp_path, family):
    audited(tmp_path / "log", family, 0.3, 5)
    scored = {s.name: s for s in folder_statistics(AuditedFolder(tmp_path / "log"))}["own_rounds"]
    assert scored.null.kind == "closed_form"
    setting = scored.setting(1e-5, 0.95)
    valid, gaussian = threshold_valid(setting), threshold_gdp(setting)
    assert 5 < valid.epsilon < gaussian.epsilon < 20
    assert gaussian.details["mu"] < 1 / 0.3
    assert "refuted_null" not in valid.details


@pytest.mark.parametrize("family", FAMILIES)
def test_bounds_hold_for_a_gaussian_mechanism(tmp_path, family):
    exceeded = 0
    for seed in range(20):
        audited(tmp_path / str(seed), family, 1.0, seed, pool_size=200, dim=500, num_rounds=10)
        found = folder_statistics(AuditedFolder(tmp_path / str(seed)))
        (scored,) = (s for s in found if s.name == "own_rounds")
        exceeded += threshold_gdp(scored.setting(1e-3, 0.95)).details["mu"] > 1.0
    # 20 audits at 5 %: 9 or more by chance with probability 1e-7.
    assert exceeded < 9


def test_excluded_scores_have_the_null_law_whatever_the_rounds_are(tmp_path):
    pool = CanaryPool(3, 2000, 400, "gaussian")
    random = np.random.default_rng(1)
    rounds = random.integers(5, size=2000)
    scorer = RoundScorer.create(tmp_path / "log", pool, 5, [[int(r) + 1] for r in rounds])
    direction = random.standard_normal(400)
    for number in range(1, 6):  # five rounds that are nearly the same vector
        scorer.score_round(number, (direction + 0.01 * random.standard_normal(400)))
    scorer.finish()
    with (tmp_path / "log" / "scores_own_rounds.csv").open() as file:
        scores = np.array([float(row["score"]) for row in csv.DictReader(file)])
    # Everybody is excluded here, as nobody's vector is in an aggregate. Fails by chance with 1e-6.
    assert stats.kstest(scores * math.sqrt(400), "norm").pvalue > 1e-6


def test_a_log_without_rounds_has_no_own_rounds(tmp_path):
    pool = CanaryPool(3, 40, 400)
    scorer = RoundScorer.create(tmp_path / "log", pool, 2)
    scorer.score_round(1, np.ones(400))
    assert list(scorer.finish()) == ["max", "sum"]


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        ([[1]] * 39, "must have the rounds of 40 canaries, got 39"),
        ([[0]] * 40, r"those of canary 0 must be in 1 to 2 \(num_rounds\), got \[0\]"),
        ([[1], [3], *[[1]] * 38], "those of canary 1 must be in 1 to 2"),
    ],
)
def test_rounds_that_do_not_fit_are_refused(tmp_path, rounds, message):
    with pytest.raises(InputError, match=message):
        RoundScorer.create(tmp_path / "log", CanaryPool(3, 40, 400), 2, rounds)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("wrong", ["one", "0", "-1", "9" * 30])
def test_a_file_with_wrong_rounds_is_refused(tmp_path, wrong):
    scorer = RoundScorer.create(tmp_path / "log", CanaryPool(3, 4, 400), 2, [[1]] * 4)
    text = scorer.folder.canaries.read_text()
    scorer.score_round(1, np.ones(400))
    scorer.folder.canaries.write_text(text.replace(",1\n", f",{wrong}\n", 1))
    with pytest.raises(InputError, match=r"canaries\.csv, canary_id '\d': rounds must be whole"):
        scorer.finish()


def test_the_bound_holds_for_the_worst_of_the_rounds(tmp_path):
    # One round on a single coordinate among dense ones: the bound of that one counts for all.
    pool = CanaryPool(3, 300, 4096, "rademacher")
    random = np.random.default_rng(2)
    rounds = random.integers(4, size=300)
    scorer = RoundScorer.create(tmp_path / "log", pool, 4, [[int(r) + 1] for r in rounds])
    for number in (1, 2, 3):
        scorer.score_round(number, random.standard_normal(4096))
    scorer.score_round(4, np.eye(1, 4096)[0])
    scorer.finish()
    (scored,) = (
        s for s in folder_statistics(AuditedFolder(tmp_path / "log")) if s.name == "own_rounds"
    )
    assert threshold_valid(scored.setting(1e-5, 0.95)).epsilon == 0
