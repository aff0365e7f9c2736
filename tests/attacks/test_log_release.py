"""What a log says was released: its sampling, and canaries that were not sampled by it."""

import dataclasses
import itertools
import sys

import msgspec
import numpy as np
import pytest

from fl_audit.accounting.attacker_bounds import GaussianPair, attacker_bounds
from fl_audit.accounting.sampling import FixedRounds, UnknownRounds
from fl_audit.accounting.samplings.balls_in_bins import BallsInBinsSampling
from fl_audit.accounting.samplings.cyclic_poisson import CyclicPoissonSampling
from fl_audit.accounting.samplings.fixed_size import FixedSizeSampling
from fl_audit.accounting.samplings.min_separation import MinSeparationSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.accounting.samplings.random_allocation import AllocatedRounds
from fl_audit.accounting.samplings.truncated_poisson import TruncatedPoissonSampling
from fl_audit.accounting.toeplitz import Toeplitz, sqrt_column
from fl_audit.attacks import CanaryPool, Participation, RoundScorer
from fl_audit.attacks.log_release import (
    are_sampled_alike,
    release_of,
    sampling_of,
    stated_rounds,
    stated_uploads,
)
from fl_audit.attacks.logs import read_log
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.cli import main
from fl_audit.formats.folders import LogFolder
from tests.seeds_tried import some
from tests.verdict.test_sampled_logs import COUNT, PATTERNS, ROUNDS, own_rounds_of

LAWS = {
    "poisson": PoissonSampling(0.1),
    "fixed_size": FixedSizeSampling(10, 100),
    "truncated_poisson": TruncatedPoissonSampling(0.1, 100, 25),
    "cyclic_poisson": CyclicPoissonSampling(0.4, 4, 10),
    "balls_in_bins": BallsInBinsSampling(10, 40),
    "random_allocation": AllocatedRounds(4, 40),
    "b_min_sep": MinSeparationSampling(1 / 7, 4, 40),
}


@pytest.mark.parametrize("name", list(PATTERNS))
def test_a_statement_is_the_law_of_the_pattern(name):
    assert sampling_of(PATTERNS[name][0], ROUNDS) == LAWS[name]


@pytest.mark.parametrize(
    ("probability", "members", "size"),
    [(0.0149, 100, None), (0.001, 100, None), (0.0333, 300, 10), (0.00049, 341_000, 167)],
)
def test_a_sample_of_fixed_size_has_a_whole_number_of_members(probability, members, size):
    """The owner of a log may round to three digits, and state no smaller sample."""
    stated = Participation("fixed_size", probability, members=members)
    expected = None if size is None else FixedSizeSampling(size, members)
    assert sampling_of(stated, ROUNDS) == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(PATTERNS))
def test_canaries_that_were_sampled_by_the_law_are_told_so(name):
    """Each of 7 patterns is denied with a chance of 1e-6 in each of 50 logs: 4e-4 in all."""
    said, draw = PATTERNS[name]
    for seed in some(range(50), 15):
        own = own_rounds_of(draw(np.random.default_rng(seed))).of_canary
        assert are_sampled_alike(said, own, range(ROUNDS))


def _placed(name):
    """Four rounds of each canary, placed by hand so that the law is denied."""
    if name in ("fixed_size", "poisson", "truncated_poisson"):
        return [np.arange(4) for _ in range(COUNT)]
    return [np.array([canary % 7, 8, 9, 10]) for canary in range(COUNT)]


@pytest.mark.parametrize("name", list(PATTERNS))
def test_canaries_that_were_placed_are_not_hidden_by_the_clients_draw(name):
    said, own = PATTERNS[name][0], _placed(name)
    assert not are_sampled_alike(said, own, range(ROUNDS))
    release = release_of(said, OwnRounds(tuple(own)), range(ROUNDS), 2.0)
    assert release.client.sampling == LAWS[name]
    assert release.canary.sampling == FixedRounds(4)
    known, unknown = (
        attacker_bounds(release, release.canary, 1e-3).against(knows) for knows in (True, False)
    )
    assert known.pair == unknown.pair == GaussianPair(1.0)  # the root of 4 rounds, over 2


def test_what_the_log_says_of_canaries_is_believed():
    said, draw = PATTERNS["poisson"]
    own = own_rounds_of(draw(np.random.default_rng(1))).of_canary
    placed = msgspec.structs.replace(said, canaries="placed")
    assert not are_sampled_alike(placed, own, range(ROUNDS))
    alike = msgspec.structs.replace(said, canaries="like_clients")
    assert are_sampled_alike(alike, _placed("poisson"), range(ROUNDS))


SAID, ROUNDS_OF_LOG, DIM, NOISE = Participation("poisson", 0.2), 20, 1000, 2.0


