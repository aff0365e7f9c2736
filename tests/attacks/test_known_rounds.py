"""Own rounds: scores by hand, the null distribution by simulation, and logs with and without
rounds."""

import csv
import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.attacks import CanaryPool, RoundScorer, directions
from fl_audit.attacks.compared_vectors import read_compared_vectors
from fl_audit.attacks.directions import RoundDirections
from fl_audit.attacks.log_scores import score_log
from fl_audit.attacks.logs import read_listed, read_log
from fl_audit.attacks.own_rounds import OwnRounds, sums_in_own_rounds
from fl_audit.canaries.families import WITH_KNOWN_NULL
from fl_audit.errors import InputError
from fl_audit.estimators.null import AtMostNull
from fl_audit.estimators.threshold.valid_threshold import threshold_gdp, threshold_valid
from fl_audit.formats.folders import LogFolder
from fl_audit.report.folder import AuditedFolder, folder_statistics


def own(*rounds):
    return OwnRounds(tuple(np.array(of_canary, np.int64) for of_canary in rounds))


def test_scores_by_hand():
    rows = [(0, np.float32([1, 2, 3, 4])), (2, np.float32([5, 6, 7, 8]))]
    # The third has a round that was not scored, the fourth has none: both take the first.
    scores = sums_in_own_rounds(rows, own([2], [0, 2], [1], [])).over_roots()
    np.testing.assert_allclose(scores, [5, 8 / math.sqrt(2), 3, 4])
    assert own([2], [0, 2], [1], []).most == 2
    assert sums_in_own_rounds([], own([2], [])).totals.tolist() == [0, 0]
    assert sums_in_own_rounds(rows, own(*[[]] * 4)).totals.tolist() == [1, 2, 3, 4]  # no rounds


def rounds_of(random: np.random.Generator, pool_size: int, num_rounds: int, each: int):
    """Own rounds of every canary, without repeats, from 1."""
    dealt = [random.choice(num_rounds, each, replace=False) for _ in range(pool_size)]
    return [sorted(int(index) + 1 for index in own) for own in dealt]


def audited(folder, pool, rounds, noise, num_rounds, *, drift=0.0, leak=True):
    """A log of noised sums of canaries at a clip norm that wanders, all rounds alike by `drift`."""
    random = np.random.default_rng(pool.seed)
    common = random.standard_normal(pool.dim)
    clip_norm = 1.0
    scorer = RoundScorer.create(folder, pool, num_rounds, rounds)
    for number in range(1, num_rounds + 1):
        total = noise * (random.standard_normal(pool.dim) + drift * common)
        for canary in np.flatnonzero(pool.included) if leak else ():
            if number in rounds[canary]:
                total += pool.vector(int(canary))
        scorer.score_round(number, (clip_norm * total).astype(np.float32))
        clip_norm *= math.exp(0.3 * random.standard_normal())
    scorer.finish()
    return scorer


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", WITH_KNOWN_NULL)
def test_a_log_with_rounds_proves_most_of_what_noise_guarantees(tmp_path, family):
    rounds = rounds_of(np.random.default_rng(5), 400, 20, 1)
    audited(tmp_path / "log", CanaryPool(5, 400, 3000, family), rounds, 0.3, 20)
    scored = own_rounds_of(tmp_path / "log")
    assert scored.null.kind == "closed_form"
    setting = scored.setting(1e-5, 0.95)
    valid, gaussian = threshold_valid(setting), threshold_gdp(setting)
    assert 5 < valid.epsilon < gaussian.epsilon < 20
    assert gaussian.details["mu"] < 1 / 0.3
    assert "refuted_null" not in valid.details


def test_excluded_scores_have_the_null_law_whatever_the_rounds_are(tmp_path):
    pool = CanaryPool(3, 2000, 400, "gaussian")
    rounds = rounds_of(np.random.default_rng(1), 2000, 5, 1)
    # Five rounds that are nearly the same vector.
    audited(tmp_path / "log", pool, rounds, 0.01, 5, drift=100.0, leak=False)
    with (tmp_path / "log" / "scores_own_rounds.csv").open() as file:
        scores = np.array([float(row["score"]) for row in csv.DictReader(file)])
    # Everybody is excluded here, as nobody's vector is in an aggregate. Fails by chance with 1e-6.
    assert stats.kstest(scores * math.sqrt(400), "norm").pvalue > 1e-6


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        ([[1]] * 39, "must have the rounds of 40 canaries, got 39"),
        ([[0]] * 40, r"the rounds of canary 0 must be in 1 to 2 \(num_rounds\), got \[0\]"),
        ([[1], [3], *[[1]] * 38], "the rounds of canary 1 must be in 1 to 2"),
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
        read_listed(scorer.folder, scorer.pool)
    with pytest.raises(InputError, match=r"canaries\.csv: has changed since the canaries of"):
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
    scored = own_rounds_of(tmp_path / "log")
    assert threshold_valid(scored.setting(1e-5, 0.95)).epsilon == 0


# Own rounds of canaries with several: lengths by hand, every way to the scores, and coverage.


WHOLE, SKETCHED = 1 << 29, 4 * 12 * 600


def own_rounds_of(folder):
    return {s.name: s for s in folder_statistics(AuditedFolder(folder))}["own_rounds"]


