"""How likely an audit would contradict its claim, were the noise as configured, half, or absent."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fl_audit.accounting.analytical import NoisyRounds
from fl_audit.attacks.statistic import RunFacts, Statistic
from fl_audit.attacks.statistics import statistics_of
from fl_audit.errors import InputError
from fl_audit.estimators import CanaryScores
from fl_audit.estimators.setting import Null
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.prediction import predicted_statistics, simulated_trials
from fl_audit.planning.unknowns import ENDS, MIDDLE, Unknowns
from fl_audit.report.run_verdict import why_unfit
from fl_audit.verdict import VALID_METHODS, Claim
from fl_audit.verdict.evidence import Look
from fl_audit.verdict.evidence import Statistic as Scored
from fl_audit.verdict.one_run_region import OneRunRegion, one_run_region
from fl_audit.verdict.power import ENOUGH_POWER, FACTOR, SimulatedAudit

_FAULTS = (1.0, 0.5, 0.0)
"""Noise on the sum that is really added, over what the config asks for."""


@dataclass(frozen=True)
class FaultPower:
    """Share of simulated runs that contradict the claim.

    Attributes:
      noise_factor: noise on the sum that is really added, over what the config asks for.
      contradicted: share in the middle of the unknowns.
      lowest: smallest share over the range of the unknowns.
      highest: largest share.
    """

    noise_factor: float
    contradicted: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class ClaimPower:
    """What an audit could say of its config's claim.

    Attributes:
      claim: of the config.
      num_looks: bounds that the verdict looks at together.
      unfit: why the canaries do not bear on the claim, whatever they show; None where they do.
      faults: by noise that is really added; one row where the config asks for none.
      ideal_epsilon: FACTOR times the claim.
      ideal_power: share of ideal audits of a mechanism with that epsilon that contradict the claim,
        as the verdict simulates them.
      canaries_needed: for ENOUGH_POWER of them: the config's own number where it is enough; None
        where no number that was tried is.
    """

    claim: Claim
    num_looks: int
    unfit: str | None
    faults: tuple[FaultPower, ...]
    ideal_epsilon: float
    ideal_power: float
    canaries_needed: int | None

    def to_json(self) -> dict[str, object]:
        """The JSON object."""
        return dataclasses.asdict(self)


def claim_power(run: PlannedRun, rounds: NoisyRounds, trials: int) -> ClaimPower | None:
    """Simulates the verdict on the config's claim; None where it claims nothing.

    Args:
      run: the planned run.
      rounds: as its record would have them.
      trials: at every point of the range of the unknowns.

    Raises:
      InputError: the verdict looks at no statistic that is simulated.
    """
    audit = run.config.audit
    if audit.claimed_epsilon is None:
        return None
    claim = Claim(audit.claimed_epsilon, run.delta)
    test = _Test.of(run, claim)
    ideal = SimulatedAudit(claim, test.methods, test.level, test.hardest_null)
    power = ideal.power(run.num_canaries)
    is_enough = power >= ENOUGH_POWER
    factors = _FAULTS if run.noise.sum_noise_multiplier else _FAULTS[:1]
    return ClaimPower(
        claim=claim,
        num_looks=test.num_looks,
        unfit=why_unfit(rounds),
        faults=tuple(_fault_power(run, factor, test, trials) for factor in factors),
        ideal_epsilon=FACTOR * claim.epsilon,
        ideal_power=power,
        canaries_needed=(
            run.num_canaries if is_enough else ideal.canaries_needed(at_least=run.num_canaries)
        ),
    )


@dataclass(frozen=True, eq=False)
class _Test:
    """What the verdict looks at, as far as it is simulated.

    Attributes:
      claim: to contradict.
      statistics: looked at and simulated.
      methods: looked at.
      num_looks: methods times statistics looked at, simulated or not.
      confidence: of all of them together.
      region: of the guesses by which `one_run_valid` rejects the claim.
      facts: what null laws depend on.
    """

    claim: Claim
    statistics: Sequence[Statistic]
    methods: tuple[str, ...]
    num_looks: int
    confidence: float
    region: OneRunRegion
    facts: RunFacts

    @classmethod
    def of(cls, run: PlannedRun, claim: Claim) -> "_Test":
        audit = run.config.audit
        chosen = audit.verdict_statistic
        logged = statistics_of(run.config.canaries, audit)
        looked_at = [s for s in logged if chosen in ("all", s.name)]
        statistics = [s for s in predicted_statistics(run.config) if s in looked_at]
        if not statistics:
            raise InputError(f"audit.verdict_statistic: a plan does not cover {chosen!r}")
        methods = VALID_METHODS if audit.verdict_method == "all" else (audit.verdict_method,)
        num_looks = len(methods) * len(looked_at)
        level = (1 - audit.confidence) / num_looks
        region = (
            one_run_region(claim, run.num_canaries, level)
            if "one_run_valid" in methods
            else OneRunRegion(None)
        )
        facts = run.null_facts
        return cls(claim, statistics, tuple(methods), num_looks, audit.confidence, region, facts)

    @property
    def level(self) -> float:
        """The probability with which each single bound may fail."""
        return (1 - self.confidence) / self.num_looks

    @property
    def hardest_null(self) -> Null:
        """As the verdict simulates it: a statistic whose null law is unknown, if there is one."""
        nulls = {statistic.null(self.facts).kind for statistic in self.statistics}
        return "empirical" if "empirical" in nulls else "closed_form"

    def contradicts(self, scores: Mapping[str, CanaryScores]) -> bool:
        """Whether any bound exceeds the claim."""
        return any(
            self.region.rejects(scores[s.name])
            or self._threshold_rejects(
                Scored(s.name, scores[s.name], s.null(self.facts).kind, self.facts.dim)
            )
            for s in self.statistics
        )

    def _threshold_rejects(self, scored: Scored) -> bool:
        look = Look("threshold_valid", scored)
        return "threshold_valid" in self.methods and look.rejects(
            self.claim.epsilon, self.claim.delta, self.level
        )


def _fault_power(run: PlannedRun, factor: float, test: _Test, trials: int) -> FaultPower:
    noise = dataclasses.replace(
        run.noise, sum_noise_multiplier=factor * run.noise.sum_noise_multiplier
    )
    faulty = dataclasses.replace(run, noise=noise)
    middle = _share(faulty, MIDDLE, test, trials)
    shares = [middle, *(_share(faulty, unknowns, test, trials) for unknowns in ENDS)]
    return FaultPower(factor, middle, min(shares), max(shares))


def _share(run: PlannedRun, unknowns: Unknowns, test: _Test, trials: int) -> float:
    found = (test.contradicts(s) for s in simulated_trials(run, unknowns, trials))
    return sum(found) / trials
