"""Dirac canaries: distinct coordinates, no law of their own, and what follows from that."""

import numpy as np
import pytest

from fl_audit.attacks.compared_vectors import ANY_VECTOR
from fl_audit.attacks.final_model import FINAL
from fl_audit.attacks.statistic import EMPIRICAL, RunFacts
from fl_audit.canaries.dirac import DiracFamily
from fl_audit.config import Audit
from fl_audit.errors import InputError
from fl_audit.inner_products import euclidean_norm


def test_dirac_canaries_are_coordinates():
    family = DiracFamily(seed=3, num_canaries=50, dim=60)
    vectors = np.stack([family.vector(canary) for canary in range(50)])
    np.testing.assert_array_equal(np.abs(vectors).sum(axis=0), np.abs(vectors).max(axis=0))
    target = np.random.default_rng(0).normal(size=60).astype(np.float32)
    np.testing.assert_allclose(
        family.cosines(target), vectors @ target / euclidean_norm(target), atol=1e-6
    )


def test_there_are_no_more_than_coordinates():
    with pytest.raises(InputError, match="there are 60 dirac canaries"):
        DiracFamily(seed=3, num_canaries=61, dim=60)


@pytest.mark.parametrize("compared", [{}, {"final": ANY_VECTOR}])
def test_no_statistic_has_a_closed_form(compared):
    facts = RunFacts(Audit(), 1000, "dirac", compared)
    assert FINAL.null(facts) == EMPIRICAL