@pytest.mark.parametrize("family", WITH_KNOWN_NULL)
def test_the_score_is_the_cosine_with_the_sum_of_own_directions(tmp_path, family):
    pool = CanaryPool(3, 60, 500, family)
    random = np.random.default_rng(1)
    aggregates = random.standard_normal((4, 500)) + 0.5
    rounds = [[1, 2], [1, 3, 4], [], [2]] * 15
    scorer = RoundScorer.create(tmp_path / "log", pool, 4, rounds)
    for number, aggregate in enumerate(aggregates, start=1):
        scorer.score_round(number, aggregate)
    scorer.score_round(2, aggregates[1])  # a server that goes back to its checkpoint
    with scorer.finish()["own_rounds"].open() as file:
        scores = [float(row["score"]) for row in csv.DictReader(file)]
    directions = aggregates / np.linalg.norm(aggregates, axis=1, keepdims=True)
    for canary, own in enumerate(rounds):
        total = directions[np.array(own or [1]) - 1].sum(axis=0)
        expected = pool.cosines(total.astype(np.float32))[canary]
        assert scores[canary] == pytest.approx(expected, abs=1e-6)
    known = read_compared_vectors(scorer.folder.compared_vectors)["own_rounds"]
    assert not known.is_limit
    assert own_rounds_of(tmp_path / "log").null.kind == "closed_form"
    # The same aggregates as files of another system.
    other = tmp_path / "other"
    (other / "aggregates").mkdir(parents=True)
    for name in ("pool.json", "canaries.csv"):
        (other / name).write_bytes((tmp_path / "log" / name).read_bytes())
    for number, aggregate in enumerate(aggregates, start=1):
        np.save(other / "aggregates" / f"round_{number}.npy", aggregate)
    own = own_rounds_of(other)
    np.testing.assert_allclose(
        np.sort(np.concatenate([own.scores.included, own.scores.excluded])),
        np.sort(scores),
        atol=1e-6,
    )
    assert own.null.kind == "closed_form"


def test_a_round_whose_direction_is_lost_leaves_the_empirical_null(tmp_path):
    pool = CanaryPool(3, 40, 400)
    scorer = RoundScorer.create(tmp_path / "log", pool, 2, [[1, 2]] * 40)
    random = np.random.default_rng(1)
    for number in (1, 2):
        scorer.score_round(number, random.standard_normal(400))
    # As after a kill between the cosines and the direction of round 2.
    directions = RoundDirections.opened(
        "r+", scorer.folder.round_directions, 2, pool.seed, pool.dim
    )
    directions.forget(1)
    directions.flush()
    scorer.finish()
    assert "own_rounds" not in read_compared_vectors(scorer.folder.compared_vectors)
    assert own_rounds_of(tmp_path / "log").null.kind == "empirical"
    RoundScorer.open(tmp_path / "log").score_round(2, random.standard_normal(400))
    scorer.finish()
    assert "own_rounds" in read_compared_vectors(scorer.folder.compared_vectors)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("most_bytes", [WHOLE, SKETCHED])
@pytest.mark.parametrize("family", WITH_KNOWN_NULL)
def test_excluded_scores_are_within_the_null_where_rounds_are_alike(
    tmp_path, monkeypatch, family, most_bytes
):
    monkeypatch.setattr(directions, "_MOST_BYTES", most_bytes)
    pool = CanaryPool(3, 600, 2000, family)
    rounds = rounds_of(np.random.default_rng(2), 600, 12, 4)
    audited(tmp_path / "log", pool, rounds, 1.0, 12, drift=1.0, leak=False)
    scored = own_rounds_of(tmp_path / "log")
    tail = scored.setting(1e-5, 0.95).null.tail
    assert isinstance(tail, AtMostNull) == (most_bytes == SKETCHED)
    # Nobody's vector is in an aggregate. P-values are at most uniform; fails by chance with 1e-6.
    scores = np.concatenate([scored.scores.included, scored.scores.excluded])
    p_values = np.exp(tail.log_tail_upper(scores))
    assert stats.kstest(p_values, "uniform", alternative="greater").pvalue > 1e-6


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("family", "most_bytes"),
    [
        pytest.param(family, most_bytes, marks=() if family == "gaussian" else pytest.mark.slow)
        for family in WITH_KNOWN_NULL
        for most_bytes in (WHOLE, SKETCHED)
    ],
)
def test_bounds_of_several_rounds_hold_for_a_gaussian_mechanism(
    tmp_path, monkeypatch, family, most_bytes
):
    monkeypatch.setattr(directions, "_MOST_BYTES", most_bytes)
    mu, exceeded, lower_bound = math.sqrt(4) / 1.0, 0, []
    for seed in range(8):
        pool = CanaryPool(seed, 120, 1500, family)
        rounds = rounds_of(np.random.default_rng(seed), 120, 12, 4)
        audited(tmp_path / str(seed), pool, rounds, 1.0, 12, drift=0.2)
        setting = own_rounds_of(tmp_path / str(seed)).setting(1e-3, 0.95)
        lower_bound.append(threshold_gdp(setting).details["mu"])
        exceeded += lower_bound[-1] > mu
    # 8 audits at 5 %: 6 or more by chance with probability 4e-7.
    assert exceeded < 6
    assert np.median(lower_bound) > (0.55 if most_bytes == WHOLE else 0.25) * mu


@pytest.mark.parametrize("family", ["gaussian", "rademacher"])
def test_a_zero_aggregate_leaves_no_known_null(tmp_path, family):
    """An excluded canary's score is then 0, which no cosine with a direction is."""
    pool, random = CanaryPool(seed=1, count=20, dim=500, family=family), np.random.default_rng(1)
    for zeros, known in ((0, ["own_rounds"]), (3, [])):
        path = tmp_path / str(zeros)
        scorer = RoundScorer.create(path, pool, 5, [[1 + j % 5] for j in range(20)])
        for number in range(1, 6):
            scorer.score_round(number, random.normal(size=500) * (number > zeros))
        compared = score_log(read_log(LogFolder(path), list)).compared
        assert [name for name in compared if name == "own_rounds"] == known
