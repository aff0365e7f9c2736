"""Checks of correlated noise: right servers pass, wrong ones fail the check that is for them."""

import numpy as np
import pytest

from fl_audit.accounting.toeplitz import Toeplitz, sqrt_column
from fl_audit.accounting.tree_nodes import Trees, _noise_of_sums
from fl_audit.checks import MechanismWatch, measured_rounds
from fl_audit.checks.measured_rounds import AggregateLog
from fl_audit.checks.whitening import (
    ExpectedRounds,
    Whitening,
    fresh_share,
    past_weights,
)
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_logs import mode_after
from tests.checks.correlated_servers import (
    BANDS,
    BOUND,
    DIM,
    RIGHT,
    ROUNDS,
    WRONG,
    accounted,
    of_matrix,
    scaled,
    server,
)
from tests.seeds_tried import some

SIZES = (10_000, 1_500, 490, 10)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_found(name):
    make, check = WRONG[name]
    for seed in some(range(2), 1):
        assert check in make(seed).failed()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_one_passes(name):
    """Five checks of 2 seeds and 13 servers: 1.3e-4 by the bounds, seeds fixed."""
    for seed, sizes in some(list(enumerate([SIZES, (DIM,)])), 1):
        checks = RIGHT[name](seed).watched(sizes).checks()
        assert all(check.p_value > 1e-3 for check in checks), checks


def test_the_noise_that_would_have_been_seen_is_seen():
    """Of 8 servers whose noise is as small as the check says it sees, at least 3 are caught.

    At a probability of 0.95 each, fewer are with a probability of 4e-7 (binomial).
    """
    checks = RIGHT["banded square root"](0).watched().checks()
    detectable = next(check.detectable_ratio for check in checks if check.name == "enough_noise")
    assert 0.9 < detectable < 0.995
    quieter = server(scaled(of_matrix(BANDS), detectable), accounted(BANDS))
    caught = sum("enough_noise" in quieter(seed).failed() for seed in range(1, 9))
    assert caught >= 3


# The arithmetic, against dense matrices.


@pytest.mark.parametrize("rounds", [1, 2, 7, 16, 37])
def test_trees_are_whitened_as_their_covariance_says(rounds):
    """By Cholesky: L^-1 with ones on the diagonal, and the diagonal of L."""
    noise = np.diff(_noise_of_sums(rounds), axis=0, prepend=0.0)
    lower = np.linalg.cholesky(noise @ noise.T)
    trees = Trees(rounds)
    weights = np.zeros((rounds, rounds))
    for index in range(rounds):
        weights[index, : index + 1] = past_weights(trees, index)[::-1]
    np.testing.assert_allclose(
        weights, np.diag(lower.diagonal()) @ np.linalg.inv(lower), atol=1e-12
    )
    shares = [fresh_share(trees, index) for index in range(rounds)]
    np.testing.assert_allclose(shares, lower.diagonal(), rtol=1e-12)


@pytest.mark.parametrize("name", RIGHT)
def test_vectors_are_whitened_by_the_weights(name):
    """Streams, rings and stacks give what the weights of each round say, by unit vectors."""
    made = RIGHT[name](0)
    assert made.correlation is not None
    whitening = Whitening.from_correlation(made.correlation, made.stream)
    rows = np.eye(ROUNDS, dtype=np.float32)
    for index, row in enumerate(rows):
        whitened = whitening.whiten(index, row, 1.0)[: index + 1]
        np.testing.assert_allclose(whitened, past_weights(made.correlation, index)[::-1], atol=2e-6)


@pytest.mark.parametrize(
    "correlation",
    [Toeplitz.from_column(sqrt_column(4), ROUNDS), Trees(ROUNDS, 8)],
    ids=["matrix", "trees"],
)
def test_rounds_that_were_not_seen_are_left_out(correlation):
    """Rounds 5 and 6 are missing: their weights are zeros, and norms are bounded without them."""
    seen = [index for index in range(ROUNDS) if index not in (5, 6)]
    whitening, expected = Whitening.from_correlation(correlation), ExpectedRounds(correlation)
    for index in seen:
        row = np.zeros(ROUNDS, np.float32)
        row[index] = 1.0
        found = whitening.whiten(index, row, 1.0)
        weights = past_weights(correlation, index)[::-1]
        reaches = weights[[i for i in (5, 6) if i <= index]].any()
        said = expected.see_round(index, 2.0, 3.0)
        assert said.stddev == 2.0 * fresh_share(correlation, index)
        assert np.isnan(said.norm_bound) == reaches
        if not reaches:
            np.testing.assert_allclose(found[: index + 1], weights, atol=1e-6)
            assert said.norm_bound == pytest.approx(3.0 * np.abs(weights).sum())


@pytest.mark.parametrize("name", ["banded square root", "square root", "trees of 8 rounds"])
def test_a_watch_that_was_interrupted(name, tmp_path):
    """After round 9 the vectors are gone: noise is checked on, norms once the past is known."""
    made = RIGHT[name](0)
    folder = RunFolder(tmp_path)
    for first, last in ((0, 9), (9, ROUNDS)):
        log = AggregateLog.opened(mode_after(first), folder, ROUNDS, (DIM,))
        watch = MechanismWatch((DIM,), log, first, correlation=made.correlation)
        for index in range(first, last):
            watch.measure_round(
                made.released[index].astype(np.float32),
                noise_stddev=made.stddev[index],
                norm_bound=BOUND,
            )
        log.flush()
    stated = np.column_stack([made.stddev, np.full(ROUNDS, BOUND)])
    again = log.aggregates(stated, np.arange(ROUNDS), (DIM,), made.correlation)
    norm_bound = again.norm_bound
    until = {"banded square root": 14, "square root": ROUNDS, "trees of 8 rounds": 17}[name]
    assert np.isnan(norm_bound[9:until]).any()
    assert np.isfinite(norm_bound[:9]).all() and np.isfinite(norm_bound[until:]).all()
    whole = made.watched().aggregates()
    assert not any(check.failed for check in measured_rounds.check_aggregates(again))
    np.testing.assert_allclose(again.stddev, whole.stddev)


def test_past_rounds_that_do_not_fit_into_memory(tmp_path, monkeypatch):
    """Each round is then tested alone, and a log's norms are as unbounded as those of the watch."""
    monkeypatch.setattr("fl_audit.checks.whitening.MOST_BYTES", 0)
    made = RIGHT["square root"](0)
    log = AggregateLog.opened("w+", RunFolder(tmp_path), ROUNDS, (DIM,))
    watch = MechanismWatch((DIM,), log, correlation=made.correlation)
    for released, stddev in zip(made.released.astype(np.float32), made.stddev, strict=True):
        watch.measure_round(released, noise_stddev=stddev, norm_bound=BOUND)
    stated = np.column_stack([made.stddev, np.full(ROUNDS, BOUND)])
    again = log.aggregates(stated, np.arange(ROUNDS), (DIM,), made.correlation)
    assert np.isnan(again.norm_bound).all()
    assert np.isnan(watch.aggregates().norm_bound).all()
    assert not any(check.failed for check in measured_rounds.check_aggregates(again))
