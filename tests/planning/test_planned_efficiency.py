"""Own rounds in a plan, and how good it says that the audit would be."""

import numpy as np
import pytest

from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.planning.planned_power import planned_efficiency
from fl_audit.planning.predicted_background import MIDDLE, predicted_background
from fl_audit.planning.prediction import (
    predicted_statistics,
    sample_middle,
    simulated_audits,
)
from tests.planning.planned_runs import facts, planned, small_config

# The quickstart's numbers, with all of its noise on the sum.
QUICKSTART = {
    "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 0.3, "clip_norm": 0.5},
    "participation": {"kind": "shuffle", "rounds": 100, "clients_per_round": 20},
    "canaries": {"count": 500, "family": "gaussian"},
    "audit": {"threat_models": ["all_iterates", "known_rounds"], "delta": 1e-3},
}


def drawn_audits(run, trials):
    """Simulated scores on own rounds."""
    background = predicted_background(run, MIDDLE)
    return [drawn.scores for drawn in simulated_audits(run, background, OWN_ROUNDS, trials)]


@pytest.fixture(scope="module")
def quickstart():
    return planned(small_config(QUICKSTART), facts(dim=167_178, num_clients=300))


# 0.1 is 6.5 standard errors of a deviation of some 2,500 scores.
def test_a_score_in_several_own_rounds_is_a_cosine_with_one_vector():
    changes = {**QUICKSTART, "participation": {**QUICKSTART["participation"], "canary_repeats": 4}}
    run = planned(small_config(changes), facts(dim=167_178, num_clients=300))
    trials = drawn_audits(run, 10)
    excluded = np.concatenate([trial.excluded for trial in trials])
    included = np.concatenate([trial.included for trial in trials])
    scale = run.task.dim**0.5
    assert np.std(scale * excluded) == pytest.approx(1, abs=0.1)
    assert np.mean(scale * included) == pytest.approx(4**0.5 / 0.3, abs=0.3)
    audited = sample_middle(run, 3, predicted_statistics(run.config))
    assert np.median(audited["own_rounds", "threshold_valid"]) > 17


def test_without_noise_a_score_in_several_own_rounds_is_at_most_one():
    changes = {**QUICKSTART, "participation": {**QUICKSTART["participation"], "canary_repeats": 4}}
    changes["mechanism"] = {"kind": "gaussian_fixed", "noise_multiplier": 0.0, "clip_norm": 50.0}
    run = planned(small_config(changes), facts(dim=167_178, num_clients=300))
    (trial,) = drawn_audits(run, 1)
    assert np.max(np.abs(trial.included)) <= 1


def test_what_is_proven_is_below_what_could_be_and_that_below_the_guarantee(quickstart):
    statistics = predicted_statistics(quickstart.config)
    middle = sample_middle(quickstart, 19, statistics)
    found = {made.statistic: made for made in planned_efficiency(quickstart, middle, statistics)}
    assert set(found) == {"max", "sum", "own_rounds"}
    for made in found.values():
        assert made.lower_bound <= made.reachable <= made.upper_bound
    assert found["own_rounds"].upper_bound == pytest.approx(15.153, abs=1e-3)
    assert found["max"].upper_bound == pytest.approx(10.548, abs=1e-3)
    assert found["own_rounds"].lower_bound > 10
    assert 200 < found["own_rounds"].canaries_for_80_percent < 500
    assert found["own_rounds"].canaries_for_95_percent > 10_000
