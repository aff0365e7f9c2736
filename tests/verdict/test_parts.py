"""Claims that count on sampling, by their noise and their rate; audits are simulated in NumPy."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.accounting import (
    FixedRounds,
    FixedSizeSampling,
    Party,
    PoissonSampling,
    epsilon_at_least,
)
from fl_audit.accounting.noise_distributions import MATRIX
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.checks import CanaryCheck
from fl_audit.estimators import CanaryScores
from fl_audit.estimators.null import GaussianCanaryNull, Null
from fl_audit.verdict import Claim, ClaimTests, ScoredStatistic, reach_verdict
from fl_audit.verdict.by_parts import SampledCanaries, _power_words
from fl_audit.verdict.exposure import Background
from fl_audit.verdict.parts import NoiseTest, Parts, are_testable
from fl_audit.verdict.parts_power import PartsPower
from fl_audit.verdict.scope import Scope
from tests.accounting import releases

DELTA, LEVEL, DIM = 1e-5, 0.025, 10_000
MARGIN = 1.01


@dataclasses.dataclass(frozen=True)
class _Setup:
    """A training, and how many canaries audit it."""

    z: float = 0.8
    q: float = 0.05
    rounds: int = 60
    canaries: int = 600
    crowd: float = 0.0

    @property
    def release(self):
        return releases.release(self.z, PoissonSampling(self.q), rounds=self.rounds)

    @property
    def claim(self):
        return epsilon_at_least(self.release, self.release.client, DELTA, knows_rounds=False)

    def audit(self, random, *, z=None, q=None):
        """An audit by canaries of a training with other noise and another rate than stated."""
        z, q = z or self.z, q or self.q
        present = random.random((self.canaries // 2, self.rounds)) < q
        numbers = present.sum(axis=1)
        numbers = numbers[numbers > 0]
        shift = 1 / math.hypot(z, math.sqrt(self.crowd) * self.z)
        return Parts(
            release=self.release,
            source="stated",
            z=random.normal(size=len(numbers)) + np.sqrt(numbers) * shift,
            numbers=numbers,
            participations=int(numbers.sum()),
            trials=present.size,
            level=LEVEL,
            spent=0.0,
            crowd=self.crowd,
        )

    def power(self, signal=1.0):
        parts = self.audit(np.random.default_rng(1))
        return PartsPower(parts, Claim(self.claim, DELTA), signal)

    def contradicts(self, parts, claimed=None):
        return parts.epsilon_at_least(DELTA, LEVEL) > MARGIN * (claimed or self.claim)


AMPLIFIED = _Setup()


def test_the_noise_test_is_exact_and_nearly_as_good_as_the_best():
    """20,000 sums against the tail: 5 standard errors; the normal test has the least variance."""
    test = NoiseTest(0.8, np.array([1, 2, 4]), np.array([20, 10, 5]))
    numbers = np.repeat(test.numbers, test.canaries)
    random = np.random.default_rng(1)
    z = random.normal(size=(20_000, 35)) + np.sqrt(numbers) / 0.8
    sums = np.array([test.statistic(row, numbers) for row in z])
    tail = test.tail(1 / 0.8)
    for level in (0.5, 0.1, 0.02):
        critical = test.critical_value(0.8, level)
        share, error = float((sums >= critical).mean()), math.sqrt(level / 20_000)
        assert tail[critical] <= level
        assert abs(share - tail[critical]) < 5 * error
    # By Neyman and Pearson no test of 0.8 against 0.6 has more power than sum sqrt(k) z.
    total = numbers.sum()
    best = stats.norm.sf(stats.norm.isf(0.05) - math.sqrt(total) * (1 / 0.6 - 1 / 0.8))
    power = test.power(test.critical_value(0.8, 0.05), 1 / 0.6)
    assert best - 0.03 < power <= best + 1e-6


def test_an_amplified_claim_is_noticed_at_less_than_twice_the_claim():
    detectable = AMPLIFIED.power()
    assert AMPLIFIED.claim == pytest.approx(4.742, abs=1e-3)
    assert AMPLIFIED.claim < detectable.epsilon < 1.6 * AMPLIFIED.claim
    short = AMPLIFIED.power(signal=0.92)
    assert detectable.epsilon < short.epsilon < 2 * AMPLIFIED.claim


def _setups(number, random):
    for _ in range(number):
        yield _Setup(
            z=float(random.uniform(0.5, 2)),
            q=float(random.uniform(0.01, 0.3)),
            rounds=int(random.integers(10, 200)),
            canaries=int(random.integers(40, 1000)),
            crowd=float(random.choice([0.0, 0.5, 5.0])),
        )


@pytest.mark.parametrize("number", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_right_trainings_are_contradicted_at_the_level_at_most(number):
    """At most 2.5 % of 100 on average: nine or more have a chance below 1e-3, by this seed none."""
    random = np.random.default_rng(3)
    found = [setup.contradicts(setup.audit(random)) for setup in _setups(number, random)]
    assert sum(found) <= number * LEVEL


def test_where_no_rate_is_detected_none_is_named():
    setup = _Setup(z=1.0, q=0.95, rounds=2, canaries=80)
    power = setup.power()
    assert power.rate == 1.0
    assert power.epsilon == power._epsilon(power.noise_multiplier, 0.95)
    assert "or less, and no higher rate, in 80 %" in _power_words(power, 1.0)


def test_where_clients_hide_canaries_less_noise_is_not_noticed():
    setup = dataclasses.replace(AMPLIFIED, crowd=400.0)
    assert setup.power().epsilon > 2 * setup.claim


def test_what_can_be_tested_by_parts():
    assert are_testable(AMPLIFIED.release)
    assert are_testable(releases.release(1.0, FixedSizeSampling(10, 200), rounds=20))
    assert not are_testable(releases.release(1.0, FixedRounds(3), rounds=20))
    assert not are_testable(releases.release(1.0, PoissonSampling(1.0), rounds=20))
    placed = dataclasses.replace(AMPLIFIED.release, canary=Party(FixedRounds(1)))
    assert not are_testable(placed)
    assert not are_testable(dataclasses.replace(AMPLIFIED.release, noise=MATRIX.noise(1.0, 1.0)))
    assert not are_testable(dataclasses.replace(AMPLIFIED.release, zeroing="adaptive"))


# The verdict.


def _canaries(release, random, *, z, q, drawn=None):
    """Canaries with standard normal null scores, half of them included."""
    rounds = release.rounds
    number = 600
    present = random.random((number, rounds)) < q if drawn is None else drawn
    included = np.arange(number) % 2 == 0
    own = tuple(np.flatnonzero(row) for row in present)
    counts = present.sum(axis=1)
    scores = (random.normal(size=number) + included * np.sqrt(counts) / z) / math.sqrt(DIM)
    tail = GaussianCanaryNull(DIM)
    statistic = ScoredStatistic(
        "own_rounds",
        CanaryScores(scores[included], scores[~included]),
        Null("closed_form", tail, DIM, source="design"),
    )
    ones = np.ones(rounds)
    background = Background(OwnRounds(own), included, DIM).with_rounds(
        np.arange(rounds), math.sqrt(DIM) * release.noise.noise_multiplier * ones, ones
    )
    noise = release.noise.noise_multiplier * ones
    background = dataclasses.replace(background, noise=noise, release=release)
    return SampledCanaries("stated", statistic, background)


ARRIVED = CanaryCheck("arrived", 1.0, "they did", length=1.0, num_scored=280, num_included=300)
COUNTS = Scope(counts_on_sampling=True)


def _verdict(canaries, claimed, scope=COUNTS):
    tests = ClaimTests([canaries.own], 0.95, ["threshold_valid"])
    return reach_verdict(
        Claim(claimed, DELTA),
        tests,
        scope,
        canary_check=ARRIVED,
        background=canaries.background,
        canaries=canaries,
    )


def test_a_right_claim_is_consistent_by_its_parts():
    release, random = AMPLIFIED.release, np.random.default_rng(5)
    found = _verdict(_canaries(release, random, z=0.8, q=0.05), AMPLIFIED.claim)
    assert (found.outcome, found.basis, found.confidence) == ("consistent", "parts", 0.95)
    assert AMPLIFIED.claim < found.detectable_epsilon < 2 * AMPLIFIED.claim
    own = _canaries(release, np.random.default_rng(5), z=0.8, q=0.05)
    parts = own.parts(COUNTS, DELTA, 0.05)
    by_parts = parts.epsilon_at_least(DELTA, 0.05)
    assert found.epsilon_lower == pytest.approx(by_parts, rel=1e-9)
    assert by_parts < AMPLIFIED.claim
    first, *_, last = found.reason.splitlines()
    assert "nor do its parts, noise and sampling rate: in their own rounds canaries allow" in first
    assert "do not cover a sampler that depends on data" in found.reason
    assert last.startswith("Next: publish")


def test_where_scores_share_the_level_their_p_value_is_of_all_of_it():
    canaries = _canaries(AMPLIFIED.release, np.random.default_rng(5), z=0.8, q=0.05)
    random, null = np.random.default_rng(40), Null("closed_form", GaussianCanaryNull(DIM), DIM)
    scores = random.normal([[4.5], [0.0]], 1, (2, 300)) / math.sqrt(DIM)
    tests = ClaimTests(
        [ScoredStatistic("max", CanaryScores(*scores), null)], 0.95, ["threshold_valid"]
    )
    rest = {"canary_check": ARRIVED, "background": canaries.background, "canaries": canaries}
    # 97.5 % is left for these scores: at the first p-value they just contradict the claim.
    for p_value, is_contradicted in ((0.024, True), (0.026, False)):
        at_p = dataclasses.replace(tests, confidence=1 - p_value)
        claimed = at_p.bounds(DELTA)[0].estimate.epsilon * (1 - 1e-6)
        found = reach_verdict(Claim(claimed, DELTA), tests, COUNTS, **rest)
        assert (found.outcome == "contradicted", found.confidence) == (is_contradicted, 0.95)
        assert found.p_value == pytest.approx(2 * p_value, rel=0.03)
        assert (found.p_value <= 0.05) == is_contradicted
        if is_contradicted:
            said = f"with 95 % confidence (p ≤ {found.p_value:.2g})"
            assert said in found.reason


@pytest.mark.parametrize(
    ("true", "cause"),
    [
        ({"z": 0.4, "q": 0.05}, "find why there is less noise than stated"),
        ({"z": 0.8, "q": 0.1}, "find why clients are sampled more often than stated"),
    ],
)
def test_a_wrong_part_is_named(true, cause):
    random = np.random.default_rng(6)
    found = _verdict(_canaries(AMPLIFIED.release, random, **true), AMPLIFIED.claim)
    assert (found.outcome, found.basis, found.statistic) == ("contradicted", "parts", "own_rounds")
    assert found.epsilon_lower > AMPLIFIED.claim
    assert found.p_value < 0.05
    assert found.reason.splitlines()[0].startswith("The claim is contradicted by its parts, noise")
    assert cause in found.reason.splitlines()[-1]


def _blocks(random, rounds, rate, length=2):
    """Who is sampled comes in so many rounds, one after the other."""
    starts = random.random((600, rounds)) < rate / length
    drawn = np.zeros((600, rounds), bool)
    for later in range(length):
        drawn[:, later:] |= starts[:, : rounds - later]
    return drawn


def _every_tenth(random, rounds, rate):
    """A twentieth of the canaries, on average, in every tenth round."""
    offsets = random.integers(10, size=600)
    often = random.random(600) < 10 * rate
    return often[:, None] & (np.arange(rounds) % 10 == offsets[:, None])


def _together(random, rounds, rate):
    """All canaries in the same round of twenty."""
    return np.repeat((np.arange(rounds) % int(1 / rate) == 0)[None, :], 600, axis=0)


@pytest.mark.parametrize(
    ("sampling", "drawn"),
    [
        (PoissonSampling(0.05), _blocks),
        (FixedSizeSampling(10, 200), _every_tenth),
        (PoissonSampling(0.05), _together),
    ],
)
def test_draws_that_depend_on_each_other_are_never_consistent(sampling, drawn):
    random, rounds = np.random.default_rng(6), AMPLIFIED.release.rounds
    release = releases.release(0.8, sampling, rounds=rounds)
    canaries = _canaries(release, random, z=0.8, q=0.05, drawn=drawn(random, rounds, 0.05))
    found = _verdict(canaries, AMPLIFIED.claim * 1.2)
    assert found.outcome == "inconclusive"
    assert "do not look like independent draws" in found.reason
