"""The live test on logs: what is proven round by round, and where it is refused."""

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.attacks.live_test import LiveCanaries, LiveTest
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.errors import InputError

NUM_ROUNDS = 20


def audit(folder, family="gaussian", noise=0.3, pool_size=300, dim=3000):
    """A log of noised sums of unit canaries, each in one round: releases of shift 1 / noise."""
    pool = CanaryPool(5, pool_size, dim, family)
    random = np.random.default_rng(5)
    rounds = random.integers(NUM_ROUNDS, size=pool_size)
    scorer = RoundScorer.create(folder, pool, NUM_ROUNDS, [[int(r) + 1] for r in rounds])
    for index in range(NUM_ROUNDS):
        total = noise * random.standard_normal(dim)
        for canary in np.flatnonzero(pool.included & (rounds == index)):
            total += pool.vector(int(canary))
        scorer.score_round(index + 1, total.astype(np.float32))
        yield scorer, rounds


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", ["gaussian", "rademacher", "hadamard"])
def test_a_scorer_proves_more_and_more_up_to_what_noise_guarantees(tmp_path, family):
    lower_bound = [s.lower_bound_epsilon(1e-5) for s, _ in audit(tmp_path / "log", family)]
    assert lower_bound == sorted(lower_bound)
    assert lower_bound[2] > 2
    assert 8 < lower_bound[-1] < 20.7  # a Gaussian release of shift 1 / 0.3 has epsilon 20.7


def test_noise_proves_nothing_and_a_continued_test_has_the_same_numbers(tmp_path):
    *_, (scorer, rounds) = audit(tmp_path / "log", noise=1.0)
    own = OwnRounds(tuple(np.array([r]) for r in rounds))
    canaries = LiveCanaries(scorer.pool.included, own, "gaussian", 3000)
    test, again = LiveTest(canaries, 1e-5, 2.0), LiveTest(canaries, 1e-5, 2.0)
    test.add(scorer, range(NUM_ROUNDS))
    again.add(scorer, range(7))
    again.add(RoundScorer.open(tmp_path / "log"), range(7, NUM_ROUNDS))
    assert test.epsilon(0.95) == again.epsilon(0.95) == scorer.lower_bound_epsilon(1e-5)
    assert test.p_value(2.0) == again.p_value(2.0)
    fake = LiveCanaries(~scorer.pool.included, own, "gaussian", 3000)
    swapped = LiveTest(fake, 1e-5, 0.1)
    swapped.add(scorer, range(NUM_ROUNDS))
    assert swapped.p_value(0.1) == 1


def test_a_null_that_excluded_scores_refute_proves_nothing(tmp_path):
    *_, (scorer, rounds) = audit(tmp_path / "log", pool_size=400)
    own = OwnRounds(tuple(np.array([r]) for r in rounds))
    wrong_dim = LiveTest(LiveCanaries(scorer.pool.included, own, "gaussian", 12_000), 1e-5, 1.0)
    wrong_dim.add(scorer, range(NUM_ROUNDS))
    assert wrong_dim.bound.epsilon(0.95) > 0
    assert wrong_dim.epsilon(0.95) == 0
    assert wrong_dim.p_value(1.0) == 1


def test_a_scorer_without_single_rounds_refuses(tmp_path):
    pool = CanaryPool(5, 40, 300)
    for name, rounds, why in (
        ("a", None, "rounds are not known"),
        ("b", 40 * [[1, 2]], "2 rounds"),
    ):
        scorer = RoundScorer.create(tmp_path / name, pool, 2, rounds)
        with pytest.raises(InputError, match=why):
            scorer.lower_bound_epsilon(1e-5)
