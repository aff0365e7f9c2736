"""What is said of a claimed curve, on scores of mechanisms that are known."""

import dataclasses
import json
import math
import types

import dp_accounting
import dp_accounting.pld
import numpy as np
import pytest
from scipy import stats

from fl_audit.accounting.release import (
    Denominator,
    Noise,
    Party,
    Release,
    effective_noise_multiplier,
)
from fl_audit.accounting.sampling import FixedRounds, OneRoundPerBlock
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.threat_models import STATISTICS
from fl_audit.checks import CanaryCheck
from fl_audit.config_tables.audit import Audit
from fl_audit.errors import InputError
from fl_audit.estimators import CanaryScores, GaussianCanaryNull
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu, sigma_of_epsilon
from fl_audit.estimators.null import EMPIRICAL, Null
from fl_audit.estimators.trade_off import GaussianTradeOff
from fl_audit.number_words import upper_bound_text
from fl_audit.verdict import (
    Claim,
    ConfiguredClaim,
    GaussianClaim,
    NoiseClaim,
    ProfileClaim,
    ScoredStatistic,
    ZeroConcentratedClaim,
    curve_tests,
    reach_verdict,
)
from fl_audit.verdict.claims import (
    LARGEST_EPSILON,
    claim_from_json,
    claim_to_json,
    claim_to_test,
    configured_claim,
)
from fl_audit.verdict.exposure import Background
from fl_audit.verdict.less_noise import stated_noise
from fl_audit.verdict.scope import Scope
from fl_audit.verdict.sentences import detectable_words, less_than_claimed, more_power
from tests.gaussian_profile import delta_of_mu

DELTA, DIM = 1e-5, 10**9
ARRIVED = CanaryCheck("arrived", 1.0, "they are there")


def scored(mu, num_canaries, seed, name="own_rounds", null=None):
    """Cosines of canaries in a mechanism that shifts them by mu standard deviations."""
    rng = np.random.default_rng(seed)
    coins = rng.random(num_canaries) < 0.5
    scores = (rng.standard_normal(num_canaries) + mu * coins) / math.sqrt(DIM)
    null = null or Null("closed_form", GaussianCanaryNull(DIM), DIM)
    return ScoredStatistic(name, CanaryScores(scores[coins], scores[~coins]), null)


def verdict_on(claim, statistics, confidence=0.95, canary_check=ARRIVED, **rest):
    tests = curve_tests(claim, statistics, confidence)
    return reach_verdict(claim, tests, canary_check=canary_check, **rest)


def contradicts(claim, statistics, confidence=0.95):
    """Whether the verdict would be that; without what it would say of its power else."""
    tests = [(one.p_value, one.level) for one in curve_tests(claim, statistics, confidence).tests]
    return any(p <= level for p, level in tests)


