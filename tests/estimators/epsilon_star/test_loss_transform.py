"""The four steps of the loss transformation, written out, and at the ends of the floats."""

import math

import mpmath
import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators.epsilon_star import LossTransform


def four_steps(losses, smallest, largest):
    with mpmath.workdps(40):
        found = []
        for loss in losses:
            normalised = (mpmath.mpf(loss) - smallest) / (mpmath.mpf(largest) - smallest)
            p = mpmath.exp(-(normalised + 1))
            found.append(float(mpmath.log(p) - mpmath.log(1 - p)))
        return found


def test_the_four_steps_of_the_paper():
    rng = np.random.default_rng(0)
    members, others = rng.gamma(2, 5, 50), rng.gamma(3, 5, 60)
    smallest = min(members.min(), others.min())
    largest = max(members.max(), others.max())
    logits = LossTransform.of(members, others).logits(members)
    assert logits == pytest.approx(four_steps(members, smallest, largest), rel=1e-13)


def test_range_of_the_logits():
    logits = LossTransform.of([0.0], [7.0]).logits([0.0, 7.0])
    assert logits == pytest.approx([-math.log(math.e - 1), -math.log(math.e**2 - 1)])


@pytest.mark.parametrize("ends", [(-1e308, 1.7e308), (0.0, 5e-324), (3.0, 1e300), (-2.0, -1.0)])
def test_extreme_ranges_fill_the_same_interval(ends):
    with np.errstate(all="raise", under="ignore"):
        logits = LossTransform.of([ends[0]], [ends[1]]).logits(ends)
    assert logits == pytest.approx([-0.5413248546, -1.8545865421])


def test_equal_losses_have_equal_logits():
    transform = LossTransform.of([4.0, 4.0], [4.0])
    assert np.ptp(transform.logits([4.0, 4.0, 4.0])) == 0


def test_loss_undoes_it_also_beyond_the_observed():
    transform = LossTransform(2.0, 10.0)
    losses = np.array([-3.0, 2.0, 5.0, 10.0, 200.0])
    assert transform.loss(transform.logits(losses)) == pytest.approx(losses, rel=1e-12)


def test_a_loss_beyond_the_floats_is_infinite():
    assert LossTransform(1e308, 1.5e308).loss(-40.0) == math.inf


@pytest.mark.parametrize("bad", [[], [math.inf], [[1.0]]])
def test_refuses_bad_losses(bad):
    with pytest.raises(InputError, match="non_member_losses must be"):
        LossTransform.of([1.0], bad)
