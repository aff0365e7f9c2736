"""The attacker who knows how rounds are drawn, and not which, and the null of its scores."""

import itertools
import json
import math

import numpy as np
import pytest

from benchmarks.secret_rounds import (
    LEVEL_CELLS,
    SETTINGS,
    bounds,
    directions,
    level,
    upper_bound,
)
from fl_audit.accounting.attacker_bounds import attacker_bounds
from fl_audit.accounting.release import Denominator, Noise, Party, Release
from fl_audit.accounting.sampling import FixedRounds, OneRoundPerBlock
from fl_audit.accounting.samplings.balls_in_bins import BallsInBinsSampling
from fl_audit.accounting.samplings.cyclic_poisson import CyclicPoissonSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.accounting.samplings.random_allocation import AllocatedRounds
from fl_audit.attacks import Participation, RoundScorer
from fl_audit.attacks.attacker import AttackContext
from fl_audit.attacks.compared_vectors import read_compared_vectors, write_compared_vectors
from fl_audit.attacks.directions import RoundDirections
from fl_audit.attacks.likelihood_null import KnownPattern, likelihood_null, sphere_factor
from fl_audit.attacks.log_release import stated_rounds
from fl_audit.attacks.log_scores import score_log
from fl_audit.attacks.logs import read_log
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import LoggedRounds
from fl_audit.attacks.secret_rounds import LIKELIHOOD_RATIO, SecretRoundsAttacker
from fl_audit.canaries.pool import CanaryPool
from fl_audit.cli import main
from fl_audit.config import (
    Audit,
    BallsInBins,
    Bernoulli,
    BMinSep,
    CyclicPoisson,
    RandomAllocation,
    Shuffle,
    Uniform,
)
from fl_audit.errors import InputError
from fl_audit.estimators.null import Null
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.valid_threshold import threshold_valid
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.round_logs import CosineLog
from fl_audit.formats.score_file import read_score_file
from fl_audit.participation.arms import read_arm
from tests.participation.attendance import schedule_of

FEWER = ("fl_audit.attacks.likelihood_null._SAMPLES", 200_000)


@pytest.fixture
def fewer_samples(monkeypatch):
    monkeypatch.setattr(*FEWER)


SIZES = {"rounds": 6, "clients_per_round": 2, "canary_mean_repeats": 2}
DRAWN = [
    Shuffle(**SIZES, canaries="like_clients"),
    Shuffle(rounds=6, clients_per_round=2, canary_repeats=2, canary_last_rounds=4),
    Bernoulli(**SIZES),
    Uniform(**SIZES),
    BallsInBins(**SIZES),
    RandomAllocation(**SIZES),
    CyclicPoisson(**SIZES, separation=2),
    BMinSep(**SIZES, separation=3),
]
POOL = 20_000


def chance_within(present: np.ndarray, allowed: tuple[int, ...]) -> float:
    """The share of canaries all of whose rounds are allowed."""
    others = [index for index in range(len(present)) if index not in allowed]
    return float((~present[others].any(axis=0)).mean())


@pytest.mark.parametrize("pattern", DRAWN, ids=lambda p: type(p).__name__)
def test_the_likelihood_is_that_of_the_pattern_s_own_draws(pattern):
    """With ratio 1 in the rounds of a set and 0 elsewhere it is P(all rounds are in the set)."""
    schedule = schedule_of(pattern, 10, np.ones(POOL, bool))
    sampling = schedule.canary_attendance.sampling
    drawn = np.zeros((6, POOL), bool)
    for index in range(6):
        drawn[index, schedule.sampled_canaries(index)] = True
    simulated = sampling.draw(6, POOL, np.random.default_rng(3))
    sets = [s for n in range(7) for s in itertools.combinations(range(6), n)]
    logs = np.full((6, len(sets)), -np.inf)
    for column, allowed in enumerate(sets):
        logs[list(allowed), column] = 0.0
    chances = np.exp(sampling.log_ratio(logs))
    assert chances[-1] == pytest.approx(1, rel=1e-12)
    for allowed, chance in zip(sets, chances, strict=True):
        # Six deviations in 7 x 64 x 2 comparisons: below 2e-6 of the run's tests together.
        spread = 6 * math.sqrt(max(chance * (1 - chance), 0) / POOL) + 1e-9
        assert chance_within(drawn, allowed) == pytest.approx(chance, abs=spread)
        assert chance_within(simulated, allowed) == pytest.approx(chance, abs=spread)


