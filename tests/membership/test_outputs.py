"""Loss and margin, against probabilities in exact arithmetic."""

import mpmath
import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.epsilon_star import epsilon_star_of_distributions
from fl_audit.membership.outputs import epsilon_star_of_model, loss, margin, margin_of_loss


def test_margin_and_loss_are_those_of_the_softmax():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, [[1], [10], [60]], (4, 3, 5))
    labels = np.array([0, 4, 2])
    with mpmath.workdps(80):
        for model in range(4):
            for point, label in enumerate(labels):
                weights = [mpmath.exp(float(z)) for z in logits[model, point]]
                p = weights[label] / sum(weights)
                others = (sum(weights) - weights[label]) / sum(weights)
                assert margin(logits, labels)[model, point] == pytest.approx(
                    float(mpmath.log(p / others)), rel=1e-12, abs=1e-12
                )
                assert loss(logits, labels)[model, point] == pytest.approx(
                    float(-mpmath.log1p(-others)), rel=1e-12
                )


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (np.zeros(3), [0], "shape"),
        (np.zeros((2, 1)), [0, 0], "at least two classes"),
        (np.zeros((2, 3)), [0], "labels .points,., got .2, 3. and .1,."),
        (np.full((1, 3), np.nan), [0], "finite"),
        (np.zeros((2, 3)), [0, 3], "from 0 to 2"),
        (np.zeros((2, 3)), [-1, 0], "from 0 to 2"),
    ],
)
def test_bad_outputs_are_refused(logits, labels, message):
    with pytest.raises(InputError, match=message):
        margin(logits, labels)


def test_a_loss_that_rounds_to_zero_has_a_finite_margin():
    least = np.finfo(np.float32).tiny
    with np.errstate(all="raise"):
        found = margin_of_loss([0.0, least, 1e-20])
    assert found == pytest.approx([-np.log(least), -np.log(least), -np.log(1e-20)])


# Epsilon* over margins, against the closed form of two Gaussians.


def test_of_gaussian_margins_it_is_that_of_their_laws():
    quantiles = (np.arange(1, 20_001) - 0.5) / 20_000
    members, others = Gaussian(3, 2).ppf(quantiles), Gaussian(1, 1).ppf(quantiles)
    found = epsilon_star_of_model(members, others, 1e-3)
    truth = epsilon_star_of_distributions(Gaussian(3, 2), Gaussian(1, 1), 1e-3)
    assert found.gaussian.epsilon == pytest.approx(truth.epsilon, rel=1e-3)
    assert found.gaussian.ratio == truth.ratio == "(TPR - delta) / FPR"
    assert 0 < found.empirical.epsilon <= np.log(999)
    with pytest.raises(InputError, match="population_margins"):
        epsilon_star_of_model([1.0], [np.inf], 0.1)
