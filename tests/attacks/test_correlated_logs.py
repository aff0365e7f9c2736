"""Own rounds of logs and loops that say what correlates their noise: as runs weigh them."""

import shutil

import numpy as np
import pytest

from fl_audit.accounting.toeplitz import Toeplitz, sqrt_column
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.attacks.log_release import stated_rounds
from fl_audit.attacks.log_scores import score_log
from fl_audit.attacks.logs import read_log, write_listed
from fl_audit.canaries.pool import write_pool
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.metrics_file import read_metrics
from fl_audit.formats.noise_correlation import write_correlation
from tests.attacks.test_correlated_noise import SimulatedRun, noise_matrix

ROUNDS, DIM, COUNT = 16, 4000, 200

CORRELATIONS = {
    "sqrt": Toeplitz.from_column(sqrt_column(ROUNDS), ROUNDS),
    "banded": Toeplitz.from_column(sqrt_column(4), ROUNDS),
    "trees": Trees(ROUNDS, 6),
}


class Rounds:
    """What a run released, and the rounds of its canaries."""

    def __init__(self, correlation, *, times=1, seed=3):
        random = np.random.default_rng(seed)
        self.correlation = correlation
        self.pool = CanaryPool(seed=seed, count=COUNT, dim=DIM)
        self.own = [np.sort(random.choice(ROUNDS, times, replace=False)) for _ in range(COUNT)]
        noise = noise_matrix(correlation) @ random.standard_normal((ROUNDS, DIM))
        for canary in np.flatnonzero(self.pool.included):
            noise[self.own[canary]] += self.pool.vector(int(canary))
        self.released = noise.astype(np.float32)
        presences = np.zeros((COUNT, ROUNDS))
        for row, rounds in zip(presences, self.own, strict=True):
            row[rounds] = 1.0
        self.shifts = np.sqrt((presences * correlation.weights(presences)).sum(axis=1))

    @property
    def listed(self):
        return [(rounds + 1).tolist() for rounds in self.own]

    def files(self, path, correlation):
        folder = LogFolder(path)
        folder.aggregates.mkdir(parents=True)
        write_pool(folder.pool, self.pool)
        write_listed(folder, self.pool, self.listed, ROUNDS)
        for index, released in enumerate(self.released):
            np.save(folder.aggregates / f"round_{index + 1:06}.npy", released)
        if correlation is not None:
            write_correlation(folder, correlation)
        return path

    def loop(self, path, correlation, *, restarts=False):
        scorer = RoundScorer.create(
            path, self.pool, ROUNDS, self.listed, noise_correlation=correlation
        )
        for index, released in enumerate(self.released):
            if restarts and index == 7:
                scorer = RoundScorer.open(path)
            scorer.score_round(index + 1, released)
        scorer.finish()
        return path


def own_rounds(path):
    """The scores of own rounds, and what is known of the vectors of them."""
    found = score_log(read_log(LogFolder(path), list))
    return found.scores["own_rounds"].score, found.compared["own_rounds"]


@pytest.mark.parametrize(("name", "times"), [("sqrt", 1), ("banded", 3), ("trees", 3)])
def test_a_log_has_the_signal_of_the_canarys_columns_and_the_null_of_one_vector(
    tmp_path, name, times
):
    """Means of some 100 included and 100 excluded scores of deviation 1: 5 deviations, 1e-6."""
    rounds = Rounds(CORRELATIONS[name], times=times)
    scores, compared = own_rounds(rounds.files(tmp_path / "log", rounds.correlation))
    standard, included = scores * DIM**0.5, rounds.pool.included
    above = standard[included] - rounds.shifts[included]
    assert abs(above.mean()) < 5 / np.sqrt(included.sum())
    assert abs(standard[~included].mean()) < 5 / np.sqrt((~included).sum())
    assert abs(standard[~included].std() - 1) < 0.36
    assert not compared.is_limit


