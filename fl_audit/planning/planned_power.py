"""The efficiency of a planned audit, and its power against the config's claim.

Efficiency compares the audit's lower bound with the reachable bound and with the upper bound. Power
is the probability that the audit contradicts the claim, with the noise as configured, halved, or
absent.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fl_audit.accounting import (
    attacker_bounds,
    canaries_to_prove,
    reachable_bound,
)
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.statistics import Statistic
from fl_audit.config import Config
from fl_audit.errors import InputError
from fl_audit.estimators import valid_methods
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.json_records import UNWRITTEN, fields_to_json, json_key, to_json
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.predicted_background import ENDS, MIDDLE, predicted_background, seen_of_plan
from fl_audit.planning.prediction import (
    Samples,
    median_of,
    predicted_statistics,
    simulated_audits,
)
from fl_audit.verdict import (
    Background,
    ChosenTests,
    Claim,
    ClaimTests,
    ScoredStatistic,
    chosen_tests,
    curve_tests,
)
from fl_audit.verdict.accounting_basis import accounted_of_run, given_instead
from fl_audit.verdict.by_parts import SHARE, expected_parts
from fl_audit.verdict.chosen_tests import shared_confidence
from fl_audit.verdict.claims import (
    ConfiguredClaim,
    CurveClaim,
    bound_against,
    claim_to_json,
    claim_to_test,
)
from fl_audit.verdict.curve_claim_tests import UNSTATED_CONFIDENCE
from fl_audit.verdict.parts_power import PartsPower
from fl_audit.verdict.power import FACTOR, SimulatedAudit
from fl_audit.verdict.record import Detectable
from fl_audit.verdict.scope import Scope, without_cover
from fl_audit.verdict.sentences import IN_SIMULATIONS, detectable_words
from fl_audit.verdict.simulation import Seen, Simulation, simulate

_SHARES = (0.8, 0.95)


@dataclass(frozen=True)
class PlannedEfficiency:
    """Lower, reachable and upper bound of one statistic, and the canaries needed.

    Attributes:
      lower_bound: The largest of the medians of bounds that hold for any mechanism, in runs
        simulated at `MIDDLE`; None without any.
      reachable: The median bound of the best single threshold, chosen in advance, with these
        canaries; None if unknown.
      upper_bound: The upper bound for a canary against the statistic's attacker, possibly infinite;
        None if unknown.
      canaries_for_80_percent: Number of canaries, half of them included, with which the best test
        reaches 80 % of the upper bound; None if unknown or too large.
    """

    statistic: str = field(metadata=UNWRITTEN)
    lower_bound: float | None = field(metadata=json_key("proven"))
    reachable: float | None = field(metadata=json_key("provable"))
    upper_bound: float | None = field(metadata=json_key("guaranteed"))
    canaries_for_80_percent: int | None
    canaries_for_95_percent: int | None


def planned_efficiency(
    run: PlannedRun, middle: Samples, statistics: Sequence[Statistic]
) -> tuple[PlannedEfficiency, ...]:
    release, delta, confidence = run.release, run.delta, run.config.audit.confidence
    bounds = attacker_bounds(release, release.canary, delta)
    needed = functools.cache(
        lambda bound: [canaries_to_prove(bound, share, delta, confidence) for share in _SHARES]
    )

    def efficiency(statistic: Statistic) -> PlannedEfficiency:
        bound = bound_against(bounds, statistic)
        reachable = reachable_bound(bound, int(run.included.sum()), delta, confidence)
        keys = [(statistic.name, method) for method in valid_methods()]
        return PlannedEfficiency(
            statistic.name,
            max((median_of(middle[key]) for key in keys if key in middle), default=None),
            None if reachable is None else reachable.epsilon,
            bound.guarantee.epsilon,
            *needed(bound),
        )

    return tuple(map(efficiency, statistics))


# Power.


_FAULTS = (1.0, 0.5, 0.0)
"""The simulated values of the actual noise on the sum, divided by the configured noise."""


@dataclass(frozen=True)
class FaultPower:
    """Share of simulated audits that contradict the claim, with one amount of noise.

    Attributes:
      noise_factor: The actual noise on the sum, divided by the configured noise.
      contradicted: The share at `MIDDLE`.
      lowest: The smallest share at `MIDDLE` and `ENDS`.
      highest: The largest share at `MIDDLE` and `ENDS`.
    """

    noise_factor: float
    contradicted: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class ClaimPower:
    """The power of an audit to contradict its config's claim.

    Attributes:
      unfit: Why the canaries say nothing about the claim; None if they can test it.
      faults: Power by the actual noise; one entry if the config adds no noise.
      num_canaries: The config's number of canaries.
      simulation: The simulated tests by scores; None if the claim does not cover their attackers.
      parts: The power of tests of the claim's parts, noise and sampling, if the claim relies on
        sampling and both can be tested; else None.
      accounting: The accounted epsilon, in words, if it contradicts the claim; else None.
    """

    claim: Claim
    num_tests: int
    unfit: str | None
    faults: tuple[FaultPower, ...]
    num_canaries: int
    simulation: Simulation | None
    parts: PartsPower | None = None
    accounting: str | None = None

    @property
    def ideal_epsilon(self) -> float:
        return FACTOR * self.claim.epsilon

    @property
    def ideal_power(self) -> float:
        """Share of audits whose scores contradict the claim if `ideal_epsilon` is the truth."""
        return 0.0 if self.simulation is None else self.simulation.power.power

    @property
    def detectable_epsilon(self) -> float | None:
        """The smallest true epsilon that ENOUGH_POWER of audits notice; None without one."""
        by_scores = None if self.simulation is None else self.simulation.power.detectable_epsilon
        if self.parts is None or math.isinf(self.parts.epsilon):
            return by_scores
        return self.parts.epsilon if by_scores is None else min(by_scores, self.parts.epsilon)

    @functools.cached_property
    def canaries_needed(self) -> int | None:
        """Number of canaries (by parts, of included canaries) with ENOUGH_POWER at `ideal_epsilon`.

        The config's number of canaries if that is enough; None if no number tried is enough.
        """
        simulation, parts = self.simulation, self.parts
        by_scores = simulation is not None and simulation.power.is_enough
        if by_scores or (parts is not None and parts.is_enough):
            return self.num_canaries
        if parts is not None:
            return parts.canaries_needed()
        if simulation is None:
            return None
        return simulation.audit.canaries_needed(simulation.audit.twice, above=self.num_canaries)

    def to_json(self) -> dict[str, object]:
        """The JSON object under `power` of a plan."""
        return {
            "claim": fields_to_json(self.claim),
            "num_looks": self.num_tests,
            "unfit": self.unfit,
            "faults": to_json(self.faults),
            "ideal_epsilon": self.ideal_epsilon,
            "ideal_power": self.ideal_power,
            "detectable_epsilon": self.detectable_epsilon,
            "canaries_needed": self.canaries_needed,
        }


def claim_power(run: PlannedRun, trials: int) -> ClaimPower | None:
    """Simulates the verdict on a claimed epsilon; None if no epsilon is claimed."""
    audit, release = run.config.audit, run.release
    if audit.claimed_epsilon is None:
        return None
    claim = Claim(audit.claimed_epsilon, run.delta)
    chosen = chosen_tests(run.config, release.client.participations)
    seen = seen_of_plan(run, MIDDLE, chosen.statistics)
    scope = _tested_scope(seen.scope, chosen.statistics)
    is_tested = scope is seen.scope
    parts = _parts(run.config, chosen, claim, seen, SHARE if is_tested else 1.0)
    simulation = None
    if is_tested:
        share = 1.0 if parts is None else 1 - SHARE
        simulation = _simulation_of(run, claim, chosen, share, seen)
    factors = _FAULTS if run.noise.sum_noise_multiplier else _FAULTS[:1]
    given = given_instead(claim, accounted_of_run(release, seen.scope))
    if given is not None:  # contradicted, whatever canaries show
        faults = [FaultPower(factor, 1.0, 1.0, 1.0) for factor in factors]
    else:
        faults = [FaultPower(factor, 0.0, 0.0, 0.0) for factor in factors]
        if simulation is not None:
            ends = [_like(simulation, predicted_background(run, unknowns)) for unknowns in ENDS]
            faults = [_fault_power(factor, simulation.audit, ends, trials) for factor in factors]
        if parts is not None:
            faults = [_with_parts(fault, parts) for fault in faults]
    return ClaimPower(
        claim=claim,
        num_tests=len(chosen.methods) * len(chosen.statistics),
        unfit=None if parts is not None else scope.unfit,
        faults=tuple(faults),
        num_canaries=run.num_canaries,
        simulation=simulation,
        parts=parts,
        accounting=given,
    )


def _tested_scope(scope: Scope, statistics: Sequence[Statistic]) -> Scope:
    """The scope, marked as unfit if the claim does not cover the attackers of some statistics."""
    names = [statistic.name for statistic in statistics]
    return scope if all(map(scope.covers, names)) else without_cover(scope, names)


def _simulation_of(
    run: PlannedRun, claim: Claim, chosen: ChosenTests, share: float, seen: Seen
) -> Simulation:
    """The simulated tests by scores, with a share of the level."""
    statistics = [s for s in predicted_statistics(run.config) if s in chosen.statistics]
    if not statistics:
        statistic = run.config.audit.verdict_statistic
        raise InputError(f"audit.verdict_statistic: a plan does not cover {statistic!r}")
    # The level is divided among all tests, also on statistics that are not simulated.
    share *= len(statistics) / len(chosen.statistics)
    confidence = 1 - share * (1 - chosen.confidence)
    tests = ClaimTests(_scored(run, statistics, seen), confidence, chosen.methods)
    simulation = simulate(claim, tests, seen)
    if simulation is None:
        raise InputError(f"audit.claimed_epsilon: no power can be simulated for {run.task.name}")
    return simulation


def _like(simulation: Simulation, background: Background) -> SimulatedAudit:
    """The simulated audit with another background."""
    exposure = background.exposure(simulation.statistic.name)
    return dataclasses.replace(simulation.audit, exposure=exposure or simulation.audit.exposure)


def _parts(
    config: Config, chosen: ChosenTests, claim: Claim, seen: Seen, share: float
) -> PartsPower | None:
    """The power of tests of the claim's parts, with a share of the level; None without tests."""
    is_scored = OWN_ROUNDS in chosen.asked and config.canaries.inclusion != "pairs"
    if seen.background is None or not is_scored:
        return None
    level = share * (1 - shared_confidence(config.audit))
    parts = expected_parts(seen.background, "configured", seen.scope, level)
    return None if parts is None else PartsPower(parts, claim)


