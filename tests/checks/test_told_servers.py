"""Servers that say how their noise should be, by the checks: 20 rounds of 2,000 numbers."""

import numpy as np
import pytest

from fl_audit.checks import MechanismWatch
from tests.checks.told_servers import DIM, RIGHT, SIZES, WRONG
from tests.seeds_tried import some


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_found(name):
    make, check = WRONG[name]
    for seed in some(range(5), 1):
        assert check in make(seed, 20).failed()


@pytest.mark.parametrize("sizes", [(DIM,), SIZES], ids=["one variable", "four variables"])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_one_passes(name, sizes):
    """Five checks of 5 seeds, 4 servers and 2 layouts: 2e-4 by the bounds, seeds fixed."""
    for seed in some(range(5), 1):
        assert RIGHT[name](seed, 20).failed(sizes) == set()


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_two_coordinates(rounds):
    """Models of two numbers: 300 seeds at 5e-6, with p-values that are nowhere near it."""
    for seed in some(range(300), 20):
        random = np.random.default_rng(seed)
        watch = MechanismWatch((1, 1))
        for _ in range(rounds):
            noise = random.normal(size=2).astype(np.float32)
            watch.see_round(noise, noise_stddev=1.0, norm_bound=0.5)
        assert not any(check.failed for check in watch.checks())


def test_frozen_variables_release_nothing():
    random = np.random.default_rng(1)
    for frozen, passed in ((True, True), (False, False)):
        watch = MechanismWatch((DIM, 100), frozen=[2] if frozen else [])
        leaking = MechanismWatch((DIM, 100), frozen=[2])
        for number in range(8):
            released = np.append(random.normal(size=DIM), np.zeros(100)).astype(np.float32)
            watch.see_round(released, noise_stddev=1.0, norm_bound=1.0)
            released[-1] = 0.1 if number == 4 else 0.0
            leaking.see_round(released, noise_stddev=1.0, norm_bound=1.0)
        assert any(check.failed for check in watch.checks()) is not passed
        (last,) = (check for check in leaking.checks() if check.name == "frozen_variables")
        assert (last.passed, last.round, last.variable) == (False, 5, 2)
