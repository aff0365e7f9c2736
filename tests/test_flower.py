"""The adapter for Flower without Flower: a strategy of the same shape (the real one: examples)."""

import itertools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.cli import main
from fl_audit.commands.estimate import read_profile
from fl_audit.errors import InputError
from fl_audit.flower import ScoredStrategy, canary_arrays
from fl_audit.formats.round_chain import read_chain
from fl_audit.formats.score_file import read_score_file
from fl_audit.report.checks import folder_canary_check, folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verification import verify_folder

POOL = CanaryPool(seed=1, count=40, dim=210)
SHAPES = (20, 10), (10,)


class Array:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def numpy(self) -> np.ndarray:
        return self.values


class Record(dict[str, Array]):
    """Arrays by name, and the reply that holds them; without any, one that says what went wrong."""

    def has_error(self) -> bool:
        return not self


def record(arrays: list[np.ndarray]) -> Record:
    return Record({str(i): Array(array) for i, array in enumerate(arrays)})


class Strategy:
    """Rounds as `flwr.serverapp.strategy.Strategy.start` runs them."""

    def __init__(self, skipped: int) -> None:
        self.skipped = skipped
        self.summed = 0

    def start(self, grid, initial_arrays, num_rounds=3):
        arrays, self.summary_of = initial_arrays, self.summary()
        for number in range(1, num_rounds + 1):
            replies = grid(self.configure_train(number, arrays, {}, grid))
            after, _ = self.aggregate_train(number, replies)
            arrays = arrays if after is None else after
        return SimpleNamespace(arrays={} if arrays is initial_arrays else arrays)

    def configure_train(self, server_round, arrays, config, grid):
        return [arrays]

    def aggregate_train(self, server_round, replies):
        if server_round == self.skipped:
            return None, {}
        moved = [reply for reply in replies if not reply.has_error()]
        mean = [sum(a[key].numpy() for a in moved) / len(moved) for key in moved[0]]
        return record(mean), {}

    def summary(self):
        return "wrapped"


def grid(messages):
    """Every included canary answers, all alike in every round."""
    weights = [part.numpy() for part in messages[0].values()]
    canaries = np.flatnonzero(POOL.included)
    return [record(canary_arrays(weights, POOL, int(c), norm=5.0)) for c in canaries]


@pytest.mark.parametrize("skipped", [0, 2])
def test_rounds_are_scored_and_the_scores_are_there_at_the_end(tmp_path, skipped):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, 3)
    initial = [np.ones(shape, np.float32) for shape in SHAPES]
    strategy = ScoredStrategy(Strategy(skipped), scorer)
    strategy.start(grid, record(initial), num_rounds=3)
    assert strategy.summary() == "wrapped"
    assert scorer.scored_rounds == [r for r in (1, 2, 3) if r != skipped]
    for name in ("final", "final_minus_initial", "max", "sum"):
        scores = read_score_file(scorer.folder.scores(name))
        np.testing.assert_array_equal(scores.included, POOL.included)
    found = read_score_file(scorer.folder.scores("final_minus_initial"))
    # All included canaries at once, each about 1 / sqrt(20) of their mean; others are noise.
    assert found.score[found.included].mean() > 0.15
    assert abs(found.score[~found.included].mean()) < 0.08
    link = read_chain(scorer.folder.chain).lines[-1].link
    verified = verify_folder(scorer.folder.path, link=link)
    # A log keeps no model, so that the chain alone covers the scores with it.
    assert verified.outcome == "partly"
    assert verified.not_made_again == ["scores_final.csv", "scores_final_minus_initial.csv"]


class NoisyMean(Strategy):
    """A strategy that clips canaries to norm 1 and adds noise of 0.5 clip norms to their sum."""

    def aggregate_train(self, server_round, replies):
        after, metrics = super().aggregate_train(server_round, replies)
        rng = np.random.default_rng((3, server_round))
        stddev = 0.5 / sum(not reply.has_error() for reply in replies)
        return record(
            [part.numpy() + rng.normal(0, stddev, part.numpy().shape)
             for part in after.values()]
        ), metrics  # fmt: skip