@pytest.mark.parametrize("name", ["sqrt", "trees"])
def test_files_and_a_loop_that_restarts_give_the_same(tmp_path, name):
    rounds = Rounds(CORRELATIONS[name], times=2)
    of_files, _ = own_rounds(rounds.files(tmp_path / "files", rounds.correlation))
    of_loop, _ = own_rounds(rounds.loop(tmp_path / "loop", rounds.correlation, restarts=True))
    np.testing.assert_allclose(of_loop, of_files, atol=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["trees", "banded"])
def test_the_stated_noise_is_that_before_correlation(tmp_path, name):
    """Whitened aggregates of trees have less noise than a node: 0.65 of it in round 16."""
    rounds = Rounds(CORRELATIONS[name], times=2)
    scorer = RoundScorer.create(
        tmp_path, rounds.pool, ROUNDS, rounds.listed, noise_correlation=rounds.correlation
    )
    for index, released in enumerate(rounds.released):
        scorer.score_round(index + 1, released, noise_stddev=0.5, canary_length=1.0, norm_bound=9.0)
    stated = stated_rounds(read_log(LogFolder(tmp_path), list))
    assert stated is not None
    assert stated.release.noise.noise_multiplier == stated.most_noise == 0.5


def test_a_log_gives_what_a_run_gives(tmp_path):
    """The same releases, shown to the attacker of a run."""
    correlation = CORRELATIONS["banded"]
    run = SimulatedRun(tmp_path / "run", correlation, canaries=COUNT, dim=DIM, times=2, seed=8)
    pool = CanaryPool(seed=8, count=COUNT, dim=DIM)
    folder = LogFolder(tmp_path / "log")
    folder.path.mkdir()
    write_pool(folder.pool, pool)
    write_listed(folder, pool, [(rounds + 1).tolist() for rounds in run.own.of_canary], ROUNDS)
    write_correlation(folder, correlation)
    shutil.copy(run.context.run_folder.round_cosines, folder.round_cosines)
    shutil.copy(run.context.run_folder.round_directions, folder.round_directions)
    shutil.copy(run.context.run_folder.round_concentrations, folder.round_concentrations)
    norms = [row.aggregate_norm for row in read_metrics(run.context.run_folder.metrics)]
    np.save(folder.round_lengths, np.stack([norms, np.full(ROUNDS, np.nan)], axis=1))
    scores, _ = own_rounds(folder.path)
    np.testing.assert_array_equal(scores, run.scores)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("same", [Toeplitz.from_column(np.array([1.0]), ROUNDS), Trees(ROUNDS, 1)])
def test_on_independent_noise_it_is_own_rounds_bit_for_bit(tmp_path, same, times):
    rounds = Rounds(same, times=times)
    plain, _ = own_rounds(rounds.files(tmp_path / "plain", None))
    said, _ = own_rounds(rounds.files(tmp_path / "said", same))
    np.testing.assert_array_equal(said, plain)
    looped, _ = own_rounds(rounds.loop(tmp_path / "loop", same))
    np.testing.assert_array_equal(looped, own_rounds(rounds.loop(tmp_path / "bare", None))[0])


def test_cosines_without_lengths_are_those_of_own_rounds_alone(tmp_path):
    """Nothing is known of the aggregates then, and the null of one cosine still holds."""
    rounds = Rounds(CORRELATIONS["sqrt"])
    folder = LogFolder(rounds.loop(tmp_path / "loop", rounds.correlation))
    bare = LogFolder(tmp_path / "bare")
    bare.path.mkdir()
    for name in ("pool", "canaries", "round_cosines", "noise_correlation"):
        shutil.copy(getattr(folder, name), getattr(bare, name))
    scores, _ = own_rounds(bare.path)
    cosines = np.load(folder.round_cosines)
    expected = [cosines[own[0], canary] for canary, own in enumerate(rounds.own)]
    np.testing.assert_allclose(scores, expected, atol=1e-7)
