"""Own rounds under correlated noise: the signal that theory says, the null, and coverage."""

import numpy as np
import pytest

from fl_audit.accounting.buffered_toeplitz import optimise
from fl_audit.accounting.toeplitz import Toeplitz, sqrt_column
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.attacks import directions
from fl_audit.attacks.attacker import AttackContext, SeenRound
from fl_audit.attacks.known_rounds import KnownRoundsAttacker
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.statistics import RunFacts
from fl_audit.canaries.families import FAMILIES
from fl_audit.config import Audit
from fl_audit.estimators import AuditSetting
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.threshold.valid_threshold import threshold_gdp, threshold_valid
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.metrics_file import RoundMetrics, metrics_text


def noise_matrix(correlation):
    """The matrix from independent noise to the aggregates' noise."""
    if isinstance(correlation, Toeplitz):
        return np.linalg.inv(correlation.times(np.eye(correlation.num_rounds)).T)
    return np.linalg.cholesky(np.linalg.inv(correlation.weights(np.eye(correlation.num_rounds))))


def metrics_of(lengths):
    """The text of metrics.csv for aggregates of these lengths."""
    rounds = enumerate(lengths, start=1)
    return metrics_text(RoundMetrics(n, 9, 1, 1.0, 1.0, x, 0.0, None, 0.0, 0.0) for n, x in rounds)


class SimulatedRun:
    """Sums of unit canaries and clients with correlated noise, shown to the attacker."""

    def __init__(
        self, folder, correlation, *, z=1.0, seed=1, canaries=200, dim=4000, times=1,
        family="rademacher", clients=0.0, known=True,
    ):  # fmt: skip
        num_rounds = correlation.num_rounds
        random = np.random.default_rng(seed)
        family_of = FAMILIES[family](seed=seed, num_canaries=canaries, dim=dim)
        self.included = random.random(canaries) < 0.5
        self.own = OwnRounds(
            tuple(np.sort(random.choice(num_rounds, times, replace=False)) for _ in range(canaries))
        )
        noise = z * noise_matrix(correlation) @ random.standard_normal((num_rounds, dim))
        direction = random.standard_normal(dim) / dim**0.5
        sums = noise + clients * direction
        for canary in np.flatnonzero(self.included):
            sums[self.own.of_canary[canary]] += family_of.vector(int(canary))
        folder.mkdir()
        run = RunFolder(folder)
        lengths = np.linalg.norm(sums.astype(np.float32).astype(np.float64), axis=1)
        run.metrics.write_text(metrics_of(lengths))
        self.context = AttackContext(
            canaries=family_of,
            num_canaries=canaries,
            num_rounds=num_rounds,
            audit=Audit(),
            initial=np.zeros(dim, np.float32),
            folder=run,
            family=family,
            canary_rounds=self.own,
            seed=seed,
            correlation=correlation if known else None,
        )
        self.attacker = KnownRoundsAttacker.from_context(self.context)
        model = np.zeros(dim, np.float32)
        for index, total in enumerate(sums):
            self.attacker.see_round(SeenRound(index, model, total.astype(np.float32), model, 1.0))
        self.attacker.flush()
        self.scores = self.attacker.scores(None)["own_rounds"]
        self.compared = self.attacker.compared_vectors(None)
        self.standard = self.scores * dim**0.5
        presences = np.zeros((canaries, num_rounds))
        for row, rounds in zip(presences, self.own.of_canary, strict=True):
            row[rounds] = 1.0
        self.shifts = np.sqrt((presences * correlation.weights(presences)).sum(axis=1)) / z
        self.dim, self.family = dim, family

    def setting(self, delta=1e-3):
        statistic = self.attacker.statistics[0]
        facts = RunFacts(Audit(), self.dim, self.family, self.compared)
        scores = CanaryScores(self.scores[self.included], self.scores[~self.included])
        null = statistic.null(facts)
        return AuditSetting(scores=scores, delta=delta, confidence=0.95, null=null)


ROUNDS = 24

CORRELATIONS = {
    "sqrt": Toeplitz.from_column(sqrt_column(ROUNDS), ROUNDS),
    "banded": Toeplitz.from_column(sqrt_column(5), ROUNDS),
    "blt": Toeplitz.from_column(optimise(2, ROUNDS).column(ROUNDS), ROUNDS),
    "one tree": Trees(ROUNDS),
    "trees": Trees(ROUNDS, 7),
}


@pytest.mark.parametrize(
    ("name", "times"), [("sqrt", 1), ("banded", 3), ("blt", 1), ("one tree", 2), ("trees", 1)]
)
def test_the_signal_is_the_length_of_the_canarys_columns(tmp_path, name, times):
    run = SimulatedRun(tmp_path / "run", CORRELATIONS[name], canaries=300, dim=8_000, times=times)
    shifted = run.standard[run.included] - run.shifts[run.included]
    # Other canaries' shares in the length of the sum move the mean by a few percent of the shift;
    # the rest is the mean of some 150 normals. 15 comparisons at 5.5 standard errors fail by chance
    # once in 1.7e6.
    assert abs(shifted.mean()) < 0.06 * run.shifts.max() + 5.5 / np.sqrt(run.included.sum())
    excluded = run.standard[~run.included]
    assert abs(excluded.mean()) < 5.5 / np.sqrt(len(excluded))
    assert abs(excluded.std() - 1) < 5.5 / np.sqrt(2 * len(excluded))
    assert run.shifts.min() >= 0.99 * np.sqrt(times)


def test_on_independent_noise_it_is_the_own_round(tmp_path):
    identity = Toeplitz((1.0,), ROUNDS)
    known, unknown = (
        SimulatedRun(tmp_path / str(known), identity, known=known) for known in (True, False)
    )
    np.testing.assert_allclose(known.scores, unknown.scores, atol=1e-6)
    assert known.setting().null.kind == unknown.setting().null.kind == "closed_form"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CORRELATIONS)
def test_bounds_hold_with_clients_that_move_alike(tmp_path, name):
    times = {"sqrt": 1, "banded": 2, "blt": 5}.get(name, 1)
    exceeded = 0
    for seed in range(12):
        run = SimulatedRun(
            tmp_path / str(seed), CORRELATIONS[name], seed=seed, times=times, dim=600, clients=3.0
        )
        setting = run.setting()
        assert setting.null.kind == "closed_form"
        exceeded += threshold_gdp(setting).details["mu"] > run.shifts.max()
    # 12 audits at 5 %: 8 or more by chance with probability 1.6e-8.
    assert exceeded < 8


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", ["gaussian", "hadamard"])
def test_most_of_the_guarantee_is_proven(tmp_path, family):
    run = SimulatedRun(
        tmp_path / "run", CORRELATIONS["banded"], z=0.3, dim=10_000, family=family, canaries=400
    )
    valid, gaussian = threshold_valid(run.setting()), threshold_gdp(run.setting())
    assert gaussian.details["mu"] < run.shifts.max()
    assert gaussian.details["mu"] > 0.75 * run.shifts.max()
    assert 5 < valid.epsilon < gaussian.epsilon


def test_shortened_directions_limit_the_scores(tmp_path, monkeypatch):
    whole = SimulatedRun(tmp_path / "whole", CORRELATIONS["sqrt"])
    monkeypatch.setattr(directions, "_MOST_BYTES", 4 * ROUNDS * 3000)
    short = SimulatedRun(tmp_path / "short", CORRELATIONS["sqrt"])
    assert short.compared["own_rounds"].is_limit and not whole.compared["own_rounds"].is_limit
    assert (np.abs(short.scores) <= np.abs(whole.scores) * (1 + 1e-5)).all()