@pytest.mark.parametrize(("arriving", "state"), [(1.0, "arrived"), (0.5, "not_arrived")])
def test_the_length_of_a_canary_is_that_by_those_who_answer(tmp_path, arriving, state):
    pool, rounds = CanaryPool(seed=2, count=400, dim=1000), 20
    canary_rounds = [[1 + canary % rounds] for canary in range(pool.count)]
    scorer = RoundScorer.create(tmp_path / "audit", pool, rounds, canary_rounds)
    numbers = itertools.count(1)

    def answers(messages):
        weights, number = [part.numpy() for part in messages[0].values()], next(numbers)
        here = [c for c in np.flatnonzero(pool.included) if canary_rounds[c] == [number]]
        sent = [record(canary_arrays(weights, pool, int(c), norm=arriving)) for c in here]
        return iter([*sent, *[Record()] * len(sent)])  # as many fail as answer

    strategy = ScoredStrategy(NoisyMean(0), scorer, lambda replies: 1.0 / replies)
    strategy.start(answers, record([np.ones((50, 20), np.float32)]), num_rounds=rounds)
    folder = AuditedFolder(scorer.folder.path)
    canary_check = folder_canary_check(folder, folder_statistics(folder))
    assert canary_check.state == state
    # About 200 presentations with a mean of about 2: the standard error is 0.04.
    assert canary_check.ratio == pytest.approx(arriving, abs=0.2)


def test_a_canary_moves_the_model_along_its_vector():
    weights = [np.ones(shape, np.float32) for shape in SHAPES]
    moved = canary_arrays(weights, POOL, 3, norm=2.0)
    flat = np.concatenate([(new - old).ravel() for new, old in zip(moved, weights, strict=True)])
    np.testing.assert_allclose(flat, 2 * POOL.vector(3), atol=1e-6)


NORMALISED = [np.ones((20, 10), np.float16), np.ones(10, np.float32), np.array(7)]
"""A model with the number of batches that a normalisation has seen, and a matrix of float16."""


def test_integers_are_left_out_of_clients_and_server_and_float16_is_audited(tmp_path, caplog):
    """Flower's mean makes floats of integers, so that only the first round shows their types."""
    scorer = RoundScorer.create(tmp_path / "audit", POOL, 3)

    def answers(messages):
        weights = [part.numpy() for part in messages[0].values()]
        canaries = np.flatnonzero(POOL.included)
        sent = [canary_arrays(weights, POOL, int(c), 5.0, NORMALISED) for c in canaries]
        for answer in sent:
            assert [part.dtype for part in answer] == [part.dtype for part in weights]
            assert answer[2] == 7
        return map(record, sent)

    ScoredStrategy(Strategy(0), scorer).start(answers, record(NORMALISED), num_rounds=3)
    assert scorer.scored_rounds == [1, 2, 3]
    assert [r.message.count("2 (int64); the pool's dim is the number of the other values, 210")
            for r in caplog.records] == [1]  # fmt: skip
    found = read_score_file(scorer.folder.scores("final_minus_initial"))
    assert found.score[found.included].mean() > 0.15
    assert not scorer.folder.faults.exists()


def test_a_server_that_is_started_again_goes_on_from_its_first_model(tmp_path):
    initial = [np.ones(shape, np.float32) for shape in SHAPES]
    whole = RoundScorer.create(tmp_path / "whole", POOL, 4)
    ScoredStrategy(Strategy(0), whole).start(grid, record(initial), num_rounds=4)
    scorer = RoundScorer.create(tmp_path / "audit", POOL, 4)
    first = ScoredStrategy(Strategy(0), scorer).start(grid, record(initial), num_rounds=3)
    scorer = RoundScorer.open(tmp_path / "audit")
    again = ScoredStrategy(Strategy(0), scorer, rounds_before=3)
    again.start(grid, first.arrays, num_rounds=1)
    assert scorer.scored_rounds == [1, 2, 3, 4]
    for name in ("final_minus_initial", "max"):
        ours, theirs = (read_score_file(s.folder.scores(name)).score for s in (scorer, whole))
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def _full(index):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("dim", "broken"), [(211, None), (210, "canary_length"), (210, "disk"), (210, "nan")]
)
def test_whatever_happens_to_the_audit_training_ends_as_without_it(tmp_path, caplog, dim, broken):
    pool = CanaryPool(seed=1, count=40, dim=dim)
    scorer = RoundScorer.create(tmp_path / "audit", pool, 3)
    initial = [np.ones(shape, np.float32) for shape in SHAPES]
    if broken == "disk":
        scorer._sum.forget = _full
    if broken == "nan":
        initial[1][:] = np.nan
    alone = Strategy(0).start(grid, record(initial))
    length = (lambda replies: 1 / (replies - replies)) if broken == "canary_length" else None
    audited = ScoredStrategy(Strategy(0), scorer, length).start(grid, record(initial))
    for name, array in alone.arrays.items():
        np.testing.assert_array_equal(audited.arrays[name].numpy(), array.numpy())
    assert "the audit is incomplete, training goes on: round 1: " in caplog.text
    assert len(scorer.folder.faults.read_text().splitlines()) >= 3