def _with_parts(fault: FaultPower, parts: PartsPower) -> FaultPower:
    """The power by scores, or by parts where that is larger."""
    share = round(parts.at(fault.noise_factor), 4)
    shares = (fault.contradicted, fault.lowest, fault.highest)
    return FaultPower(fault.noise_factor, *(max(share, each) for each in shares))


def _fault_power(
    factor: float, middle: SimulatedAudit, ends: Sequence[SimulatedAudit], trials: int
) -> FaultPower:
    share = middle.power_at(factor)
    shares = [share, *(audit.power_at(factor, trials) for audit in ends)]
    return FaultPower(factor, share, min(shares), max(shares))


def _scored(run: PlannedRun, statistics: Sequence[Statistic], seen: Seen) -> list[ScoredStatistic]:
    """The scores of one simulated run, for constructing a verdict's tests."""
    background = seen.background
    if background is None:
        return []
    return [next(simulated_audits(run, background, statistic, 1)) for statistic in statistics]


@dataclass(frozen=True)
class NeededCanaries:
    """The number of canaries needed to detect a violation of a claimed curve.

    Attributes:
      noise_factor: The noise of the violation, divided by the least noise with which the claim is
        true; None if the violation is FACTOR times the claimed epsilon.
      canaries: The number with which 80 % of audits contradict the claim; None if no number tried
        is enough.
    """

    epsilon: float
    noise_factor: float | None
    canaries: int | None

    @property
    def words(self) -> str:
        number = "none" if self.canaries is None else f"{self.canaries:,}"
        if self.noise_factor is None:
            return f"{number} for {FACTOR:g} times the claimed ε"
        return f"{number} for {100 * (1 - self.noise_factor):.3g} % less noise"