CLAIMS = [
    lambda mu: GaussianClaim(mu, DELTA),
    lambda mu: NoiseClaim(1 / mu, DELTA),
    lambda mu: ZeroConcentratedClaim(mu * mu / 2, DELTA),
    lambda mu: ProfileClaim.of_deltas(
        lambda at: [max(delta_of_mu(mu, one), 0) for one in at], DELTA
    ),
]
KINDS = ["gdp", "noise", "zcdp", "profile"]
SAMPLED_KINDS = [
    pytest.param(claim, id=kind, marks=[pytest.mark.slow] if kind in ("noise", "zcdp") else [])
    for claim, kind in zip(CLAIMS, KINDS, strict=True)
]
"""Of every kind, for what takes many audits; a claim of noise is one of its Gaussian curve."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("claim", SAMPLED_KINDS)
def test_a_true_claim_is_contradicted_as_rarely_as_the_confidence_says(claim):
    claimed = claim(1.0)
    contradicted = sum(
        contradicts(claimed, [scored(1.0, 100, seed), scored(0.0, 100, seed, "max")], 0.9)
        for seed in range(40)
    )
    assert contradicted <= stats.binom.isf(1e-6, 40, 0.1)


def test_a_contradiction_says_how_little_noise_there_is_at_most():
    verdict = verdict_on(NoiseClaim(1.0, DELTA), [scored(2.0, 1000, seed=1)])
    assert verdict.outcome == "contradicted"
    assert "noise multiplier of 0.5" in verdict.reason
    assert "or less, instead of the claimed 1" in verdict.reason
    assert epsilon_of_mu(1.7, DELTA) < verdict.epsilon_lower < epsilon_of_mu(2.0, DELTA)
    assert verdict.p_value < 1e-6


def test_upper_bounds_on_noise_are_rounded_up_and_what_is_noticed_down():
    said = less_than_claimed(NoiseClaim(1.0, DELTA), 0.4131, 1.0)
    assert said == "a noise multiplier of 0.414 or less, instead of the claimed 1"
    assert "of 0.266 or less" in detectable_words(4.0, noise_multiplier=0.2668)


@pytest.mark.parametrize(
    ("noise", "scope", "outcome"),
    [
        (1.0, Scope(unfit="canaries are sampled otherwise"), "consistent"),
        (0.4, Scope(unfit="canaries are sampled otherwise"), "contradicted"),
        (1.0, Scope(not_covered="a client may be in 7 rounds"), "consistent"),
        (1.0, Scope(left_out="no canary was in 7 rounds"), "inconclusive"),
    ],
)
def test_a_claim_of_noise_is_about_canaries_whatever_clients_do(noise, scope, outcome):
    verdict = verdict_on(NoiseClaim(1.0, DELTA), [scored(1 / noise, 400, 5)], scope=scope)
    assert verdict.outcome == outcome
    assert outcome == "contradicted" or "for a canary in one round" in verdict.reason


@pytest.mark.parametrize(
    ("mu", "num_canaries"),
    [(3.0, 60), *(pytest.param(mu, 2000, marks=pytest.mark.slow) for mu in (0.3, 3.0))],
)
def test_what_is_called_detectable_is_detected_in_80_percent_of_audits(mu, num_canaries):
    claim = GaussianClaim(mu, DELTA)
    made = verdict_on(claim, [scored(mu, num_canaries, seed=3)])
    assert made.detectable.mu > mu
    assert made.detectable_epsilon == pytest.approx(epsilon_of_mu(made.detectable.mu, DELTA))
    seen = sum(
        contradicts(claim, [scored(made.detectable.mu, num_canaries, 100 + seed)])
        for seed in range(80)
    )
    # At least 80 %, as canaries are taken to show a standard error less than they do.
    assert seen / 80 >= 0.7


def test_where_canaries_say_nothing_of_clients_nothing_is_said():
    unfit = Scope(unfit="canaries take part more often than clients")
    verdict = verdict_on(GaussianClaim(0.5, DELTA), [scored(3.0, 1000, 5)], scope=unfit)
    assert verdict.outcome == "inconclusive"
    assert verdict.p_value is None


def test_scores_of_unknown_null_are_tested_by_guesses():
    unknown = [scored(3.0, 1000, 5, null=EMPIRICAL)]
    contradicted = verdict_on(GaussianClaim(0.5, DELTA), unknown)
    assert (contradicted.outcome, contradicted.method) == ("contradicted", "trade_off_guesses")
    silent = verdict_on(GaussianClaim(5.0, DELTA), unknown)
    assert silent.outcome == "inconclusive"
    assert "null distribution" in silent.reason


def test_a_dim_that_only_somebody_says_proves_nothing_where_no_canary_left_a_trace():
    told = Null("closed_form", GaussianCanaryNull(4 * DIM), 4 * DIM, source="argument")
    verdict = verdict_on(GaussianClaim(0.1, DELTA), [scored(0.0, 2000, 7, null=told)])
    assert verdict.outcome != "contradicted"


@pytest.mark.parametrize(
    "claim",
    [
        Claim(2.0, DELTA),
        GaussianClaim(0.5, DELTA),
        ZeroConcentratedClaim(0.1, DELTA),
        NoiseClaim(0.8, DELTA),
        ProfileClaim(((0.5, 0.1), (2.0, 1e-6)), DELTA),
        ConfiguredClaim(0.3, 15.2, DELTA, is_stated=False),
    ],
    ids=lambda claim: claim.kind,
)
def test_a_claim_is_read_back(claim):
    written = claim_to_json(claim)
    again = claim_from_json(json.loads(json.dumps(written)))
    assert (again.words, claim_to_json(again)) == (claim.words, written)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GaussianClaim(0.0, DELTA), "claimed mu must be above 0"),
        (lambda: GaussianClaim(0.5, 0.0), "needs a delta above 0"),
        (lambda: GaussianClaim(40.0, DELTA), "at most 300"),
        (lambda: ZeroConcentratedClaim(math.inf, DELTA), "above 0 and finite"),
        (lambda: NoiseClaim(0.01, DELTA), "at most 300"),
        (lambda: ProfileClaim((), DELTA), "1 to 1000 points, got 0"),
        (lambda: ProfileClaim(((1.0, 0.1), (-1.0, 0.1)), DELTA), "point 2: needs an epsilon"),
        (lambda: ProfileClaim(((1.0, math.nan),), DELTA), "point 1: needs an epsilon"),
        (lambda: ProfileClaim(((1.0, 0.5),), DELTA), "at most 300"),
        (lambda: ProfileClaim(((1.0, 1e-6),), 0.0), "needs a delta above 0"),
        (lambda: curve_tests(GaussianClaim(1.0, DELTA), [scored(1, 9, 1)], 0.4), "at least 0.5"),
    ],
)
def test_claims_out_of_range_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


# The profile of an accountant.


def test_the_profile_of_a_gaussian_is_next_to_its_curve_and_never_below():
    claim = CLAIMS[3](1.0)
    assert claim.epsilon == pytest.approx(epsilon_of_mu(1.0, DELTA), rel=0.01)
    rates = np.log([1e-9, 1e-4, 0.01, 0.3, 0.9])
    found, exact = claim.curve(None).log_power(rates), GaussianTradeOff(1.0).log_power(rates)
    assert np.all(found >= exact)
    assert found == pytest.approx(exact, abs=0.02)


def test_an_event_is_noise_rounds_and_sampling():
    once = dp_accounting.PoissonSampledDpEvent(0.2, dp_accounting.GaussianDpEvent(3.0))
    event = dp_accounting.SelfComposedDpEvent(once, 20)
    claim = ProfileClaim.of_event(event, DELTA)
    accountant = dp_accounting.pld.PLDAccountant().compose(event)
    assert claim.epsilon == pytest.approx(accountant.get_epsilon(DELTA), rel=0.01)
    rate, all_rounds = np.log([1e-3]), GaussianTradeOff(math.sqrt(20) / 3.0)
    assert claim.curve("max").log_power(rate) < all_rounds.log_power(rate)


# What is configured.


def release(noise=0.3, participations=1, distribution="gaussian", zeroing="none"):
    canary = Party(OneRoundPerBlock(participations, ((50, participations),)))
    on_sum = 1.01 * noise  # the rest of the budget is the count's
    count = 0.5 / math.sqrt(noise**-2 - on_sum**-2) if noise else 0.0
    return Release(
        rounds=50 * participations,
        noise=Noise(distribution, noise, on_sum, count),
        denominator=Denominator("expected_cohort", 20.0),
        client=Party(FixedRounds(7)),
        canary=canary,
        zeroing=zeroing,
    )


ALL = [STATISTICS[name] for name in ("own_rounds", "max", "sum", "final")]


def test_each_attacker_is_held_to_the_curve_of_what_it_knows():
    claim = configured_claim(release(), DELTA, ALL, is_stated=True)
    assert claim.curve("own_rounds") == GaussianTradeOff(1 / (1.01 * 0.3))
    rate = np.log([1e-3])
    hidden, known = claim.curve("max"), GaussianTradeOff(1 / 0.3)
    assert hidden.log_power(rate) < known.log_power(rate)
    assert claim.epsilon == pytest.approx(epsilon_of_mu(1 / 0.3, DELTA), rel=1e-6)
    assert claim.curve("a statistic from elsewhere") is None
    assert NoiseClaim(0.8, DELTA).curve("max") == GaussianTradeOff(1.25)


@pytest.mark.parametrize("names", [["max"], ["own_rounds"], ["own_rounds", "max"]])
def test_the_configured_noise_is_stated_against_the_attacker_whose_power_is_simulated(names):
    sampled = Party(PoissonSampling(0.05))
    made = dataclasses.replace(release(0.8), rounds=60, client=sampled, canary=sampled)
    claim = configured_claim(made, DELTA, [STATISTICS[name] for name in names], is_stated=True)
    knows_rounds = "own_rounds" in names
    known = stated_noise(made, DELTA, whom="canary", knows_rounds=knows_rounds)
    assert known.factor(claim.epsilon) == pytest.approx(1.0, rel=1e-3)
    assert (claim.epsilon > 10) == knows_rounds


@pytest.mark.parametrize("kind", ["configured", "noise"])
def test_noise_on_counts_hides_no_canary_of_one_round(kind):
    """Noise of 1 on sums and of 1 on counts, with which the multiplier is 0.894."""
    made = release(effective_noise_multiplier(1.0, 1.0))
    noise = Noise("gaussian", made.noise.noise_multiplier, 1.0, 1.0)
    made = dataclasses.replace(made.with_noise(noise), canary=Party(FixedRounds(1)))
    own = STATISTICS["own_rounds"]
    claim = NoiseClaim(1.0, DELTA)
    if kind == "configured":
        claim = configured_claim(made, DELTA, [own], is_stated=True)

    def whole(on_sum):
        return effective_noise_multiplier(on_sum, 1.0 if kind == "configured" else 0.0)

    wrong = scored(2.0, 400, 5)
    bound = curve_tests(claim, [wrong], 0.95).tests[0].mu_lower_bound
    said = f"of {upper_bound_text(whole(1 / bound))} or less, instead of the {kind[:5]}"
    if kind == "noise":
        said = said.replace("noise", "claim")
    assert said in verdict_on(claim, [wrong]).reason

    right = scored(1.0, 400, 6)
    rounds, included = np.arange(50), np.arange(400) < right.scores.num_included
    of_canaries = OwnRounds(tuple(np.array([canary % 50]) for canary in range(400)))
    background = Background(of_canaries, included, DIM, release=made)
    lengths = np.ones(50)
    background = background.with_rounds(rounds, math.sqrt(DIM) * lengths, lengths)
    found = verdict_on(claim, [right], background=background.with_noise(1.0))
    seen = found.detectable.noise_multiplier
    # By Neyman and Pearson no test at 4 % of n deviates, of mean 1 / f and not 1, has more power.
    distance = (stats.norm.isf(0.04) + stats.norm.isf(0.2)) / math.sqrt(right.scores.num_included)
    assert seen == pytest.approx(whole(1 / (1 + distance)), abs=0.015)


def test_the_curve_through_the_largest_claimed_epsilon_is_a_claim():
    for delta in (1e-12, DELTA, 0.3):
        claim = GaussianClaim(1 / sigma_of_epsilon(LARGEST_EPSILON, delta), delta)
        assert claim.epsilon == pytest.approx(LARGEST_EPSILON)


@pytest.mark.parametrize("unknown", [release(noise=0.0), release(distribution="skellam")])
def test_what_guarantees_nothing_that_is_known_is_no_claim(unknown):
    assert configured_claim(unknown, DELTA, ALL, is_stated=False) is None
    assert claim_to_test(Audit(), unknown, DELTA, ALL) is None
    with pytest.raises(InputError, match=r"no curve with a finite epsilon .*`audit\.claimed_ep"):
        claim_to_test(Audit(claim="configured"), unknown, DELTA, ALL)


@pytest.mark.parametrize(
    ("audit", "kind"),
    [
        (Audit(), "configured"),
        (Audit(claim="configured"), "configured"),
        (Audit(claimed_epsilon=2.0), "epsilon_delta"),
        (Audit(claimed_mu=0.5), "gdp"),
        (Audit(claimed_rho=0.5), "zcdp"),
        (Audit(claimed_profile=((0.5, 0.1), (2.0, 1e-6))), "profile"),
        (Audit(claim="none"), None),
    ],
)
def test_the_claim_of_a_config(audit, kind):
    made = claim_to_test(audit, release(), DELTA, ALL)
    assert (None if made is None else made.kind) == kind
    assert made is None or made.is_stated == (audit != Audit())


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"claimed_epsilon": 1.0, "claimed_mu": 1.0}, "claimed_epsilon and claimed_mu exclude"),
        ({"claim": "none", "claimed_rho": 1.0}, "claimed_rho and claim exclude"),
        ({"claimed_profile": ((1.0, 2.0),)}, "point 1: needs an epsilon"),
        ({"verdict_statistic": "max"}, "needs a claim"),
        ({"claimed_mu": 1.0, "verdict_method": "one_run_valid"}, "needs claimed_epsilon"),
        ({"claim": "configured", "confidence": 0.3}, "at least 0.5"),
        ({"claim": "none", "stop_when_contradicted": True}, "needs"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, words):
    with pytest.raises(ValueError, match=words):
        Audit(**keys)


@pytest.mark.parametrize(
    ("claim", "step"),
    [
        (Claim(5.0, 1e-5), "claim a larger ε"),
        (GaussianClaim(2.0, 1e-5), "claim a weaker guarantee"),
    ],
)
def test_the_last_step_speaks_of_what_is_claimed(claim, step):
    """An audit with all rounds and the noise, that no number of canaries helps."""
    audit = types.SimpleNamespace(
        num_canaries=100,
        tests=types.SimpleNamespace(number=1),
        less_noise=types.SimpleNamespace(is_stated=True),
    )
    simulation = types.SimpleNamespace(
        audit=audit,
        power=types.SimpleNamespace(hidden=None),
        statistic=types.SimpleNamespace(name="own_rounds"),
        knows_rounds=True,
        is_uneven=False,
    )
    said = more_power(claim, simulation, None, Scope(), names=["own_rounds"], decided=None)
    assert said.endswith(step)


# A point, and the Gaussian curve through it.


@pytest.mark.parametrize(("rho", "delta"), [(1e-8, 1e-9), (1e-4, 1e-3), (2.0, 1e-9)])
def test_a_zcdp_claim_takes_the_smaller_of_both_conversions(rho, delta):
    # Bun & Steinke 2016, proposition 1.3; a Gaussian mechanism of this rho is below any conversion.
    epsilon = ZeroConcentratedClaim(rho, delta).epsilon
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert epsilon >= epsilon_of_mu(math.sqrt(2 * rho), delta)


@pytest.mark.parametrize(
    ("points", "note"),
    [
        (((0.0, 0.3), (1.23, 1e-5), (2.0, 1e-7)), ""),
        (((1.2, 1e-5), (2.0, 1.05e-7)), "; a point has only two digits"),
        (((1.2, 1e-5), (2.0, 1.1e-7)), "; 2 points have only two digits"),
    ],
)
def test_a_profile_of_few_digits_says_that_it_must_have_been_rounded_up(points, note):
    words = ProfileClaim(points, 1e-5).words
    assert ("only two digits, and must have been rounded up" in words) == bool(note)
    assert note in words