def _written(path, share, *, turns=None):
    """A loop that tells its noise, and adds a share of it."""
    random = np.random.default_rng(5)
    pool = CanaryPool(seed=5, count=100, dim=DIM)
    if turns is None:
        turns = random.random((ROUNDS_OF_LOG, 100)) < 0.2
    listed = [(np.flatnonzero(mine) + 1).tolist() for mine in turns.T]
    scorer = RoundScorer.create(path, pool, ROUNDS_OF_LOG, listed, participation=SAID)
    for t in range(ROUNDS_OF_LOG):
        total = random.normal(0, share * NOISE, DIM)
        for canary in np.flatnonzero(turns[t] & pool.included):
            total += pool.vector(int(canary))
        scorer.score_round(t + 1, total, canary_length=1.0, noise_stddev=NOISE, norm_bound=60.0)
    scorer.finish()
    return path


@pytest.mark.slow
def test_estimate_tests_the_noise_that_a_sampled_log_tells(tmp_path, capsys):
    stated = stated_rounds(read_log(LogFolder(_written(tmp_path / "right", 1.0)), list))
    assert stated.says_all_rounds
    release = stated.release
    assert release.canary.sampling == release.client.sampling == PoissonSampling(0.2)
    assert release.noise.noise_multiplier == pytest.approx(NOISE)
    outcomes = []
    for path in (tmp_path / "right", _written(tmp_path / "half", 0.5)):
        assert main(["estimate", str(path), "--delta", "1e-3"]) == 0
        outcomes.append("CONTRADICTED" in capsys.readouterr().out)
    assert outcomes == [False, True]


def _of_one_round(path, said):
    """A log of one round with all canaries, that tells its noise."""
    pool = CanaryPool(seed=5, count=20, dim=DIM)
    scorer = RoundScorer.create(path, pool, 1, [[1]] * 20, participation=said)
    total = sum(pool.vector(int(j)) for j in np.flatnonzero(pool.included))
    noise = np.random.default_rng(5).normal(0, NOISE, DIM)
    scorer.score_round(1, total + noise, canary_length=1.0, noise_stddev=NOISE, norm_bound=20.0)
    return read_log(LogFolder(path), list)


@pytest.mark.parametrize(
    ("said", "client"),
    [
        (None, UnknownRounds()),
        (Participation("none"), UnknownRounds()),
        (Participation("none", client_rounds=3), FixedRounds(3)),
        (Participation("none", client_rounds=3, client_weight=2.0), UnknownRounds()),
        (Participation("poisson", 0.2), PoissonSampling(0.2)),
        (Participation("poisson", 0.2, client_weight=2.0), UnknownRounds()),
    ],
)
def test_a_log_states_the_rounds_of_its_canaries_and_of_clients_as_far_as_it_says(
    tmp_path, said, client
):
    rounds = stated_rounds(_of_one_round(tmp_path / "log", said))
    assert rounds.says_all_rounds == (said is not None and said.sampling == "poisson")
    stated = rounds.release
    assert stated.noise.noise_multiplier == pytest.approx(NOISE)
    assert stated.client.sampling == client
    if isinstance(client, UnknownRounds):
        bounds = attacker_bounds(stated, stated.client, 1e-3)
        assert bounds.knowing_rounds.guarantee.epsilon is None
        assert bounds.not_knowing_rounds.guarantee.epsilon is None


def test_rounds_that_are_not_logged_count_as_training(tmp_path):
    told = Participation("poisson", client_rounds=1, rounds=5000)
    assert stated_rounds(_of_one_round(tmp_path / "log", told)).release.rounds == 5000


STRATEGY = Toeplitz.from_column(sqrt_column(3), 8)


def _of_correlated_rounds(path, said, strategy=STRATEGY):
    """A log of eight rounds under a matrix, by default of three bands, that tells its noise."""
    pool = CanaryPool(seed=5, count=4, dim=100)
    scorer = RoundScorer.create(
        path, pool, 8, [[1, 5]] * 4, participation=said, noise_correlation=strategy
    )
    random = np.random.default_rng(6)
    for number in range(1, 9):
        aggregate = random.normal(0, NOISE, 100)
        scorer.score_round(number, aggregate, canary_length=1.0, noise_stddev=NOISE, norm_bound=9.0)
    return read_log(LogFolder(path), list)


def _worst(sets):
    """The largest squared sensitivity by trying all sets of rounds."""
    rounds = [np.isin(np.arange(8), some).astype(float) for some in sets]
    return float(np.square(STRATEGY.times(np.array(rounds))).sum(axis=1).max())