@dataclass(frozen=True)
class CurvePower:
    """The smallest violation of a claimed curve that a planned audit would detect, if any.

    `needed` has the numbers of canaries for some violations, the largest violation first; `unfit`
    says why canaries say nothing about the claim, and is None if they can test it. `accounting` is
    the accounted value, in words, if it contradicts the claim; else None.
    """

    claim: CurveClaim
    detectable: Detectable | None
    needed: tuple[NeededCanaries, ...]
    unfit: str | None = None
    accounting: str | None = None

    def to_json(self) -> dict[str, object]:
        """The JSON object under `detectable` of a plan."""
        detectable = self.detectable
        return {
            "claim": claim_to_json(self.claim),
            "mu": None if detectable is None else detectable.mu,
            "noise_multiplier": None if detectable is None else detectable.noise_multiplier,
            "epsilon": self.epsilon,
            "canaries_needed": to_json(self.needed),
            **({} if self.accounting is None else {"accounting": self.accounting}),
        }

    @property
    def epsilon(self) -> float | None:
        """The detectable epsilon at the claim's delta."""
        found = self.detectable
        return None if found is None else epsilon_of_mu(found.mu, self.claim.delta)

    @property
    def words(self) -> str:
        """The detectable violation and the canaries needed, in a clause."""
        if self.unfit is not None:
            return f"no verdict either way: {self.unfit}"
        noise = None if self.detectable is None else self.detectable.noise_multiplier
        noticed = f"{detectable_words(self.epsilon, noise_multiplier=noise)} {IN_SIMULATIONS}"
        takes = [need.words for need in self.needed if need.canaries is not None]
        return f"{noticed}; canaries needed: {', '.join(takes)}" if takes else noticed