@pytest.mark.parametrize("rounds_before", [-1, 4])
def test_wrong_numbers_are_refused_at_once(tmp_path, rounds_before):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, 3)
    with pytest.raises(InputError, match="rounds_before: must be in 0 to 3"):
        ScoredStrategy(Strategy(0), scorer, rounds_before=rounds_before)


def test_a_canary_that_leaves_the_range_of_float16_is_refused():
    with pytest.raises(InputError, match="overflows float16"):
        canary_arrays([np.ones(210, np.float16)], POOL, 0, norm=1e7)


def test_it_needs_neither_flower_nor_tensorflow():
    program = (
        "import sys, fl_audit.flower; "
        "sys.exit(any(name in sys.modules for name in ('flwr', 'tensorflow')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


class DifferentialPrivacyServerSideFixedClipping(Strategy):
    """Named as Flower's, whose attributes say how large the noise is; and too little of it."""

    noise_multiplier, clipping_norm, num_sampled_clients = 3.0, 5.0, 20

    def __init__(self, share: float) -> None:
        super().__init__(skipped=0)
        self.strategy = SimpleNamespace()
        self.share, self.random = share, np.random.default_rng(6)

    def aggregate_train(self, server_round, replies):
        after, metrics = super().aggregate_train(server_round, replies)
        stddev = self.share * self.noise_multiplier * self.clipping_norm / 20
        means = [array.numpy() for array in after.values()]
        noised = [mean + self.random.normal(0, stddev, mean.shape) for mean in means]
        return record(noised), metrics


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_what_a_private_strategy_says_of_its_noise_is_checked(tmp_path, share):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, 12)
    strategy = ScoredStrategy(DifferentialPrivacyServerSideFixedClipping(share), scorer)
    strategy.start(grid, record([np.zeros(shape) for shape in SHAPES]), num_rounds=12)
    checks = folder_checks(AuditedFolder(tmp_path / "audit"))
    assert [check.name for check in checks.results if check.failed] == (
        []
        if share == 1
        else ["enough_noise", "noise_everywhere", "fresh_noise", "noise_distribution"]
    )
    # Without the largest norm nothing is tested of it, nor is noise that comes back.
    assert [check.name for check in checks.results if not check.was_made] == [
        "bounded_length",
        "no_echo",
    ]
    assert checks.not_checked == "the largest norm of an aggregate is unknown; hand over norm_bound"
    assert {check.num_tests for check in checks.results if check.name == "enough_noise"} == {3 * 13}


def test_noise_that_is_handed_over(tmp_path):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, 3)
    strategy = ScoredStrategy(Strategy(skipped=0), scorer, noise=lambda replies: (0.0, 5.0))
    strategy.start(grid, record([np.zeros(shape) for shape in SHAPES]))
    checks = folder_checks(AuditedFolder(tmp_path / "audit"))
    assert [(check.name, check.passed) for check in checks.results] == [("bounded_length", True)]
    assert checks.not_checked is None


