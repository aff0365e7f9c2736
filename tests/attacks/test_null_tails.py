"""Null tails on whole paths: bounds on pure noise hold, and nothing is lost on the way."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.attacks import CanaryPool, RoundScorer, SeenRound
from fl_audit.attacks.attacker import AttackContext, Attacker
from fl_audit.attacks.compared_vectors import (
    ComparedVectors,
    Vectors,
    concentration_row,
    largest_cosine,
    one_vector,
    read_compared_vectors,
    write_compared_vectors,
)
from fl_audit.attacks.statistics import RunFacts
from fl_audit.attacks.threat_models import compared_by, make_attackers, scores_of, statistics_for
from fl_audit.canaries.families import FAMILIES, WITH_KNOWN_NULL, DiracFamily
from fl_audit.config import Audit
from fl_audit.errors import InputError
from fl_audit.estimators import (
    METHODS,
    CanaryScores,
    Concentration,
    GaussianCanaryNull,
    concentration_of,
)
from fl_audit.formats.folders import RunFolder
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict import scored_statistic
from tests.attacks.attacked import attacked

ROUNDS = 6
EVERY = {
    "threat_models": ("final", "final_and_initial", "all_iterates", "checkpoints", "window"),
    "release_every": 4,
    "window_first_round": 2,
    "window_last_round": 4,
}
STATISTICS = statistics_for("vectors", Audit(**EVERY))


def context(folder, family, dim, *, seed=3, count=60, completed=0) -> AttackContext:
    made = FAMILIES[family](seed, count, dim)
    return attacked(folder, made, ROUNDS, completed, family, **EVERY)


def show(attackers: tuple[Attacker, ...], aggregates: np.ndarray, rounds: range) -> np.ndarray:
    """Shows rounds of a model that moves by its aggregates; returns the model after the last."""
    models = np.concatenate([0 * aggregates[:1], np.cumsum(aggregates, axis=0, dtype=np.float32)])
    for index in rounds:
        before, after = models[index], models[index + 1]
        for attacker in attackers:
            attacker.see_round(SeenRound(index, before, aggregates[index], after, clip_norm=1.0))
    return models[rounds.stop]


def facts(attackers, family, dim, final) -> RunFacts:
    return RunFacts(Audit(**EVERY), dim, family, compared_by(attackers, final))


def sparse(random: np.random.Generator, dim: int, nonzeros: int) -> np.ndarray:
    """Rounds that all move the same few coordinates, and share most of how."""
    at = random.choice(dim, nonzeros, replace=False)
    moved = np.zeros((ROUNDS, dim), np.float32)
    moved[:, at] = random.normal(size=nonzeros) + 0.3 * random.normal(size=(ROUNDS, nonzeros))
    return moved


class OneSign(DiracFamily):
    """A family from outside the package, with a null distribution of its own."""

    @classmethod
    def null_tail(cls, dim, concentration):
        del concentration
        return GaussianCanaryNull(2 * dim)


def test_a_new_family_brings_its_own_null_distribution(monkeypatch):
    compared = ComparedVectors((Vectors(1),))
    monkeypatch.setitem(FAMILIES, "one_sign", OneSign)
    assert compared.null_tail("one_sign", 100) == GaussianCanaryNull(200)
    with pytest.raises(ValueError, match="dirac canaries have no known null distribution"):
        compared.null_tail("dirac", 100)
    with pytest.raises(KeyError):
        compared.null_tail("unknown", 100)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize(
    ("dim", "nonzeros"),
    [
        (64, 1),
        pytest.param(100, 2, marks=pytest.mark.slow),
        pytest.param(1_000, 4, marks=pytest.mark.slow),
        pytest.param(300, 300, marks=pytest.mark.slow),
    ],
)
def test_bounds_on_pure_noise_hold_for_every_statistic(tmp_path, family, dim, nonzeros):
    """No canary takes part, so that every bound above 0 is an error, of probability 5 %.

    Rounds are as alike as can be. 40 runs, each with a pool and aggregates of its own; more errors
    than the limit come with probability below 1e-7 on one statistic. With the Gaussian limit
    instead of what is known of the vectors, half the bounds on `final` fail at two nonzeros.
    """
    runs, level, count = 40, 0.05, min(100, dim)
    wrong: dict[tuple[str, str], int] = {}
    for seed in range(runs):
        folder = tmp_path / str(seed)
        folder.mkdir()
        random = np.random.default_rng((seed, dim, nonzeros))
        made = context(folder, family, dim, seed=seed, count=count)
        attackers = make_attackers(made, STATISTICS)
        final = show(attackers, sparse(random, dim, nonzeros), range(ROUNDS))
        scores = scores_of(attackers, final)
        known = facts(attackers, family, dim, final)
        included = random.random(count) < 0.5
        for statistic in STATISTICS:
            values = scores[statistic.name]
            of = CanaryScores(values[included], values[~included])
            setting = scored_statistic(statistic, of, known).setting(1e-5, 1 - level)
            gdp = ["threshold_gdp"] * (statistic.name == "final")
            for method in ("threshold_valid", *gdp):
                found = METHODS[method](setting)
                key = statistic.name, method
                wrong[key] = wrong.get(key, 0) + (found.epsilon > 0)
    limit = stats.binom.isf(1e-7, runs, level)
    assert max(wrong.values()) <= limit, wrong
    assert len(wrong) == 9


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "gaussian" else [])
        for name in WITH_KNOWN_NULL
    ],
)
def test_every_statistic_of_dense_rounds_has_a_tail_that_is_nearly_the_scores_own(tmp_path, family):
    """And none of them is refuted by a thousand excluded scores."""
    dim, count = 8_000, 1_000
    aggregates = np.random.default_rng(4).normal(size=(ROUNDS, dim)).astype(np.float32)
    aggregates[1:] += 0.5 * aggregates[0]
    attackers = make_attackers(context(tmp_path, family, dim, count=count), STATISTICS)
    final = show(attackers, aggregates, range(ROUNDS))
    scores, known = scores_of(attackers, final), facts(attackers, family, dim, final)
    for statistic in STATISTICS:
        tail = statistic.null(known).tail
        assert tail is not None
        assert tail.p_value(scores[statistic.name]) > 1e-6
        at = np.sort(scores[statistic.name])[-20]
        # The largest of rounds that share a part has fewer large values than independent ones.
        share = np.exp(tail.log_tail_upper(at))
        slack = 3.0 if statistic.name.endswith("max") else 1.6
        assert 20 / count / 1.7 < share < slack * 20 / count


def test_the_sum_is_a_multiple_of_one_cosine(tmp_path):
    """Against the vectors themselves, in float64."""
    dim = 500
    aggregates = np.random.default_rng(4).normal(1, 1, size=(ROUNDS, dim)).astype(np.float32)
    attackers = make_attackers(context(tmp_path, "rademacher", dim), STATISTICS)
    final = show(attackers, aggregates, range(ROUNDS))
    found = compared_by(attackers, final)
    directions = aggregates / np.linalg.norm(aggregates.astype(np.float64), axis=1, keepdims=True)
    for name, seen in (("sum", slice(None)), ("window_sum", slice(1, 4))):
        total = directions[seen].sum(axis=0)
        assert found[name].scale == pytest.approx(np.linalg.norm(total), rel=1e-12)
        (group,) = found[name].vectors
        assert group.count == 1
        assert group.concentration.cubes == pytest.approx(concentration_of(total).cubes, rel=1e-9)
    assert sum(group.count for group in found["max"].vectors) == ROUNDS
    assert sum(group.count for group in found["window_max"].vectors) == 3
    assert sum(group.count for group in found["checkpoints_max"].vectors) == 2
    assert found["final"] == one_vector("rademacher", final)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("family", ["rademacher", "gaussian"])
@pytest.mark.parametrize("kill", range(1, ROUNDS))
@pytest.mark.parametrize("crash_in_flush", [False, True])
def test_a_crash_changes_nothing_that_is_known(tmp_path, family, kill, crash_in_flush):
    """Killed after any round, before or after what it remembers was written; then other noise."""
    dim, random = 200, np.random.default_rng(4)
    first, second = random.normal(size=(2, ROUNDS, dim)).astype(np.float32)
    (tmp_path / "killed").mkdir()
    (tmp_path / "whole").mkdir()
    attackers = make_attackers(context(tmp_path / "killed", family, dim), STATISTICS)
    saved = 0
    for index in range(kill):
        show(attackers, first, range(index, index + 1))
        if index % 2 == 0 or (crash_in_flush and index + 1 == kill):
            for attacker in attackers:
                attacker.flush()
            saved = saved if crash_in_flush and index + 1 == kill else index + 1
    joined = np.concatenate([first[:saved], second[saved:]])
    resumed = make_attackers(context(tmp_path / "killed", family, dim, completed=saved), STATISTICS)
    final = show(resumed, joined, range(saved, ROUNDS))
    for attacker in resumed:
        attacker.flush()
    again = make_attackers(context(tmp_path / "killed", family, dim, completed=ROUNDS), STATISTICS)
    whole = make_attackers(context(tmp_path / "whole", family, dim), STATISTICS)
    show(whole, joined, range(ROUNDS))
    expected = compared_by(whole, final)
    assert set(expected) == {statistic.name for statistic in STATISTICS}
    assert compared_by(resumed, final) == expected
    assert compared_by(again, final) == expected
    assert len(RunFolder(tmp_path / "killed").direction_sums("sum")) <= 2


def test_what_a_run_should_remember_is_checked(tmp_path):
    made = context(tmp_path, "rademacher", 50)
    attackers = make_attackers(made, STATISTICS)
    show(attackers, np.ones((ROUNDS, 50), np.float32), range(3))
    for attacker in attackers:
        attacker.flush()
    resumed = context(tmp_path, "rademacher", 50, completed=3)
    make_attackers(resumed, STATISTICS)
    path = RunFolder(tmp_path).direction_sum("sum", 3)
    for damage in (lambda: np.save(path, np.zeros(50, np.float32)), path.unlink):
        damage()
        with pytest.raises(InputError, match=r"direction_sum_sum_000003\.npy"):
            make_attackers(context(tmp_path, "rademacher", 50, completed=3), STATISTICS)
    np.save(path, np.zeros(50))
    RunFolder(tmp_path).round_concentrations.unlink()
    with pytest.raises(InputError, match=r"round_concentrations\.npy: is not a log"):
        make_attackers(context(tmp_path, "rademacher", 50, completed=3), STATISTICS)


def rows(*vectors: list[float]) -> np.ndarray:
    return np.array([concentration_row(np.array(vector, np.float32)) for vector in vectors])


def scored(folder, family="rademacher", repeat=False) -> RoundScorer:
    pool = CanaryPool(seed=5, count=100, dim=400, family=family)
    scorer = RoundScorer.create(folder, pool, num_rounds=8)
    for number in (1, 2, 4, 5):
        moved = np.random.default_rng(number).normal(size=400)
        scorer.score_round(number, moved)
    if repeat:
        scorer.score_round(2, np.random.default_rng(9).normal(size=400))
    return scorer


def test_a_server_log_a_finished_one_and_its_aggregates_know_the_same(tmp_path):
    scorer = scored(tmp_path / "audit")
    live = {s.name: s for s in folder_statistics(AuditedFolder(tmp_path / "audit"))}
    reopened = RoundScorer.open(tmp_path / "audit")
    model = np.random.default_rng(3).normal(size=400).astype(np.float32)
    reopened.finish(initial=0 * model, final=model)
    finished = {s.name: s for s in folder_statistics(AuditedFolder(tmp_path / "audit"))}
    log = tmp_path / "log"
    (log / "aggregates").mkdir(parents=True)
    (log / "pool.json").write_bytes(scorer.folder.pool.read_bytes())
    for number in (1, 2, 4, 5):
        moved = np.random.default_rng(number).normal(size=400)
        np.save(log / "aggregates" / f"round_{number}.npy", moved)
    np.save(log / "final.npy", model)
    of_files = {s.name: s for s in folder_statistics(AuditedFolder(log))}
    assert set(live) == {"max", "sum"}
    assert set(finished) == {"final", "final_minus_initial", "max", "sum"}
    for name in ("max", "sum"):
        assert live[name].null.tail == finished[name].null.tail == of_files[name].null.tail
        assert (live[name].null.kind, finished[name].null.kind) == ("empirical", "empirical")
    assert finished["final"].null.tail == of_files["final"].null.tail
    assert isinstance(finished["final"].null.tail.concentration, Concentration)
    assert len(finished["max"].null.tail.rounds) == 4


def test_a_round_that_is_scored_again_leaves_the_sum_unknown_and_the_maximum_known(tmp_path):
    scored(tmp_path / "audit", repeat=True)
    RoundScorer.open(tmp_path / "audit").finish()
    found = {s.name: s.null.tail for s in folder_statistics(AuditedFolder(tmp_path / "audit"))}
    assert found["sum"] is None
    replaced = np.random.default_rng(9).normal(size=400).astype(np.float32)
    groups = [largest_cosine(rows(np.random.default_rng(n).normal(size=400))) for n in (1, 4, 5)]
    groups.append(largest_cosine(rows(replaced)))
    largest = max(group.vectors[0].concentration.cubes for group in groups)
    assert max(null.concentration.cubes for null in found["max"].rounds) == largest


def test_a_server_that_was_killed_before_the_sum_was_written_scores_the_round_again(tmp_path):
    scorer = scored(tmp_path / "audit")
    before = scorer.folder.direction_sum.read_bytes()
    moved = np.random.default_rng(6).normal(size=400)
    scorer.score_round(6, moved)
    whole = folder_statistics(AuditedFolder(tmp_path / "audit"))
    scorer.folder.direction_sum.write_bytes(before)
    killed = {s.name: s.null.tail for s in folder_statistics(AuditedFolder(tmp_path / "audit"))}
    assert killed["sum"] is None
    RoundScorer.open(tmp_path / "audit").score_round(6, moved)
    again = folder_statistics(AuditedFolder(tmp_path / "audit"))
    assert [s.null.tail for s in again] == [s.null.tail for s in whole]
    scorer.folder.direction_sum.write_bytes(before[:-8])
    with pytest.raises(InputError, match=r"direction_sum\.npy: is not a sum of directions"):
        RoundScorer.open(tmp_path / "audit")


def test_what_is_known_survives_the_file_and_a_damaged_file_is_one_clear_line(tmp_path):
    known = {
        "max": ComparedVectors((Vectors(3, Concentration(0.5, 0.25)), Vectors(2))),
        "sum": ComparedVectors((Vectors(1, Concentration(0.1 / 3, 0.01 / 7)),), 1 / 3),
    }
    path = tmp_path / "concentrations.json"
    write_compared_vectors(path, known)
    assert read_compared_vectors(path) == known
    assert read_compared_vectors(tmp_path / "missing.json") == {}
    text = path.read_text()
    for old, new in (
        ('"cubes":0.5', '"cubes":0.9'),
        ('"count":3', '"count":0'),
        ('"scale":1.0', '"scale":0.0'),
        ('"format_version":1', '"format_version":7'),
        ('"scale"', '"skale"'),
        ("}", ""),
    ):
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(InputError, match=r"concentrations\.json: ") as refused:
            read_compared_vectors(path)
        assert "\n" not in str(refused.value)
