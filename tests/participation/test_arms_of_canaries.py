"""Canaries that are dealt to arms of one run: who is in which, and in which rounds."""

import numpy as np
import pytest

from fl_audit.accounting import FixedRounds
from fl_audit.config import Bernoulli, Canaries, Shuffle, Uniform
from fl_audit.errors import InputError
from fl_audit.participation import make_schedule
from fl_audit.participation.arms import arm_names, read_arm

ROUNDS, POOL, CLIENTS = 30, 1000, 60
ARMS = (
    "once",
    "repeats:3",
    "each_epoch:10",
    "poisson:0.2",
    "min_separation:8",
    "late:5",
    "late:6/3",
    "cyclic_poisson:3/4",
    "b_min_sep:4/5",
    "every_round",
)
NAMES = [f"client-{i}" for i in range(CLIENTS)]
INCLUDED = np.random.default_rng(1).random(POOL) < 0.5


def made(arms=ARMS, pattern=None, seed=3, included=INCLUDED):
    pattern = pattern or Shuffle(rounds=ROUNDS, clients_per_round=6)
    pool = Canaries(count=POOL, max_per_round=10**6, arms=arms)
    return make_schedule(pattern, pool, seed, NAMES, included)


def test_arms_are_of_one_size_and_do_as_they_say():
    names = np.array(arm_names(ARMS, POOL, 3))
    rounds = made().rounds_of_canaries(POOL)
    for arm in ARMS:
        members = np.flatnonzero(names == arm)
        assert len(members) == POOL / len(ARMS)
        own = [rounds[canary] for canary in members]
        counts = np.array([len(one) for one in own])
        match arm:
            case "once":
                assert set(counts) == {1}
            case "repeats:3" | "each_epoch:10":
                assert all((one // 10).tolist() == [0, 1, 2] for one in own)
            case "poisson:0.2":
                # Binomial: a mean of 6 with a standard error of 0.22 over 100 canaries.
                assert abs(counts.mean() - 6) < 1.2
            case "min_separation:8":
                assert all(set(np.diff(one)) == {8} and one[0] < 8 for one in own)
            case "late:5":
                assert set(counts) == {1} and min(one[0] for one in own) >= 25
            case "late:6/3":
                assert all((one // 2).tolist() == [12, 13, 14] for one in own)
            case "cyclic_poisson:3/4":
                assert all((np.diff(one) % 3 == 0).all() for one in own)
                assert abs(counts.mean() - 4) < 1  # binomial: six standard errors of 0.16
            case "b_min_sep:4/5":
                assert all((np.diff(one) >= 4).all() for one in own)
                assert abs(counts.mean() - 5) < 1.2  # at most binomial: a standard error of 0.2
            case "every_round":
                assert set(counts) == {ROUNDS}


@pytest.mark.parametrize("kind", [Shuffle, Bernoulli, Uniform])
def test_coins_change_nobodys_arm_or_rounds(kind):
    pattern = kind(rounds=ROUNDS, clients_per_round=6)
    first, second = made(pattern=pattern), made(pattern=pattern, included=~INCLUDED)
    for index in range(ROUNDS):
        np.testing.assert_array_equal(first.clients(index), second.clients(index))
        np.testing.assert_array_equal(first.sampled_canaries(index), second.sampled_canaries(index))
        assert INCLUDED[first.canaries(index)].all()
    assert first.canary_attendance.sampling == FixedRounds(ROUNDS)


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        ("twice", "'twice' is no arm"),
        ("repeats", "must be 'repeats:NUMBER', got 'repeats'"),
        ("once:2", "must be 'once', got 'once:2'"),
        ("poisson:1.5", "poisson:NUMBER needs a probability above 0, got 'poisson:1.5'"),
        ("late:0", "late:NUMBER needs a whole number from 1 on, got 'late:0'"),
        ("late:x", "late:NUMBER needs a whole number"),
        ("b_min_sep:4", "must be 'b_min_sep:NUMBER/MEAN', got 'b_min_sep:4'"),
        ("b_min_sep:4/0", "b_min_sep:NUMBER/MEAN needs whole numbers from 1 on"),
        ("late:3/5", "late:ROUNDS/PARTS needs whole .* no more parts than rounds, got"),
    ],
)
def test_an_arm_that_is_none_is_said(arm, message):
    with pytest.raises(ValueError, match=message):
        read_arm(arm)
    with pytest.raises(InputError, match=r"canaries\.arms: .*" + message):
        made(arms=("once", arm))


def test_arms_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"canaries\.arms: 'late:31' asks for more .* 30 rounds"):
        made(arms=("once", "late:31"))
    full = made(arms=("every_round", "b_min_sep:5/6"))  # a coin of 1, up to rounding
    assert {len(own) for own in full.rounds_of_canaries(POOL)} <= {0, 6, ROUNDS}
    with pytest.raises(InputError, match=r"'b_min_sep:4/8' asks for 8 .* 30 rounds allow 7"):
        made(arms=("once", "b_min_sep:4/8"))
    for arms in (("once",), ("once", "once")):
        with pytest.raises(ValueError, match="at least two different arms"):
            Canaries(count=10, arms=arms)
    with pytest.raises(ValueError, match=r"'pairs', .* of a pair would be in different arms"):
        Canaries(count=10, arms=("once", "every_round"), inclusion="pairs")