def test_the_ratio_is_the_mean_over_all_sets_of_rounds():
    logs = np.random.default_rng(5).normal(size=(7, 4))
    sets = list(itertools.combinations(range(7), 3))
    means = np.mean([np.exp(logs[list(s)].sum(axis=0)) for s in sets], axis=0)
    np.testing.assert_allclose(AllocatedRounds(3, 7).log_ratio(logs), np.log(means), rtol=1e-12)


PATTERNS = [
    KnownPattern(PoissonSampling(0.1), 1.5, 20),
    KnownPattern(OneRoundPerBlock(2, ((10, 2),)), 3.0, 20),
    KnownPattern(BallsInBinsSampling(5, 20), 1.0, 20),
    KnownPattern(CyclicPoissonSampling(0.5, 4, 5), 2.0, 20),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: type(p.sampling).__name__)
@pytest.mark.parametrize("dim", [24, 2_000])
def test_the_tail_is_an_upper_bound_and_is_close(fewer_samples, pattern, dim):
    seen = np.arange(20)
    null = likelihood_null(pattern, seen, dim)
    z = directions(20, dim, 20_000, np.random.default_rng(1))
    ratios = pattern.log_ratios(z, seen)
    for share in (0.3, 0.1, 0.01, 0.002):
        at = float(np.quantile(ratios, 1 - share))
        bound = math.exp(null.log_tail_upper(at))
        # The share above is binomial; six deviations.
        assert bound >= share - 6 * math.sqrt(share / len(ratios))
        assert at < 0 or dim < 2_000 or bound <= 1.5 * share + 6 * math.sqrt(share / len(ratios))
    assert null.p_value(ratios[:400]) > 1e-6
    tails = null.log_tail_upper(np.linspace(-50, 200, 999))
    assert (np.diff(tails) <= 0).all()
    assert null.log_tail_upper(150.0) <= -150 + sphere_factor(1, 24) + math.log(3.178)


@pytest.mark.parametrize(
    ("rounds", "dim", "expected"),
    # by log Gamma functions with 60 digits
    [(1, 10**9, 1.50000000175e-9), (1, 40_000_000, 3.7500001093750045e-8), (5, 9, 0.68946568212)],
)
def test_the_factor_of_the_sphere_does_not_cancel(rounds, dim, expected):
    assert sphere_factor(rounds, dim) == pytest.approx(expected, rel=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("sampling", "noise"),
    [
        (PoissonSampling(0.05), 0.6),
        (OneRoundPerBlock(5, ((12, 5),)), 0.6),
        (BallsInBinsSampling(20, 60), 0.6),
        (CyclicPoissonSampling(0.5, 10, 6), 0.8),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_proves_more_than_max_and_sum_and_less_than_accounting_allows(
    fewer_samples, sampling, noise
):
    pattern = KnownPattern(sampling, 1 / noise, 60)
    found = bounds(pattern, 6)
    means = {name: values.mean() for name, values in found.items()}
    assert means["likelihood_ratio"] > max(means["max"], means["sum"])
    assert found["likelihood_ratio"].max() <= upper_bound(pattern)


@pytest.mark.slow
def test_the_largest_bound_is_that_of_the_likelihood_ratio_in_nine_of_ten_settings():
    is_best = []
    for pattern in SETTINGS:
        found = bounds(pattern, 40)
        ratio = found.pop("likelihood_ratio")
        assert ratio.max() <= upper_bound(pattern)
        is_best.append(ratio.mean() >= max(values.mean() for values in found.values()))
    assert np.mean(is_best) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("family", "dim", "which"), LEVEL_CELLS)
def test_bounds_without_leak_have_their_level(family, dim, which):
    # Five deviations above 5 %: 3e-7 each.
    assert max(level(family, dim, which, 2_000)) <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / 2_000)


ROUNDS, DIM, COUNT = 12, 3_000, 200
SAID = Participation("poisson", 0.25)


