"""How good a planned audit would be: its efficiency, and its power against the config's claim.

Efficiency is what it would prove, could prove at most, and what is guaranteed. Power is the chance
that it contradicts its claim with noise as configured, halved, or absent.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fl_audit.accounting import (
    AttackerBound,
    Release,
    attacker_bounds,
    canaries_to_prove,
    reachable_bound,
)
from fl_audit.attacks.statistics import Statistic
from fl_audit.canaries.tables import coin_probability
from fl_audit.config import Config
from fl_audit.errors import InputError
from fl_audit.estimators import valid_methods
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu, sigma_of_epsilon
from fl_audit.json_records import UNWRITTEN, fields_to_json, json_key, to_json
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.prediction import (
    Samples,
    median_of,
    predicted_statistics,
    simulated_trials,
)
from fl_audit.planning.simulation import ENDS, MIDDLE, TrialScores, Unknowns
from fl_audit.verdict import (
    ChosenTests,
    Claim,
    ScoredStatistic,
    chosen_tests,
    curve_tests,
    scored_statistic,
)
from fl_audit.verdict.claims import CurveClaim, bound_against, claim_to_json, claim_to_test
from fl_audit.verdict.curve_claim_tests import UNSTATED_CONFIDENCE, CurveTest
from fl_audit.verdict.curve_power import (
    SumPower,
    included_needed,
    with_less_noise,
)
from fl_audit.verdict.power import (
    FACTOR,
    ArrivedSignal,
    RepeatedTests,
    SimulatedAudit,
    hardest,
    standard_null,
)
from fl_audit.verdict.record import Detectable
from fl_audit.verdict.scope import why_unfit
from fl_audit.verdict.sentences import curve_detectable_words

_SHARES = (0.8, 0.95)


@dataclass(frozen=True)
class PlannedEfficiency:
    """The numbers of one statistic.

    Attributes:
      statistic: Name of the statistic.
      lower_bound: The largest median of the bounds that hold for any mechanism, in the middle of
        the unknowns; None without any.
      reachable: The median bound of the best single threshold, were it known in advance, with these
        canaries; None where that is not known.
      upper_bound: What the noise guarantees a canary against the statistic's attacker, possibly
        infinite; None where nothing is known.
      canaries_for_80_percent: Number of canaries, half of them included, with which the best test
        proves 80 % of the guarantee; None where no number is known.
      canaries_for_95_percent: The same for 95 %.
    """

    statistic: str = field(metadata=UNWRITTEN)
    lower_bound: float | None = field(metadata=json_key("proven"))
    reachable: float | None = field(metadata=json_key("provable"))
    upper_bound: float | None = field(metadata=json_key("guaranteed"))
    canaries_for_80_percent: int | None
    canaries_for_95_percent: int | None


def planned_efficiency(run: PlannedRun, middle: Samples) -> tuple[PlannedEfficiency, ...]:
    """The numbers of each predicted statistic.

    Args:
      run: The planned run.
      middle: The epsilons of simulated runs in the middle of the unknowns.
    """
    release = run.release
    bounds = attacker_bounds(release, release.canary, run.delta)
    statistics = predicted_statistics(run.config)
    against = [bound_against(bounds, statistic) for statistic in statistics]
    needed = {id(bound): _needed(bound, run) for bound in against}
    return tuple(
        _statistic_efficiency(statistic, middle, run, bound, needed[id(bound)])
        for statistic, bound in zip(statistics, against, strict=True)
    )


def _needed(bound: AttackerBound, run: PlannedRun) -> list[int | None]:
    confidence = run.config.audit.confidence
    return [canaries_to_prove(bound, share, run.delta, confidence) for share in _SHARES]


def _statistic_efficiency(
    statistic: Statistic,
    middle: Samples,
    run: PlannedRun,
    bound: AttackerBound,
    needed: list[int | None],
) -> PlannedEfficiency:
    confidence = run.config.audit.confidence
    reachable = reachable_bound(bound, int(run.included.sum()), run.delta, confidence)
    keys = [(statistic.name, method) for method in valid_methods()]
    medians = [median_of(middle[key]) for key in keys if key in middle]
    return PlannedEfficiency(
        statistic.name,
        max(medians, default=None),
        None if reachable is None else reachable.epsilon,
        bound.guarantee.epsilon,
        *needed,
    )


# Power.


_FAULTS = (1.0, 0.5, 0.0)
"""Factors of the noise on the sum: what is really added, over what the config asks for."""


@dataclass(frozen=True)
class FaultPower:
    """Share of simulated runs that contradict the claim.

    Attributes:
      noise_factor: Noise on the sum that is really added, over what the config asks for.
      contradicted: Share in the middle of the unknowns.
      lowest: Smallest share over the range of the unknowns.
      highest: Largest share over the range of the unknowns.
    """

    noise_factor: float
    contradicted: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class ClaimPower:
    """The power of an audit to contradict its config's claim.

    Attributes:
      claim: The claim of the config.
      num_tests: Number of bounds that the verdict makes together.
      unfit: Why the canaries do not bear on the claim, whatever they show; None where they do.
      faults: Power by the noise that is really added; one entry where the config adds no noise.
      ideal_epsilon: The epsilon of the ideal audits' mechanism, FACTOR times the claimed one.
      ideal_power: Share of ideal audits of a mechanism with that epsilon that contradict the claim,
        as the verdict simulates them.
      detectable_epsilon: The smallest true epsilon of which ENOUGH_POWER of ideal audits contradict
        the claim; None where there is none.
      canaries_needed: Number of canaries that gives ENOUGH_POWER to ideal audits: the config's own
        number where it is enough; None where no number that was tried is enough.
    """

    claim: Claim
    num_tests: int
    unfit: str | None
    faults: tuple[FaultPower, ...]
    ideal_epsilon: float
    ideal_power: float
    detectable_epsilon: float | None
    canaries_needed: int | None

    def to_json(self) -> dict[str, object]:
        """The JSON object that a plan has under `power`."""
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


@dataclass(frozen=True)
class NeededCanaries:
    """How many canaries it takes to notice a violation of a claimed curve.

    Attributes:
      epsilon: The epsilon that is true, at the delta of the claim.
      noise_factor: The noise over the least with which the claim is true; None where the violation
        is FACTOR times the claimed epsilon.
      canaries: The number with which 80 % of audits contradict the claim, where canaries show their
        whole signal; None where no number that was tried is enough.
    """

    epsilon: float
    noise_factor: float | None
    canaries: int | None

    @property
    def words(self) -> str:
        """The number and the violation, in words."""
        number = "none" if self.canaries is None else f"{self.canaries:,}"
        if self.noise_factor is None:
            return f"{number} for {FACTOR:g} times the claimed ε"
        return f"{number} for {100 * (1 - self.noise_factor):.3g} % less noise"


@dataclass(frozen=True)
class CurvePower:
    """What a planned audit of a claimed curve would notice.

    Attributes:
      claim: The claim; the configured noise where nobody claims anything.
      detectable: The smallest violation that 80 % of audits would contradict, where canaries show
        their whole signal; None where there is none.
      needed: How many canaries some violations take, the largest violation first.
    """

    claim: CurveClaim
    detectable: Detectable | None
    needed: tuple[NeededCanaries, ...]

    def to_json(self) -> dict[str, object]:
        """The JSON object that a plan has under `detectable`."""
        detectable = self.detectable
        of_mu = None if detectable is None else epsilon_of_mu(detectable.mu, self.claim.delta)
        return {
            "claim": claim_to_json(self.claim),
            "mu": None if detectable is None else detectable.mu,
            "noise_multiplier": None if detectable is None else detectable.noise_multiplier,
            "epsilon": of_mu,
            "canaries_needed": to_json(self.needed),
        }

    @property
    def words(self) -> str:
        """The detectable violation and the canaries needed, in a clause."""
        contradicted = curve_detectable_words(self.claim, self.detectable)
        takes = [need.words for need in self.needed if need.canaries is not None]
        return f"{contradicted}; canaries needed: {', '.join(takes)}" if takes else contradicted


def curve_power(run: PlannedRun, release: Release) -> CurvePower | None:
    """What the verdict would notice of a claimed curve, or of the configured noise.

    Args:
      run: The planned run.
      release: What the run will release.

    Returns:
      None where the claim is a point, no curve is known, or a null distribution is not.
    """
    audit, statistics = run.config.audit, predicted_statistics(run.config)
    claim = claim_to_test(audit, release, run.delta, statistics)
    if claim is None or isinstance(claim, Claim) or not run.num_canaries:
        return None
    (trial,) = simulated_trials(run, MIDDLE, 1)
    confidence = audit.confidence if claim.is_stated else UNSTATED_CONFIDENCE
    tests = curve_tests(claim, _scored(run, statistics, trial), confidence)
    if not tests.tests or tests.tests[0].method != "trade_off_sum":
        return None
    leading = tests.tests[0]
    detectable = SumPower.for_test(leading, ArrivedSignal()).detectable_in(tests)
    share = coin_probability(run.config.canaries)
    return CurvePower(claim, detectable, tuple(_needed_for(claim, leading, share)))


_NOISE_FACTORS = (0.9, 0.95)


def _needed_for(
    claim: CurveClaim, leading: CurveTest, included_share: float
) -> Iterator[NeededCanaries]:
    """How many canaries FACTOR times the claimed epsilon takes, and some less noise."""
    twice = FACTOR * claim.epsilon
    violations: list[tuple[float | None, float | None]]
    violations = [(None, 1 / sigma_of_epsilon(twice, claim.delta))]
    violations += [(factor, with_less_noise(claim, leading, factor)) for factor in _NOISE_FACTORS]
    for factor, mu in violations:
        if mu is not None:
            included = included_needed(leading, mu, ArrivedSignal())
            canaries = None if included is None else math.ceil(included / included_share)
            yield NeededCanaries(epsilon_of_mu(mu, claim.delta), factor, canaries)


def claim_power(run: PlannedRun, release: Release, trials: int) -> ClaimPower | None:
    """Simulates the verdict on the config's claim; None where it claims nothing.

    Args:
      run: The planned run.
      release: What the run will release.
      trials: Number of simulated runs at every point of the range of the unknowns.

    Raises:
      InputError: The verdict tests no statistic that is simulated.
    """
    audit = run.config.audit
    if audit.claimed_epsilon is None:
        return None
    claim = Claim(audit.claimed_epsilon, run.delta)
    chosen = chosen_tests(run.config, release.client.participations)
    statistics = _simulated(run.config, chosen)
    tests = RepeatedTests(claim, chosen.methods, chosen.level)
    simulated = _SimulatedTests(statistics, tests)
    (trial,) = simulated_trials(run, MIDDLE, 1)
    hard = hardest(_scored(run, statistics, trial))
    ideal = SimulatedAudit(claim, chosen.methods, chosen.level, standard_null(hard[0]))
    outcome = ideal.simulate(run.num_canaries)
    factors = _FAULTS if run.noise.sum_noise_multiplier else _FAULTS[:1]
    return ClaimPower(
        claim=claim,
        num_tests=len(chosen),
        unfit=why_unfit(release),
        faults=tuple(_fault_power(run, factor, simulated, trials) for factor in factors),
        ideal_epsilon=FACTOR * claim.epsilon,
        ideal_power=outcome.power,
        detectable_epsilon=outcome.detectable_epsilon,
        canaries_needed=(
            run.num_canaries
            if outcome.is_enough
            else ideal.canaries_needed(run.num_canaries, outcome.detectable_epsilon)
        ),
    )


@dataclass(frozen=True, eq=False)
class _SimulatedTests:
    """The verdict's tests on the statistics that are simulated.

    Attributes:
      statistics: The statistics that are both tested and simulated.
      tests: What is tested on each of them.
    """

    statistics: Sequence[Statistic]
    tests: RepeatedTests

    def contradict(self, run: PlannedRun, trial: TrialScores) -> bool:
        """Whether any lower bound exceeds the claim."""
        return bool(self.tests.contradict(_scored(run, self.statistics, trial)).any())


def _scored(
    run: PlannedRun, statistics: Sequence[Statistic], trial: TrialScores
) -> list[ScoredStatistic]:
    facts = run.null_facts(trial.compared)
    return [scored_statistic(s, trial.scores[s.name], facts) for s in statistics]


def _simulated(config: Config, chosen: ChosenTests) -> list[Statistic]:
    """The statistics that are both tested and simulated.

    Raises:
      InputError: No statistic is both.
    """
    statistics = [s for s in predicted_statistics(config) if s in chosen.statistics]
    if not statistics:
        statistic = config.audit.verdict_statistic
        raise InputError(f"audit.verdict_statistic: a plan does not cover {statistic!r}")
    return statistics


def _fault_power(
    run: PlannedRun, factor: float, simulated: _SimulatedTests, trials: int
) -> FaultPower:
    noise = dataclasses.replace(
        run.noise, sum_noise_multiplier=factor * run.noise.sum_noise_multiplier
    )
    faulty = dataclasses.replace(run, noise=noise)
    middle = _share(faulty, MIDDLE, simulated, trials)
    shares = [middle, *(_share(faulty, unknowns, simulated, trials) for unknowns in ENDS)]
    return FaultPower(factor, middle, min(shares), max(shares))


def _share(run: PlannedRun, unknowns: Unknowns, simulated: _SimulatedTests, trials: int) -> float:
    samples = simulated_trials(run, unknowns, trials)
    return sum(simulated.contradict(run, trial) for trial in samples) / trials
