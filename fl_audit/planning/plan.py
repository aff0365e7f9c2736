"""The whole plan of a run; nothing is trained."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from fl_audit.accounting import Accounting, account
from fl_audit.attacks.statistics import Statistic
from fl_audit.attacks.threat_models import statistics_of
from fl_audit.config import Config
from fl_audit.errors import InputError
from fl_audit.json_records import to_json
from fl_audit.planning import prediction
from fl_audit.planning.cost import AccuracyCost, Cost, accuracy_cost, measure_cost
from fl_audit.planning.planned_patterns import PatternPair, pattern_pairs
from fl_audit.planning.planned_power import (
    ClaimPower,
    CurvePower,
    PlannedEfficiency,
    claim_power,
    curve_power,
    planned_efficiency,
)
from fl_audit.planning.planned_run import PlannedRun, check_covered, plan_run
from fl_audit.progress import doing
from fl_audit.tasks.facts import load_task_facts

LEAST_TRIALS = 3
"""The smallest number of simulated runs that gives an interval."""

_TRIALS = 39
"""The smallest number of trials whose range contains a new value with probability 95 %."""

_FEW_TRIALS = 19
"""The number of trials of variants, claims and slow predictions; the probability is then 90 %."""

_FEWEST_TRIALS = 9
"""The number of trials of slow variants and claims, and for finding the strongest statistic."""

_MANY_CANARIES = 10_000
"""With more canaries than this, trials are slow, because estimators sort the scores."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The expected outcome of a run before it is trained.

    Statistics other than the strongest, variants, and predictions at `ENDS`
    (predicted_background.py) are simulated only at first use.

    Attributes:
      run: The run as determined by its config.
      trials: Number of simulated runs at `MIDDLE` and at each of `ENDS`.
      variant_trials: Number of simulated runs of each variant.
      strongest: The statistic with the largest expected lower bound.
      middle: The epsilons of the strongest statistic in simulated runs at `MIDDLE`.
      not_predicted: Names of the run's statistics whose scores are not simulated.
      power: Power against the config's claimed epsilon; None without one.
      detectable: The detectable violation of a claimed curve, or of the configured noise; None if
        an epsilon is claimed, or if no curve can be tested and accounting contradicts none.
      cost: The cost of the audit.
      accuracy: Effect of canaries on the model.
      accounting: The analytical epsilon.
      patterns: The numbers of canaries needed to distinguish arms or other patterns; empty with one
        pattern.
    """

    run: PlannedRun
    trials: int
    variant_trials: int
    strongest: Statistic
    middle: prediction.Samples
    not_predicted: tuple[str, ...]
    power: ClaimPower | None
    detectable: CurvePower | None
    cost: Cost
    accuracy: AccuracyCost
    accounting: Accounting
    patterns: tuple[PatternPair, ...] = ()

    @functools.cached_property
    def _every(self) -> tuple[Sequence[Statistic], prediction.Samples]:
        """All predicted statistics, and their epsilons in simulated runs at `MIDDLE`."""
        statistics = prediction.predicted_statistics(self.run.config)
        others = [statistic for statistic in statistics if statistic is not self.strongest]
        return statistics, {
            **self.middle,
            **prediction.sample_middle(self.run, self.trials, others),
        }

    @functools.cached_property
    def predictions(self) -> tuple[prediction.StatisticPrediction, ...]:
        """The prediction for each statistic."""
        statistics, middle = self._every
        return prediction.predict(self.run, self.trials, middle, statistics)

    @functools.cached_property
    def efficiency(self) -> tuple[PlannedEfficiency, ...]:
        """The lower bound of each statistic, and its limits."""
        statistics, middle = self._every
        return planned_efficiency(self.run, middle, statistics)

    @functools.cached_property
    def variants(self) -> tuple[prediction.Variant, ...]:
        """Predictions with one key of the config changed."""
        return prediction.variants(self.run, self.variant_trials)

    def of_strongest(self) -> tuple[prediction.StatisticPrediction, PlannedEfficiency]:
        """The prediction and the efficiency of the strongest statistic."""
        (predicted,) = prediction.predict(self.run, self.trials, self.middle, [self.strongest])
        (efficiency,) = planned_efficiency(self.run, self.middle, [self.strongest])
        return predicted, efficiency

    def to_json(self) -> dict[str, object]:
        """The JSON object that `fl-audit plan --json` prints."""
        run = self.run
        return {
            "task": run.task.name,
            "dim": run.task.dim,
            "num_clients": len(run.task.client_ids),
            "rounds": run.num_rounds,
            "num_canaries": run.num_canaries,
            "num_included": int(run.included.sum()),
            "noise_multiplier": run.noise.noise_multiplier,
            "delta": run.delta,
            "cohorts_of_seed": run.draws_anew,
            "confidence": run.config.audit.confidence,
            "trials": self.trials,
            "coverage": prediction.coverage(self.trials),
            "statistics": {p.statistic.name: to_json(p) for p in self.predictions},
            "not_predicted": list(self.not_predicted),
            "efficiency": {each.statistic: to_json(each) for each in self.efficiency},
            "variant_trials": self.variant_trials,
            "variants": to_json(self.variants),
            "power": to_json(self.power),
            "detectable": to_json(self.detectable),
            "patterns": to_json(self.patterns),
            "cost": to_json(self.cost),
            "accuracy": to_json(self.accuracy),
            "analytical": {
                party: to_json(getattr(self.accounting, party).epsilon)
                for party in ("client", "canary")
            },
        }


def make_plan(
    config: Config, trials: int | None = None, others: Sequence[tuple[str, Config]] = ()
) -> Plan:
    """Plans a run without training it; writes nothing.

    Args:
      config: The config of the run.
      trials: Number of runs to simulate at `MIDDLE` and at each of `ENDS`; by default 39, or 19 if
        trials are slow.
      others: Configs of the same task with other participation patterns, each after a label.

    Raises:
      InputError: There are too few trials, a plan does not cover the config, or the config's parts
        do not fit together.
    """
    if trials is not None and trials < LEAST_TRIALS:
        raise InputError(f"--trials {trials}: must be at least {LEAST_TRIALS}")
    check_covered(config)
    predicted = prediction.predicted_statistics(config)
    with doing("loading the task"):
        run = plan_run(config, load_task_facts(config.task, config.seed))
    with doing("simulating patterns"):
        task = run.task
        patterns = pattern_pairs(run, [(label, plan_run(other, task)) for label, other in others])
    takes_long = run.num_canaries > _MANY_CANARIES
    few = min(trials or _TRIALS, _FEWEST_TRIALS if takes_long else _FEW_TRIALS)
    trials = trials or (_FEW_TRIALS if takes_long else _TRIALS)
    logged = [statistic.name for statistic in statistics_of(config.canaries, config.audit)]
    with doing(f"simulating {trials} audits"):
        statistic = prediction.strongest(run, min(trials, _FEWEST_TRIALS))
        middle = prediction.sample_middle(run, trials, [statistic])
    with doing("simulating audits of wrong claims"):
        power, detectable = claim_power(run, few), curve_power(run)
    with doing("accounting, and timing the scores of a round"):
        return Plan(
            run=run,
            trials=trials,
            variant_trials=few,
            strongest=statistic,
            middle=middle,
            not_predicted=tuple(n for n in logged if n not in {s.name for s in predicted}),
            power=power,
            detectable=detectable,
            cost=measure_cost(run),
            accuracy=accuracy_cost(run),
            accounting=account(run.release, run.delta),
            patterns=patterns,
        )
