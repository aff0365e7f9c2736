"""The simulated audits of a verdict or a plan, and their power."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.threat_models import STATISTICS
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu, sigma_of_epsilon
from fl_audit.estimators.trade_off import GaussianTradeOff
from fl_audit.verdict.claim_tests import ClaimTests, ScoredStatistic
from fl_audit.verdict.claims import Claim, CurveClaim, GaussianClaim, NoiseClaim, claimed_noise
from fl_audit.verdict.curve_claim_tests import CurveTests, curve_tests
from fl_audit.verdict.exposure import Background, exposure_of_scores
from fl_audit.verdict.less_noise import (
    LessNoise,
    claimed_mu,
    least_noise,
    stated_noise,
    stated_noise_on_uploads,
)
from fl_audit.verdict.power import (
    AuditTests,
    CurveSum,
    Lengths,
    PointTests,
    Power,
    SimulatedAudit,
)
from fl_audit.verdict.record import Detectable
from fl_audit.verdict.scope import Scope, is_about_sampling, sees_uploads

_EVEN = 0.8
"""Canaries are uneven if one canary's signal is below this share of another canary's."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulated audit and its power.

    Attributes:
      knows_rounds: Whether the rounds of canaries are known; otherwise exposure is estimated from
        scores alone.
    """

    audit: SimulatedAudit
    power: Power
    knows_rounds: bool

    @property
    def statistic(self) -> ScoredStatistic:
        return self.audit.like

    @property
    def is_uneven(self) -> bool:
        """Whether some canaries show much less than others, such as canaries in fewer rounds."""
        shifts = self.audit.exposure.shifts(1.0, 1.0)
        return bool(len(shifts) and shifts.min() < _EVEN * shifts.max())

    def detectable(self, claim: CurveClaim) -> Detectable | None:
        """The smallest violation of a curve contradicted with enough power; None without one."""
        power, tests = self.power, self.audit.tests
        if power.detectable_epsilon is None or power.detectable_factor is None:
            return None
        mu = 1 / sigma_of_epsilon(power.detectable_epsilon, claim.delta)
        claimed, noise = claimed_noise(claim), None
        is_gaussian = isinstance(tests, CurveSum) and isinstance(
            tests.leading.curve, GaussianTradeOff
        )
        if claimed is not None and is_gaussian:
            factor = power.detectable_factor
            noise = self.audit.less_noise.noise(factor) or factor * claimed
        return Detectable(mu, noise)


@dataclass(frozen=True, eq=False)
class Seen:
    """Inputs of the simulation other than the tests."""

    background: Background | None
    lengths: Lengths
    scope: Scope


def simulate(
    claim: Claim | CurveClaim, tests: ClaimTests | CurveTests, seen: Seen
) -> Simulation | None:
    """The simulation of the most powerful statistic; None if scores show no signal.

    The claim's delta must be above 0. For a curve, the leading test is simulated; None if that test
    is by guesses. The most powerful statistic has the smallest detectable epsilon, else the largest
    power; ties go to a statistic that more canaries would help, then to one with known rounds.
    """
    simulated: AuditTests
    if isinstance(tests, ClaimTests):
        simulated, statistics = PointTests(claim, tests.methods, tests.level), tests.statistics
    else:
        leading = tests.tests[0]
        if leading.method != "trade_off_sum":
            return None
        simulated = CurveSum(leading, claimed_mu(claim), leading.sum_test)
        statistics = [leading.statistic]
    if seen.background is not None:
        statistics = _most_powerful(statistics)
    audits = [_simulation(claim, simulated, statistic, seen) for statistic in statistics]
    simulations = [audit for audit in audits if audit is not None]
    if not simulations:
        return None

    def merit(simulation: Simulation) -> tuple[float, float, bool, bool]:
        power = simulation.power
        is_open, knows_rounds = power.hidden is None, simulation.knows_rounds
        return power.detectable_factor or 0.0, power.power, is_open, knows_rounds

    strongest: Simulation = max(simulations, key=merit)
    return strongest


def _most_powerful(statistics: Sequence[ScoredStatistic]) -> Sequence[ScoredStatistic]:
    """The statistics of uploads, else of known rounds, which no other exceeds; else all."""
    uploads = [statistic for statistic in statistics if _sees_uploads(statistic)]
    own = [statistic for statistic in statistics if statistic.name == OWN_ROUNDS.name]
    return uploads or own or statistics


def _sees_uploads(statistic: ScoredStatistic) -> bool:
    known = STATISTICS.get(str(statistic.name))
    return known is not None and sees_uploads(known)


def _simulation(
    claim: Claim | CurveClaim, tests: AuditTests, statistic: ScoredStatistic, seen: Seen
) -> Simulation | None:
    """The simulation by a statistic, from canaries' rounds, else scores; None if impossible."""
    background, exposure, lengths = seen.background, None, seen.lengths
    less = None
    if background is not None:
        less = _stated(claim, statistic, background, seen.scope)
        if less is None:
            less = least_noise(claim, background.client_sensitivity)
            background = background.with_noise(less.noise_multiplier or 0.0)
        exposure = background.exposure(statistic.name)
    knows_rounds = exposure is not None
    if less is None or exposure is None:
        less, lengths = least_noise(claim), Lengths()
        exposure = exposure_of_scores(statistic, claimed_mu(claim))
    if exposure is None:
        return None
    excluded = statistic.scores.num_excluded
    audit = SimulatedAudit(claim.epsilon, tests, statistic, exposure, less, excluded, lengths)
    return Simulation(audit, audit.simulate(), knows_rounds)


