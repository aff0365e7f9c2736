"""Effective sample size and R-hat, on chains whose answer is known."""

import numpy as np
import pytest
from scipy import signal

from fl_audit.estimators.challenge_bases.posterior_summary import (
    effective_sample_size,
    split_r_hat,
)


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_effective_size_of_autoregressions(memory):
    """AR(1) with coefficient a has (1 - a) / (1 + a) effective draws per draw.

    The estimate's deviation here is below 5 %: 25 % is 5 of them.
    """
    noise = np.random.default_rng(0).normal(size=(4, 51_000))
    chains = signal.lfilter([1], [1, -memory], noise, axis=1)[:, 1000:]
    expected = 200_000 * (1 - memory) / (1 + memory)
    assert effective_sample_size(chains) == pytest.approx(expected, rel=0.25)
    assert split_r_hat(chains) == pytest.approx(1, abs=0.01)


def test_chains_that_disagree_or_drift_are_seen():
    chains = np.random.default_rng(0).normal(size=(4, 1000))
    assert split_r_hat(chains + np.linspace(0, 4, 1000)) > 1.3
    apart = chains + np.array([[0], [0], [0], [3]])
    assert split_r_hat(apart) > 1.3
    assert effective_sample_size(apart) < 40