PAIRS = list(itertools.combinations(range(8), 2))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("said", "client", "sets"),
    [
        (Participation("none", client_rounds=2), FixedRounds(2), PAIRS),
        (
            Participation("none", client_rounds=2, separation=4),
            FixedRounds(2),
            [pair for pair in PAIRS if pair[1] - pair[0] >= 4],
        ),
        (
            Participation("cyclic_poisson", 0.5, separation=4),
            CyclicPoissonSampling(0.5, 4, 2),
            [(r, r + 4) for r in range(4)],
        ),
        (
            Participation("b_min_sep", 0.5, separation=4),
            MinSeparationSampling(0.5, 4, 8),
            [pair for pair in PAIRS if pair[1] - pair[0] >= 4],
        ),
        (
            Participation("random_allocation", client_rounds=2),
            AllocatedRounds(2, 8),
            PAIRS,
        ),
        (Participation("poisson", 0.5), UnknownRounds(), None),
        (Participation("none", client_rounds=2, client_weight=2.0), UnknownRounds(), None),
        (None, UnknownRounds(), None),
    ],
)
def test_clients_under_a_matrix_have_the_worst_rounds_that_the_log_allows(
    tmp_path, said, client, sets
):
    stated = stated_rounds(_of_correlated_rounds(tmp_path / "log", said)).release
    assert stated.client.sampling == client
    assert stated.canary.squared_sensitivity == pytest.approx(_worst([(0, 4)]))
    if sets is None:
        assert stated.client.squared_sensitivity is None
    else:
        assert stated.client.squared_sensitivity == pytest.approx(_worst(sets))


def test_a_log_of_uploads_states_their_noise_and_how_many_a_canary_has(tmp_path):
    said = Participation("none", client_rounds=4, upload_noise_multiplier=0.5)
    pool = CanaryPool(seed=5, count=4, dim=DIM)
    scorer = RoundScorer.create(tmp_path / "log", pool, 4, [[1, 2]] * 4, participation=said)
    log = read_log(LogFolder(tmp_path / "log"), list)
    assert stated_uploads(log) is None
    for number in (1, 2):
        scorer.score_uploads(number, {j: np.ones(DIM) for j in range(4)})
    log = read_log(LogFolder(tmp_path / "log"), list)
    stated = stated_uploads(log)
    assert stated_rounds(log) is None
    for party, uploads in ((stated.canary, 2), (stated.client, 4)):
        seen = attacker_bounds(stated, party, 1e-3)
        assert seen.seeing_uploads.pair == GaussianPair(np.sqrt(uploads) / 0.5)
        assert seen.knowing_rounds.guarantee.epsilon is None
    unknown = dataclasses.replace(stated.client, sampling=UnknownRounds())
    assert attacker_bounds(stated, unknown, 1e-3).seeing_uploads.guarantee.epsilon is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Participation("none", client_rounds=1), "upper bound   ε ≤ "),
        (Participation("poisson", 0.2), "upper bound   ε ≤ 0.314 for a client"),
    ],
)
def test_logs_are_audited_without_dp_accounting(tmp_path, capsys, monkeypatch, said, words):
    """As in the environments of other frameworks (docs/logs.md)."""
    _of_one_round(tmp_path / "log", said)
    for name in [*(n for n in sys.modules if n.split(".")[0] == "dp_accounting"), "dp_accounting"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["estimate", str(tmp_path / "log"), "--delta", "1.1e-3"]) == 0
    assert words in capsys.readouterr().out


def test_the_noise_of_a_release_is_that_of_all_rounds_also_of_those_without_canaries(tmp_path):
    pool, random = CanaryPool(seed=5, count=4, dim=100), np.random.default_rng(6)
    said = Participation("none", client_rounds=1, client_weight=1)
    for folder, stddev, least, most in (
        ("more", 5 * NOISE, NOISE, 5 * NOISE),
        ("less", NOISE / 2, NOISE / 2, NOISE),
        ("unstated", None, NOISE, np.inf),
    ):
        scorer = RoundScorer.create(tmp_path / folder, pool, 2, [[1]] * 4, participation=said)
        aggregate = random.normal(0, NOISE, 100)
        scorer.score_round(1, aggregate, canary_length=1.0, noise_stddev=NOISE, norm_bound=9.0)
        scorer.score_round(2, 5 * aggregate, canary_length=1.0, noise_stddev=stddev)
        found = stated_rounds(read_log(LogFolder(tmp_path / folder), list))
        assert found.release.noise.noise_multiplier == pytest.approx(least)
        assert found.most_noise == pytest.approx(most)
        is_known = not isinstance(found.release.client.sampling, UnknownRounds)
        assert is_known == (stddev is not None)


def test_a_matrix_of_one_band_scales_the_noise(tmp_path):
    """Under C = 2 an aggregate has half of the stated noise."""
    said = Participation("none", client_rounds=2)
    stated = stated_rounds(_of_correlated_rounds(tmp_path / "log", said, Toeplitz((2.0,), 8)))
    assert stated.release.canary.squared_sensitivity == pytest.approx(2 * 2.0**2)