def attacker(tmp_path, family="gaussian", sampling=None, leak=0.0):
    """An attacker of finished rounds whose aggregates have a common part of their own size."""
    sampling = sampling or PoissonSampling(0.25)
    pool = CanaryPool(seed=4, count=COUNT, dim=DIM, family=family)
    random = np.random.default_rng(8)
    present = PoissonSampling(0.25).draw(ROUNDS, COUNT, random) & pool.included
    common = random.standard_normal(DIM)
    log = CosineLog.opened("w+", tmp_path / "cosines.npy", ROUNDS, COUNT)
    directions = RoundDirections.unnamed(ROUNDS, pool.seed, DIM)
    for index in range(ROUNDS):
        aggregate = (random.standard_normal(DIM) + common).astype(np.float32)
        for canary in np.flatnonzero(present[index]):
            aggregate += np.float32(leak * math.sqrt(DIM / 200)) * pool.vector(canary)
        log.write_round(index, pool.cosines(aggregate))
        directions.add(index, aggregate)
    party = Party(sampling)
    release = Release(
        rounds=ROUNDS,
        noise=Noise("gaussian", 0.5, 0.5),
        denominator=Denominator("expected_cohort", 50.0),
        client=party,
        canary=party,
    )
    context = AttackContext(
        canaries=pool,
        num_canaries=COUNT,
        num_rounds=ROUNDS,
        audit=Audit(),
        initial=None,
        given_cosines=LoggedRounds(log, None, None, directions),
        family=family,
        canary_rounds=OwnRounds(tuple(np.flatnonzero(column) for column in present.T)),
        release=release,
    )
    return pool, SecretRoundsAttacker.from_context(context)


def test_scores_with_a_common_part_have_the_null(tmp_path, fewer_samples):
    pool, made = attacker(tmp_path, leak=2.0)
    scores = made.scores(None)[LIKELIHOOD_RATIO.name]
    compared = made.compared_vectors(None)
    path = tmp_path / "compared.json"
    write_compared_vectors(path, compared)
    assert read_compared_vectors(path) == compared
    null = compared[LIKELIHOOD_RATIO.name].null_tail("gaussian", DIM)
    assert null.p_value(scores[~pool.included]) > 1e-6
    assert scores[pool.included].mean() > scores[~pool.included].mean() + 0.5
    # Without the inner products of the directions the common part would count as evidence.
    plain = KnownPattern(PoissonSampling(0.25), 2.0, ROUNDS)
    rows = np.stack(list(made._cosines.rows())) * math.sqrt(DIM)
    assert null.p_value(plain.log_ratios(rows, np.arange(ROUNDS))[~pool.included]) < 1e-6


def test_signs_have_an_empirical_null(tmp_path):
    _, made = attacker(tmp_path, family="rademacher")
    assert np.isfinite(made.scores(None)[LIKELIHOOD_RATIO.name]).all()
    assert made.compared_vectors(None) == {}


def test_rounds_without_a_distribution_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"'secret_rounds' needs canaries whose rounds have"):
        attacker(tmp_path, sampling=FixedRounds(3))


def scored(path, pool, present, random, *, keeps_aggregates=False, **options):
    """A log whose aggregates are noise and the canaries that are present, of shape (rounds, n)."""
    listed = [(np.flatnonzero(mine) + 1).tolist() for mine in present.T]
    scorer = RoundScorer.create(path, pool, ROUNDS, listed, **options)
    for index in range(ROUNDS):
        total = random.normal(0, 0.6, DIM)
        for canary in np.flatnonzero(present[index] & pool.included):
            total += pool.vector(int(canary))
        scorer.score_round(
            index + 1, total, canary_length=1.0, noise_stddev=0.6, norm_bound=float(pool.count)
        )
        if keeps_aggregates:
            LogFolder(path).aggregates.mkdir(exist_ok=True)
            np.save(LogFolder(path).aggregates / f"round_{index + 1}.npy", total)
    scorer.finish()
    return path


def log_of(path, family="gaussian", said=SAID):
    """A log of Poisson-sampled canaries."""
    random, pool = np.random.default_rng(5), CanaryPool(seed=5, count=COUNT, dim=DIM, family=family)
    present = random.random((ROUNDS, COUNT)) < 0.25
    return scored(path, pool, present, random, participation=said)


def test_a_log_that_states_the_pattern_is_attacked_by_it(tmp_path, fewer_samples):
    log = read_log(LogFolder(log_of(tmp_path / "log")), list)
    found_in = score_log(log)
    null = found_in.compared["likelihood_ratio"].null_tail("gaussian", DIM)
    found = {
        name: threshold_valid(
            AuditSetting(found_in.scores[name].canary_scores(), 1e-5, 0.95, Null(tail=tail))
        ).epsilon
        for name, tail in (
            ("likelihood_ratio", null),
            ("max", found_in.compared["max"].null_tail("gaussian", DIM)),
        )
    }
    release = stated_rounds(log).release
    limit = attacker_bounds(release, release.canary, 1e-5).not_knowing_rounds.guarantee.epsilon
    assert 0 < found["max"] < found["likelihood_ratio"] <= limit


