"""The power of an audit by simulation."""

import numpy as np
import pytest

from fl_audit.estimators import (
    METHODS,
    AuditSetting,
    CanaryScores,
    GaussianCanaryNull,
    LargestOfRoundsNull,
    ScaledNull,
    SignCanaryNull,
    valid_methods,
)
from fl_audit.estimators.gaussian.mechanism import sigma_of_epsilon
from fl_audit.estimators.known_mechanisms import gaussian
from fl_audit.estimators.null import Null
from fl_audit.verdict import Claim, ScoredStatistic
from fl_audit.verdict.power import (
    SIMULATED_DIM,
    ArrivedSignal,
    SimulatedAudit,
    hardest,
    standard_null,
)

OF_ONE = GaussianCanaryNull(SIMULATED_DIM)


@pytest.mark.parametrize(
    ("method", "null", "epsilon", "num_canaries"),
    [
        ("threshold_valid", "closed_form", 2.0, 300),
        pytest.param("one_run_valid", "empirical", 2.0, 1500, marks=pytest.mark.slow),
    ],
)
def test_power_is_how_often_bounds_exceed_the_claim(method, null, epsilon, num_canaries):
    claim = Claim(epsilon, 1e-4)
    known = OF_ONE if null == "closed_form" else None
    power = SimulatedAudit(claim, (method,), 0.05, known).simulate(num_canaries).power
    dim = 10**8 if null == "closed_form" else None
    mechanism, rng, runs = gaussian(2 * epsilon, 1e-4, dim), np.random.default_rng(9), 200
    exceeding = 0
    for _ in range(runs):
        bits = rng.permutation(np.repeat([0, 1], num_canaries // 2))
        values = mechanism.release(rng, bits)
        scores = CanaryScores(values[bits == 1], values[bits == 0])
        tail = None if dim is None else GaussianCanaryNull(dim)
        setting = AuditSetting(scores, 1e-4, 0.95, Null(null, tail, dim))
        exceeding += METHODS[method](setting).epsilon > epsilon
    assert 0.05 < power < 0.95  # where a wrong simulation would show
    # Samples of 400 and 200: five standard deviations, exceeded with probability below 1e-6.
    assert abs(power - exceeding / runs) < 5 * (0.25 / 400 + 0.25 / runs) ** 0.5


def test_canaries_needed_have_the_power_and_half_of_them_do_not():
    audit = SimulatedAudit(Claim(3.0, 1e-3), valid_methods(), 0.025, OF_ONE)
    needed = audit.canaries_needed(at_least=100)
    # 30 trials against 400: six deviations of 0.07, and more.
    assert audit.simulate(needed).power > 0.6
    assert audit.simulate(needed // 3).power < 0.75


def test_scores_of_included_canaries_alone_can_be_enough():
    audit = SimulatedAudit(Claim(2.0, 1e-3), valid_methods(), 0.025, OF_ONE, 1.0)
    assert audit.simulate(2000).power > 0.9


def test_a_maximum_of_many_rounds_takes_more_than_one_vector():
    one, hundred = (
        SimulatedAudit(Claim(2.0, 1e-3), ("threshold_valid",), 0.05, null).simulate(500).power
        for null in (OF_ONE, LargestOfRoundsNull(100 * (OF_ONE,)))
    )
    # 400 trials each: a standard error of at most 0.025.
    assert one - hundred > 0.3


def known_by(tail, dim=1000):
    scores = CanaryScores(np.array([0.01, 0.02]), np.array([0.0, -0.01]))
    null = "empirical" if tail or dim is None else "closed_form"
    return ScoredStatistic(None, scores, Null(null, tail, dim))


def test_the_hardest_null_is_an_unknown_one_then_the_heaviest():
    of_one, of_signs = GaussianCanaryNull(1000), SignCanaryNull(1000)
    one, hundred, signs = map(
        known_by, (of_one, LargestOfRoundsNull(100 * (of_one,)), ScaledNull(of_signs, 3.0))
    )
    unknown = known_by(None, None)
    assert hardest([one, unknown, hundred]) == [unknown]
    assert hardest([one, hundred, signs]) == [hundred]
    assert hardest([one, signs]) == [signs]
    assert hardest([one, one]) == [one, one]
    assert standard_null(unknown) is None


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_a_null_in_standard_units_is_the_same_law(scale):
    z = np.array([0.5, 2.0, 6.0])
    for tail in (GaussianCanaryNull(4000), SignCanaryNull(4000)):
        several = LargestOfRoundsNull((tail, tail))
        for distribution in (tail, ScaledNull(tail, scale), several):
            unit = (scale if isinstance(distribution, ScaledNull) else 1.0) / np.sqrt(4000)
            found = standard_null(known_by(distribution, 4000)).log_tail_upper(
                z / np.sqrt(SIMULATED_DIM)
            )
            np.testing.assert_allclose(found, distribution.log_tail_upper(z * unit), rtol=1e-9)


def test_power_counts_what_the_null_law_leaves_unknown():
    claim, mechanism = Claim(2.0, 1e-3), gaussian(4.0, 1e-3, 10**6)
    exact, any_family = (
        SimulatedAudit(claim, ("threshold_valid",), 0.05, standard_null(known_by(tail, 10**6)))
        for tail in (GaussianCanaryNull(10**6), None)
    )
    power = any_family.simulate(1000).power
    assert exact.simulate(1000).power > 0.98
    assert 0.05 < power < 0.5
    rng, bits, exceeding = np.random.default_rng(5), np.repeat([0, 1], 500), 0
    for _ in range(100):
        values = mechanism.release(rng, bits)
        scores = CanaryScores(values[bits == 1], values[bits == 0])
        setting = AuditSetting(scores, 1e-3, 0.95, Null("closed_form", dim=10**6))
        exceeding += METHODS["threshold_valid"](setting).epsilon > claim.epsilon
    # 400 and 100 samples: five standard deviations, exceeded with probability below 1e-6.
    assert abs(power - exceeding / 100) < 5 * (0.25 / 400 + 0.25 / 100) ** 0.5


def audits_of(claim, null, num_canaries, shown):
    return SimulatedAudit(claim, ("threshold_valid",), 0.05, null, arrived=shown).simulate(
        num_canaries
    )


def contradicted(claim, null, epsilon, shares, audits):
    """The share of audits, made by other random numbers, whose bound exceeds the claim."""
    signal, exceeding = 1 / sigma_of_epsilon(epsilon, claim.delta), 0
    tail = None if null is None else GaussianCanaryNull(10**6)
    for seed in range(audits):
        values = np.random.default_rng((5, seed)).standard_normal((2, len(shares)))
        scores = CanaryScores((values[0] + signal * shares) / 1000, values[1] / 1000)
        setting = AuditSetting(scores, claim.delta, 0.95, Null(tail=tail, dim=10**6))
        exceeding += METHODS["threshold_valid"].rejects(setting, claim.epsilon)
    return exceeding / audits


def both_ways(num_included, shown):
    """As much as arrives, spread over all scored canaries, or all of it on some of them."""
    scored = round(shown.canaries * num_included)
    shorter, fewer = np.zeros(num_included), np.zeros(num_included)
    shorter[:scored], fewer[: round(shown.signal * scored)] = shown.signal, 1.0
    return shorter, fewer


@pytest.mark.parametrize(
    ("null", "epsilon", "num_canaries", "signal", "canaries"),
    [
        (OF_ONE, 3.14, 400, 0.7, 0.8),
        *(
            pytest.param(*values, marks=pytest.mark.slow)
            for values in [
                (OF_ONE, 3.14, 400, 1.0, 1.0),
                (OF_ONE, 1.0, 2000, 0.6, 0.6),
                (OF_ONE, 1.0, 2000, 1.0, 0.6),
                (OF_ONE, 8.0, 300, 0.6, 1.0),
                (OF_ONE, 3.14, 60, 0.9, 0.9),
                (None, 2.0, 2000, 0.8, 0.8),
            ]
        ),
    ],
)
def test_of_audits_with_the_detectable_epsilon_four_of_five_contradict(
    null, epsilon, num_canaries, signal, canaries
):
    claim, shown = Claim(epsilon, 1e-3), ArrivedSignal(signal, canaries)
    detectable = audits_of(claim, null, num_canaries, shown).detectable_epsilon
    assert detectable > epsilon
    shares = contradicted_in_both_ways(claim, null, num_canaries, detectable, shown)
    # The less of both ways is 80 %; 400 simulated audits and 200 real ones: a deviation of 0.035.
    assert 0.72 <= min(shares) <= 0.88


def contradicted_in_both_ways(claim, null, num_canaries, epsilon, shown):
    return [
        contradicted(claim, null, epsilon, shares, audits=200)
        for shares in both_ways(num_canaries // 2, shown)
    ]


def test_what_is_missing_is_detected_later():
    claim = Claim(3.14, 1e-3)
    found = [
        audits_of(claim, OF_ONE, 400, ArrivedSignal(*shown)).detectable_epsilon
        for shown in ((1.0, 1.0), (1.0, 0.7), (0.7, 1.0), (0.7, 0.7))
    ]
    assert found[0] < found[1] < found[2] < found[3]
    assert audits_of(claim, OF_ONE, 400, ArrivedSignal(0.0)).detectable_epsilon is None
    assert audits_of(claim, None, 20, ArrivedSignal()).detectable_epsilon is None


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_detectable_epsilon_is_within_the_factor_where_the_power_is_enough(epsilon):
    for num_canaries in (60, 300, 1500):
        made = SimulatedAudit(Claim(epsilon, 1e-3), valid_methods(), 0.025, OF_ONE).simulate(
            num_canaries
        )
        assert made.is_enough == (made.detectable_epsilon <= 2 * epsilon)