@pytest.mark.parametrize("choice", ["warn", "error"])
def test_lost_canaries_are_a_sentence_and_end_the_training_if_so_chosen(tmp_path, caplog, choice):
    pool, rounds = CanaryPool(seed=2, count=400, dim=1000), 8
    canary_rounds = [[1 + canary % rounds] for canary in range(pool.count)]
    scorer = RoundScorer.create(
        tmp_path / "audit", pool, rounds, canary_rounds, lost_canaries=choice
    )

    def answers(messages):
        return [record([part.numpy() for part in messages[0].values()])] * 25  # none has moved

    strategy = ScoredStrategy(NoisyMean(0), scorer, lambda replies: 1.0 / replies)
    started = lambda: strategy.start(  # noqa: E731
        answers, record([np.ones((50, 20), np.float32)]), num_rounds=rounds
    )
    sentence = "the canary check fails in round 1: canaries have "
    if choice == "error":
        with pytest.raises(InputError, match=sentence):
            started()
        assert scorer.scored_rounds == [1]
    else:
        started()
        assert [line.message.startswith(sentence) for line in caplog.records] == [True]
        assert len(scorer.scored_rounds) == rounds
    assert not scorer.folder.faults.exists()


class Accounted(Strategy):
    """With what Flower's DP strategies have since flwr 1.35."""

    def __init__(self, epsilon_at=None, releases=3) -> None:
        super().__init__(skipped=0)
        self.releases = releases
        if epsilon_at is not None:
            self.accountant = SimpleNamespace(get_epsilon=epsilon_at)

    def privacy_spent(self):
        return SimpleNamespace(epsilon=2.5, delta=1e-3, num_releases=self.releases)


def test_what_privacy_spent_says_is_the_claim(tmp_path, capsys):
    for name, strategy, points in (
        ("curve", Accounted(lambda delta: -np.log(delta)), 25),
        ("point", Accounted(), 1),
    ):
        scorer = RoundScorer.create(tmp_path / name, POOL, 3)
        ScoredStrategy(strategy, scorer).start(grid, record([np.zeros(s) for s in SHAPES]))
        assert len(read_profile(scorer.folder.claim)) == points
        assert verify_folder(scorer.folder.path).findings == []
        status = main(["estimate", str(scorer.folder.path), "--delta", "1e-3"])
        assert status == 3, capsys.readouterr().err  # without noise
        assert "CONTRADICTED" in capsys.readouterr().out
    scorer = RoundScorer.create(tmp_path / "none", POOL, 3)
    ScoredStrategy(Strategy(0), scorer).start(grid, record([np.zeros(s) for s in SHAPES]))
    assert not scorer.folder.claim.exists()


def test_no_finite_epsilon_is_no_claim(tmp_path):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, 3)
    strategy = ScoredStrategy(Accounted(lambda delta: np.inf), scorer)
    strategy.start(grid, record([np.zeros(s) for s in SHAPES]))
    assert not scorer.folder.claim.exists() and not scorer.folder.faults.exists()
    assert main(["estimate", str(scorer.folder.path), "--delta", "1e-3"]) == 0


@pytest.mark.parametrize("releases", [1, 4])
def test_an_accountant_that_forgot_the_rounds_before_a_restart_states_no_claim(tmp_path, releases):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, 4)
    first = ScoredStrategy(Accounted(), scorer)
    result = first.start(grid, record([np.zeros(s) for s in SHAPES]), num_rounds=3)
    assert scorer.folder.claim.exists()
    scorer = RoundScorer.open(tmp_path / "audit")
    again = ScoredStrategy(Accounted(releases=releases), scorer, rounds_before=3)
    again.start(grid, result.arrays, num_rounds=1)
    assert scorer.folder.claim.exists() == (releases == 4)
    if releases == 1:
        said = scorer.folder.faults.read_text()
        assert "counts 1 releases and the audit 4 rounds; after a restart load" in said
    assert verify_folder(scorer.folder.path).findings == []


def test_a_claim_of_fewer_rounds_is_taken_back_by_a_strategy_that_states_none(tmp_path):
    scorer = RoundScorer.create(tmp_path / "audit", POOL, 4)
    first = ScoredStrategy(Accounted(), scorer)
    result = first.start(grid, record([np.zeros(s) for s in SHAPES]), num_rounds=3)
    assert scorer.folder.claim.exists()
    again = ScoredStrategy(Strategy(0), RoundScorer.open(tmp_path / "audit"), rounds_before=3)
    again.start(grid, result.arrays, num_rounds=1)
    assert not scorer.folder.claim.exists()