def _stated(
    claim: Claim | CurveClaim, statistic: ScoredStatistic, background: Background, scope: Scope
) -> LessNoise | None:
    """Shares of the stated noise; None without stated noise or a finite epsilon."""
    if _sees_uploads(statistic):
        if background.uploads is None:
            return None
        return stated_noise_on_uploads(background.uploads, claim.delta, whom=claim.whom)
    if background.release is None:
        return None
    if isinstance(claim, NoiseClaim):
        z, delta = background.release.noise.sum_noise_multiplier, claim.delta
        return (
            LessNoise(lambda factor: epsilon_of_mu(1 / (factor * z), delta), z, True) if z else None
        )
    known = STATISTICS.get(str(statistic.name))
    sees_rounds = known is not None and not is_about_sampling(known)
    knows = sees_rounds if claim.whom == "canary" else scope.counts_on_sampling is False
    return stated_noise(background.release, claim.delta, whom=claim.whom, knows_rounds=knows)


@dataclass(frozen=True)
class DecidedCurve:
    """The Gaussian curve through a claimed point, and the number of canaries for a decision.

    Attributes:
      canaries: The number with which 80 % of audits contradict the curve if FACTOR times the
        claimed epsilon is the truth.
    """

    mu: float
    canaries: int


def decided_curve(
    claim: Claim | CurveClaim, simulation: Simulation, confidence: float, scope: Scope
) -> DecidedCurve | None:
    """The curve to claim instead of a point; None if no curve applies or is decidable.

    A curve applies if the claim is a point that does not rely on sampling, so that the guarantee of
    noise for a client is a Gaussian curve, and if the null distribution of scores is known. It is
    decidable if at most MOST_CANARIES are needed.
    """
    statistic, audit = simulation.statistic, simulation.audit
    if not isinstance(claim, Claim) or scope.counts_on_sampling is not False:
        return None
    if statistic.null.known_tail() is None or not statistic.scores.num_included:
        return None
    curve = GaussianClaim(claimed_mu(claim), claim.delta)
    leading = curve_tests(curve, [statistic], confidence).tests[0]
    of_curve = CurveSum(leading, curve.mu, leading.sum_test)
    few = dataclasses.replace(audit, tests=of_curve).canaries_needed(audit.twice)
    return None if few is None else DecidedCurve(curve.mu, few)
