"""Epsilon* over margins, against the closed form of two Gaussians."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.epsilon_star import epsilon_star_of_laws
from fl_audit.membership.outputs import epsilon_star_of_model


def test_of_gaussian_margins_it_is_that_of_their_laws():
    quantiles = (np.arange(1, 20_001) - 0.5) / 20_000
    members, others = Gaussian(3, 2).ppf(quantiles), Gaussian(1, 1).ppf(quantiles)
    found = epsilon_star_of_model(members, others, 1e-3)
    truth = epsilon_star_of_laws(Gaussian(3, 2), Gaussian(1, 1), 1e-3)
    assert found.gaussian.epsilon == pytest.approx(truth.epsilon, rel=1e-3)
    assert found.gaussian.ratio == truth.ratio == "(TPR - delta) / FPR"
    assert 0 < found.empirical.epsilon <= np.log(999)


def test_a_model_that_learned_nothing_has_none():
    margins = np.linspace(-3, 3, 100)
    assert epsilon_star_of_model(margins, margins, 1e-5).gaussian.epsilon == 0


def test_bad_margins_are_refused():
    with pytest.raises(InputError, match="population_margins"):
        epsilon_star_of_model([1.0], [np.inf], 0.1)