def curve_power(run: PlannedRun) -> CurvePower | None:
    """The detectable violation of a claimed curve or configured noise.

    None without a simulation, unless accounting contradicts the claim.
    """
    config, release, predicted = run.config, run.release, predicted_statistics(run.config)
    chosen = chosen_tests(config, release.client.participations)
    claim = claim_to_test(config.audit, release, run.delta, chosen.asked)
    if claim is None or isinstance(claim, Claim) or not run.num_canaries:
        return None
    seen, tested = seen_of_plan(run, MIDDLE, chosen.statistics), chosen.asked
    given = None
    if not isinstance(claim, ConfiguredClaim):  # which is for a canary, against every attacker
        given = given_instead(claim, accounted_of_run(release, seen.scope))
        unfit = _tested_scope(seen.scope, chosen.statistics).unfit
        if unfit is not None:
            return CurvePower(claim, None, (), unfit, given)
        tested = chosen.statistics
    statistics = [statistic for statistic in predicted if statistic in tested]
    confidence = chosen.confidence if claim.is_stated else UNSTATED_CONFIDENCE
    tests = curve_tests(claim, _scored(run, statistics, seen), confidence)
    simulation = simulate(claim, tests, seen) if tests.tests else None
    if simulation is None:
        return None if given is None else CurvePower(claim, None, (), accounting=given)
    needed = tuple(_needed_for(claim, simulation.audit))
    return CurvePower(claim, simulation.detectable(claim), needed, accounting=given)


_NOISE_FACTORS = (0.9, 0.95)


def _needed_for(claim: CurveClaim, audit: SimulatedAudit) -> Iterator[NeededCanaries]:
    """The numbers of canaries for FACTOR times the claimed epsilon, and for some reduced noise."""
    least = audit.less_noise.factor(claim.epsilon)
    yield NeededCanaries(FACTOR * claim.epsilon, None, audit.canaries_needed(audit.twice))
    for factor in _NOISE_FACTORS:
        epsilon = audit.less_noise.epsilon(factor * least)
        yield NeededCanaries(epsilon, factor, audit.canaries_needed(factor * least))
