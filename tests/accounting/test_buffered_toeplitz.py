"""Buffered linear Toeplitz strategies, against jax_privacy's (versions as in test_toeplitz)."""

import itertools
import math

import numpy as np
import pytest

from fl_audit.accounting.buffered_toeplitz import BufferedToeplitz, optimise
from fl_audit.accounting.toeplitz import Toeplitz, inverse_column, sqrt_column

# buffered_toeplitz.optimize_loss of LossFn.build_closed_form_single_participation(n): its loss.
LEAST_LOSS = {
    (100, 3): 6.408420910497459,
    (512, 4): 9.31453577565703,
    (2000, 1): 18.529050378567554,
}

# One of the same, with buffered_toeplitz.sensitivity_squared and, at separation n / 5 and five
# participations, toeplitz.minsep_sensitivity_squared; their roots.
THEIRS = BufferedToeplitz(
    (0.9967945365083865, 0.8811971058876003), (0.08404007366140072, 0.32938706636534243)
)
SENSITIVITY, FIVE_TIMES = 1.7328061920517648, 5.092884053757727


def loss(strategy, num_rounds):
    column = strategy.column(num_rounds)
    largest_error = np.square(np.cumsum(inverse_column(column, num_rounds))).sum()
    return (column @ column) * largest_error


@pytest.mark.parametrize(("setting", "theirs"), LEAST_LOSS.items())
def test_the_least_loss_is_that_of_jax_privacy(setting, theirs):
    num_rounds, buffers = setting
    assert loss(optimise(buffers, num_rounds), num_rounds) == pytest.approx(theirs, rel=1e-8)


def test_sensitivity_is_that_of_jax_privacy():
    strategy = Toeplitz.from_column(THEIRS.column(512), 512)
    assert math.sqrt(strategy.min_separation(1, 1)) == pytest.approx(SENSITIVITY, rel=1e-9)
    assert math.sqrt(strategy.min_separation(5, 102)) == pytest.approx(FIVE_TIMES, rel=1e-9)


@pytest.mark.parametrize("num_rounds", [1, 60])
def test_columns_fall_and_no_loss_is_below_the_square_root(num_rounds):
    least = np.square(sqrt_column(num_rounds)).sum() ** 2  # its error is its squared norm
    for buffers in (1, 3, 5):
        strategy = optimise(buffers, num_rounds)
        column = strategy.column(num_rounds)
        assert Toeplitz.from_column(column, num_rounds).is_falling
        assert (inverse_column(column, num_rounds)[1:] < 1e-15).all()
        assert loss(strategy, num_rounds) >= least * (1 - 1e-9)


def test_more_buffers_lose_less():
    losses = [loss(optimise(buffers, 300), 300) for buffers in (1, 2, 3, 4)]
    assert all(before > after for before, after in itertools.pairwise(losses))
    assert losses[-1] < 1.002 * np.square(sqrt_column(300)).sum() ** 2


@pytest.mark.parametrize("buffers", [0, 11])
def test_numbers_of_buffers_that_are_refused(buffers):
    with pytest.raises(ValueError, match="buffers must be from 1 to 10"):
        optimise(buffers, 100)