@pytest.mark.parametrize(
    ("family", "said"),
    [("rademacher", SAID), ("gaussian", None), ("gaussian", Participation("none"))],
)
def test_a_log_without_a_null_or_a_pattern_is_not(tmp_path, family, said):
    log = read_log(LogFolder(log_of(tmp_path / "log", family, said)), list)
    assert "likelihood_ratio" not in score_log(log).scores


def test_no_directions_are_kept_where_no_pattern_is_stated(tmp_path):
    pool = CanaryPool(seed=5, count=COUNT, dim=DIM, family="gaussian")
    for said in (None, Participation("none", client_rounds=1)):
        scorer = RoundScorer.create(
            tmp_path / str(said is None), pool, 2, [[1]] * COUNT, participation=said
        )
        assert not scorer.folder.round_directions.exists()


@pytest.mark.parametrize("from_files", [False, True])
def test_canaries_in_one_secret_round_each_have_a_known_null(tmp_path, fewer_samples, from_files):
    random = np.random.default_rng(7)
    pool = CanaryPool(seed=5, count=COUNT, dim=DIM, family="gaussian")
    present = random.integers(ROUNDS, size=COUNT) == np.arange(ROUNDS)[:, None]
    said = Participation("random_allocation", client_rounds=1)
    path = scored(
        tmp_path / "log", pool, present, random, keeps_aggregates=from_files, participation=said
    )
    if from_files:
        LogFolder(path).round_directions.unlink(missing_ok=True)
    assert "likelihood_ratio" in score_log(read_log(LogFolder(path), list)).compared


ARMS = ("repeats:3", "poisson:0.25", "random_allocation:3")


@pytest.fixture(scope="module")
def arms_log(tmp_path_factory):
    """A log whose canaries are in arms of three rounds on average, and leak."""
    path = tmp_path_factory.mktemp("arms") / "log"
    random = np.random.default_rng(6)
    pool = CanaryPool(seed=5, count=3 * COUNT, dim=DIM, family="gaussian")
    arms = [ARMS[number % 3] for number in range(pool.count)]
    present = np.zeros((ROUNDS, pool.count), bool)
    for index, arm in enumerate(ARMS):
        present[:, index::3] = read_arm(arm).sampling(ROUNDS).draw(ROUNDS, COUNT, random)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*FEWER)
        return scored(path, pool, present, random, canary_arms=arms)


def test_each_arm_is_attacked_by_its_own_pattern(arms_log, fewer_samples):
    compared = read_compared_vectors(LogFolder(arms_log).compared_vectors)["likelihood_ratio"]
    assert tuple(sorted(compared.likelihood)) == tuple(sorted(ARMS))
    scores = read_score_file(LogFolder(arms_log).scores("likelihood_ratio"))
    of_pool = compared.null_tail("gaussian", DIM)
    at = np.linspace(-3, 20, 50)
    for index, arm in enumerate(ARMS):
        tail = compared.of_arm(arm).null_tail("gaussian", DIM)
        mine = scores.only(np.arange(len(scores.score)) % 3 == index).canary_scores()
        assert tail.p_value(mine.excluded) > 1e-6
        assert (of_pool.log_tail_upper(at) >= tail.log_tail_upper(at) - 1e-9).all()
        bound = threshold_valid(AuditSetting(mine, 1e-5, 0.95, Null(tail=tail))).epsilon
        assert bound > 0.5


def test_the_report_of_equal_arms_leads_with_the_table(arms_log, fewer_samples, capsys):
    asked = ["estimate", str(arms_log), "--delta=1e-5", "--methods=threshold_valid"]
    assert main([*asked, "--json"]) == 0
    arms = json.loads(capsys.readouterr().out)["arms"]
    secret, known = arms["attackers"]
    assert [secret["statistic"], known["statistic"]] == ["likelihood_ratio", "own_rounds"]
    assert [d["label"] for d in secret["detections"]] == sorted(ARMS)
    for hidden, open_ in zip(secret["detections"], known["detections"], strict=True):
        assert hidden["auc"] < open_["auc"]
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Which pattern leaks least (3 rounds per canary)?"
    assert max(map(len, lines)) <= 100
