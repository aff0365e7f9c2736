"""A method from outside the package: one registration, and everything that lists methods has it."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators import (
    METHODS,
    AuditSetting,
    CanaryScores,
    Estimate,
    Method,
    estimate,
    register_method,
    remove_method,
    valid_methods,
)
from fl_audit.estimators.gaussian.mechanism import sigma_of_epsilon
from fl_audit.estimators.known_mechanisms import gaussian
from fl_audit.planning.prediction import predicted_methods
from fl_audit.report import Report, summary_lines
from fl_audit.report.shown_records import methods_by_group
from fl_audit.verdict import (
    Claim,
    ClaimTests,
    ScoredStatistic,
    chosen_methods,
    reach_verdict,
)
from fl_audit.verdict.exposure import VectorExposure
from fl_audit.verdict.less_noise import least_noise
from fl_audit.verdict.power import PointTests, SimulatedAudit
from tests.planning.planned_runs import small_config
from tests.report.made_reports import statistic as made_statistic

THRESHOLD = 2.0
CLAIM = Claim(2.0, 1e-3)
NUM_CANARIES = 10_000
MECHANISM = gaussian(2 * CLAIM.epsilon, CLAIM.delta)


def fixed_threshold(setting: AuditSetting) -> Estimate:
    """Valid for any mechanism: Clopper-Pearson at one threshold, each rate at half the level."""
    setting.require(included=1, excluded=1)
    level = (1 - setting.confidence) / 2
    true = int(np.sum(setting.scores.included >= THRESHOLD))
    false = int(np.sum(setting.scores.excluded >= THRESHOLD))
    n, k = setting.scores.num_included, setting.scores.num_excluded
    tpr = stats.beta.ppf(level, true, n - true + 1) if true else 0.0
    fpr = stats.beta.isf(level, false + 1, k - false) if false < k else 1.0
    epsilon = max(math.log((tpr - setting.delta) / fpr), 0.0) if tpr > setting.delta else 0.0
    words = ("Scores are independent given inclusion.", "True epsilon is at least this.", "A test.")
    return Estimate(
        "fixed_threshold", "lower_bound", epsilon, *words, lower=epsilon, valid_for="any mechanism"
    )


@pytest.fixture
def toy():
    register_method(Method("fixed_threshold", fixed_threshold, "lower_bound", "any mechanism"))
    yield "fixed_threshold"
    remove_method("fixed_threshold")


def released(num_canaries=NUM_CANARIES, seed=1):
    rng = np.random.default_rng(seed)
    bits = rng.permutation(np.repeat([0, 1], num_canaries // 2))
    scores = MECHANISM.release(rng, bits)
    return CanaryScores(scores[bits == 1], scores[bits == 0])


def test_pages_print_it_among_the_bounds_that_hold(toy):
    result = estimate(released(200), delta=1e-3)
    made = {"max": made_statistic(estimates=result.estimates)}
    scores = Report(statistics=made, verdict=None, fl_audit_version="1")
    first = "\n".join(summary_lines(scores)).partition("lower bounds that hold if the mechanism")[0]
    assert "valid lower bounds" in first
    assert toy in first
    first_group = next(iter(methods_by_group(made.values()).values()))
    assert first_group == (*valid_methods(),)
    assert toy in first_group


def test_a_verdict_tests_it(toy):
    statistic = ScoredStatistic("max", released())
    assert len(ClaimTests([statistic], 0.95)) == 3
    assert chosen_methods([toy, "one_run"]) == (toy,)
    verdict = reach_verdict(Claim(0.5, CLAIM.delta), ClaimTests([statistic], 0.95, [toy]))
    assert (verdict.outcome, verdict.method, verdict.num_tests) == ("contradicted", toy, 1)
    assert verdict.p_value < 0.05


@pytest.fixture
def of_pairs():
    made = ("of_pairs", fixed_threshold, "lower_bound", "any mechanism")
    register_method(Method(*made, valid_inclusions=("pairs",)))
    yield "of_pairs"
    remove_method("of_pairs")


def test_a_verdict_on_pairs_tests_one_that_is_valid_only_there(of_pairs):
    scores = released(40)
    pairs = ScoredStatistic("max", CanaryScores(scores.included, scores.excluded, "pairs"))
    methods = chosen_methods(None, "pairs")
    assert of_pairs in methods
    assert len(ClaimTests([pairs], 0.95, methods)) == 3
    assert of_pairs in predicted_methods()
    assert of_pairs not in valid_methods("coins")
    verdict = {"claimed_epsilon": 1.0, "verdict_method": of_pairs}
    assert small_config({"canaries": {"inclusion": "pairs"}, "audit": verdict})
    with pytest.raises(InputError, match="not valid for this inclusion: 'of_pairs'"):
        small_config({"audit": verdict})


def test_simulated_power_counts_it(toy):
    half, dim = NUM_CANARIES // 2, 10**12
    ones, twice = np.ones(half), sigma_of_epsilon(2 * CLAIM.epsilon, CLAIM.delta)
    exposure = VectorExposure(ones, ones, dim * twice**2 * ones, 0 * ones, dim)
    audit = SimulatedAudit(
        CLAIM.epsilon,
        PointTests(CLAIM, (toy,), 0.05),
        ScoredStatistic("max", released()),
        exposure,
        least_noise(CLAIM),
        NUM_CANARIES - half,
    )
    power = audit.power_at(1.0)
    runs = 100
    settings = (AuditSetting(released(seed=seed), CLAIM.delta, 0.95) for seed in range(runs))
    exceeding = sum(METHODS[toy](setting).epsilon > CLAIM.epsilon for setting in settings)
    assert 0.05 < power < 0.95  # where a wrong simulation would show
    # 400 trials and 100 audits: five standard deviations, exceeded with probability below 1e-6.
    assert abs(power - exceeding / runs) < 5 * (0.25 / 400 + 0.25 / runs) ** 0.5


def test_once_removed_nothing_has_it(toy):
    assert toy in valid_methods()
    assert toy in predicted_methods()
    remove_method(toy)
    try:
        assert valid_methods() == ("threshold_valid", "one_run_valid")
        assert predicted_methods() == ("shift_fit", *valid_methods(), "gaussian_fit")
        with pytest.raises(InputError, match="unknown method 'fixed_threshold'"):
            estimate(released(200), delta=1e-3, methods=[toy])
    finally:
        register_method(Method(toy, fixed_threshold, "lower_bound", "any mechanism"))
