"""Threat model `one_upload`: scores of canaries' own uploads, and what they prove."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, Participation, RoundScorer
from fl_audit.attacks.log_scores import ScoredLog, score_log
from fl_audit.attacks.logs import read_log
from fl_audit.attacks.one_upload import ONE_UPLOAD
from fl_audit.attacks.statistics import RunFacts
from fl_audit.config_tables.audit import Audit
from fl_audit.errors import InputError
from fl_audit.estimators import estimate
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from fl_audit.formats.folders import LogFolder
from fl_audit.number_words import upper_bound_text
from fl_audit.report.build import EstimateRequest, report_on_folder
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.report.headline import headline
from fl_audit.report.report import report_to_json
from fl_audit.verdict.claims import Claim

_DELTA = 1e-3
_ASKED = EstimateRequest(delta=_DELTA, methods=("threshold_valid",))


def _uploads(pool: CanaryPool, noise: float, random: np.random.Generator) -> dict[int, np.ndarray]:
    """What devices send that clip to 1 and add noise: canaries, and noise where one is excluded."""
    return {
        canary: pool.vector(canary) * is_in + noise * random.standard_normal(pool.dim)
        for canary, is_in in enumerate(pool.included.tolist())
    }


def _scored(folder: Path) -> ScoredLog:
    return score_log(read_log(LogFolder(folder), lambda paths: paths))


def _log(folder: Path, pool: CanaryPool, noise: float, seed: int, **told: object) -> ScoredLog:
    scorer = RoundScorer.create(folder, pool, 1, **told)
    scorer.score_uploads(1, _uploads(pool, noise, np.random.default_rng(seed)))
    return _scored(folder)


def _bound(scored: ScoredLog, method: str) -> float:
    facts = RunFacts(Audit(), scored.pool.dim, scored.pool.family, scored.compared)
    made = estimate(
        scored.scores["one_upload"].canary_scores(),
        delta=_DELTA,
        confidence=0.95,
        methods=(method,),
        null=ONE_UPLOAD.null(facts),
    )
    return made.estimates[0].epsilon


def test_a_score_is_the_cosine_with_the_upload(tmp_path: Path) -> None:
    pool = CanaryPool(seed=3, count=6, dim=50)
    sent = _uploads(pool, 0.4, np.random.default_rng(0))
    RoundScorer.create(tmp_path / "log", pool, 1).score_uploads(1, sent)
    expected = [v @ pool.vector(j) / np.linalg.norm(v) for j, v in sent.items()]
    scores = _scored(tmp_path / "log").scores["one_upload"].score
    np.testing.assert_allclose(scores, expected, atol=1e-6)


@pytest.mark.parametrize("family", ["rademacher", "gaussian"])
def test_several_uploads_are_one_cosine_with_the_sum_of_directions(
    tmp_path: Path, family: str
) -> None:
    pool = CanaryPool(seed=3, count=6, dim=50, family=family)
    rounds = [[1, 2, 3]] * 5 + [[2]]
    scorer = RoundScorer.create(tmp_path / "log", pool, 3, rounds)
    total = np.zeros((6, 50))
    random = np.random.default_rng(0)
    for number in (1, 2, 3):
        sent = _uploads(pool, 0.4, random)
        sent = {canary: v for canary, v in sent.items() if number in rounds[canary]}
        scorer.score_uploads(number, sent)
        for canary, vector in sent.items():
            total[canary] += vector / np.linalg.norm(vector)
    expected = [u @ pool.vector(j) / np.linalg.norm(u) for j, u in enumerate(total)]
    scored = _scored(tmp_path / "log")
    np.testing.assert_allclose(scored.scores["one_upload"].score, expected, atol=1e-5)
    assert not scored.compared["one_upload"].is_limit


def test_the_null_law_holds_of_updates_in_a_canarys_place_that_are_alike_in_all_rounds(
    tmp_path: Path,
) -> None:
    # An ordinary update without noise, the same each time: the sum of K directions is K long.
    pool = CanaryPool(seed=5, count=400, dim=300)
    scorer = RoundScorer.create(tmp_path / "log", pool, 3, [[1, 2, 3]] * 400)
    update = np.random.default_rng(1).standard_normal(300)
    for number in (1, 2, 3):
        scorer.score_uploads(number, dict.fromkeys(range(400), update))
    z = _scored(tmp_path / "log").scores["one_upload"].score * np.sqrt(300)
    # Variance 1; its estimate from 400 scores has deviation 0.07, 5 of which fail 6e-7 of the time.
    assert abs(np.mean(z**2) - 1) < 5 * np.sqrt(2 / 400)


@pytest.mark.parametrize("logs", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_half_the_noise_is_found_and_all_of_it_never(tmp_path: Path, logs: int) -> None:
    noise = 1.0
    claimed = epsilon_of_sigma(noise, _DELTA)
    bounds = []
    for seed in range(logs):
        pool = CanaryPool(seed=seed, count=100, dim=200)
        bounds.append(_bound(_log(tmp_path / f"right{seed}", pool, noise, seed), "threshold_valid"))
    assert max(bounds) <= claimed
    pool = CanaryPool(seed=1, count=300, dim=400)
    wrong = _log(tmp_path / "wrong", pool, noise / 2, 1)
    assert _bound(wrong, "threshold_valid") > claimed


def test_a_claim_on_uploads_is_contradicted_where_it_says_that_it_is_one(tmp_path: Path) -> None:
    claim = Claim(epsilon_of_sigma(1.0, _DELTA), _DELTA)
    pool = CanaryPool(seed=1, count=300, dim=400)
    _log(tmp_path / "silent", pool, 0.5, 1)
    told = Participation("none", client_rounds=1, claim_covers_uploads=True)
    _log(tmp_path / "told", pool, 0.5, 1, participation=told)
    outcomes = {}
    for name in ("silent", "told"):
        asked = dataclasses.replace(_ASKED, claim=claim)
        report = report_on_folder(AuditedFolder(tmp_path / name), asked)
        assert report.verdict is not None
        outcomes[name] = report.verdict.outcome
        if name == "silent":
            assert "claim_covers_uploads" in str(report.verdict.reason)
    assert outcomes == {"silent": "inconclusive", "told": "contradicted"}


def test_a_log_that_states_the_noise_of_uploads_has_its_guarantee_and_is_held_to_it(
    tmp_path: Path,
) -> None:
    pool = CanaryPool(seed=1, count=300, dim=400)
    told = Participation("none", client_rounds=1, upload_noise_multiplier=1.0)
    outcomes = {}
    for name, noise in (("right", 1.0), ("half", 0.5)):
        _log(tmp_path / name, pool, noise, 1, participation=told)
        report = report_on_folder(AuditedFolder(tmp_path / name), _ASKED)
        assert report.verdict is not None
        outcomes[name] = report.verdict.outcome
        words = "\n".join(headline(report).lines())
        assert f"upper bound   ε ≤ {upper_bound_text(epsilon_of_sigma(1.0, _DELTA))} for a" in words
        assert "from accounting as the log states" in words
        written = report_to_json(report)
        assert written["analytical"]["basis"] == "as the log states"
        assert written["efficiency"]["one_upload"]["guaranteed"] == epsilon_of_sigma(1.0, _DELTA)
        assert "sees_uploads" in written["analytical"]["attackers"]
    assert outcomes == {"right": "inconclusive", "half": "contradicted"}


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "uploads", "seeds"), [(0.5, 1, 20), (1.0, 4, 10)])
def test_most_of_a_gaussian_uploads_epsilon_is_proven(
    tmp_path: Path, noise: float, uploads: int, seeds: int
) -> None:
    """300 canaries: the median bound is above 80 %, and 65 % for any mechanism."""
    upper_bound = epsilon_of_sigma(noise / np.sqrt(uploads), _DELTA)
    shares: dict[str, list[float]] = {"threshold_gdp": [], "threshold_valid": []}
    for seed in range(seeds):
        pool = CanaryPool(seed=100 + seed, count=300, dim=4_000)
        folder, random = tmp_path / str(seed), np.random.default_rng(seed)
        rounds = [list(range(1, uploads + 1))] * 300
        scorer = RoundScorer.create(folder, pool, uploads, rounds)
        for number in range(1, uploads + 1):
            scorer.score_uploads(number, _uploads(pool, noise, random))
        scored = _scored(folder)
        for method, found in shares.items():
            found.append(_bound(scored, method) / upper_bound)
    assert np.median(shares["threshold_gdp"]) >= 0.8
    assert np.median(shares["threshold_valid"]) >= 0.65


def test_uploads_that_there_is_no_room_for_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    pool = CanaryPool(seed=3, count=4, dim=50)
    scorer = RoundScorer.create(tmp_path / "log", pool, 2, [[1], [1, 2], [2], []])
    update = np.ones(50)
    for number, canary, message in (
        (3, 0, "round_number"),
        (1, 4, "canaries 0 to 3"),
        (2, 0, "does not participate in that round"),
        (1, 0, "must have 50 numbers"),
    ):
        wrong = update[:-1] if message.startswith("must have") else update
        with pytest.raises(InputError, match=message):
            scorer.score_uploads(number, {canary: wrong})
    assert not list((tmp_path / "log").glob("upload_*"))
    single = RoundScorer.create(tmp_path / "single", pool, 2)
    single.score_uploads(1, {0: update})
    with pytest.raises(InputError, match="need canary_rounds"):
        single.score_uploads(2, {0: update})


def test_an_upload_after_finish_makes_scores_anew(tmp_path: Path) -> None:
    pool = CanaryPool(seed=3, count=4, dim=50)
    folder = tmp_path / "log"
    scorer = RoundScorer.create(folder, pool, 2)
    scorer.score_uploads(1, {0: np.ones(50)})
    scorer.finish()
    RoundScorer.open(folder).score_uploads(1, {1: pool.vector(1)})
    (scored,) = folder_statistics(AuditedFolder(folder))
    included = scored.scores.included if pool.included[1] else scored.scores.excluded
    assert np.isclose(included.max(), 1.0, atol=1e-6)


@pytest.mark.parametrize("rounds", [[1], [1, 2]])
@pytest.mark.parametrize("size", [1, 0])
def test_an_upload_that_is_passed_again_is_replaced(
    tmp_path: Path, rounds: list[int], size: float
) -> None:
    """By another one, or by zeros, which count as no upload."""
    pool = CanaryPool(seed=3, count=2, dim=50, family="gaussian")
    random = np.random.default_rng(0)
    wrong, right = random.standard_normal(50), size * random.standard_normal(50)
    others = {number: random.standard_normal((2, 50)) for number in rounds}
    found = []
    for name, first in (("once", right), ("twice", wrong)):
        scorer = RoundScorer.create(tmp_path / name, pool, 2, [rounds] * 2)
        for number in rounds[1:]:
            scorer.score_uploads(number, dict(enumerate(others[number])))
        scorer.score_uploads(1, {1: others[1][1], 0: first})
        scorer.score_uploads(1, {0: right})
        scored = _scored(tmp_path / name)
        found.append((scored.scores["one_upload"].score.tolist(), scored.compared["one_upload"]))
    assert found[0] == found[1]
