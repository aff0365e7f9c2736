"""What a verdict tests, chosen before any score is seen."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fl_audit.attacks.registry import THREAT_MODELS
from fl_audit.attacks.statistic import RunFacts, Statistic
from fl_audit.attacks.statistics import statistics_of
from fl_audit.config import Config
from fl_audit.estimators import CanaryScores, valid_methods
from fl_audit.verdict.claim_tests import ClaimTests, ScoredStatistic, level_of_each


@dataclass(frozen=True)
class ChosenTests:
    """The statistics and methods that a config's audit table selects.

    Attributes:
      statistics: The statistics that are tested.
      methods: Names of the methods that are applied to each of them.
      confidence: The confidence of all bounds together.
    """

    statistics: tuple[Statistic, ...]
    methods: tuple[str, ...]
    confidence: float

    def __len__(self) -> int:
        """Number of tests, m."""
        return len(self.methods) * len(self.statistics)

    @property
    def level(self) -> float:
        """The probability with which each single bound may fail."""
        return level_of_each(self.confidence, len(self))

    def on(self, scores: Mapping[str, CanaryScores], facts: RunFacts) -> ClaimTests:
        """The tests of a run's scores.

        Args:
          scores: The scores of canaries by the name of the statistic.
          facts: What the null laws of the statistics depend on.

        Raises:
          InputError: nothing is chosen.
        """
        return ClaimTests(
            [scored_statistic(s, scores[s.name], facts) for s in self.statistics],
            self.confidence,
            self.methods,
        )


def scored_statistic(
    statistic: Statistic, scores: CanaryScores, facts: RunFacts
) -> ScoredStatistic:
    """Scores with what is known of their null.

    Args:
      statistic: That they are scores on.
      scores: Of the canaries.
      facts: What the null law depends on.
    """
    null = statistic.null(facts)
    return ScoredStatistic(statistic.name, scores, null.kind, facts.dim, null.tail)


def chosen_tests(config: Config, participations: int | None) -> ChosenTests:
    """What a config's audit table lets the verdict test.

    Where sampling decides about a client's rounds, a claim may count on it; then attackers who know
    the rounds are left out, unless nobody else is asked for.

    Args:
      config: The config of the run.
      participations: Rounds that a client takes part in at most; None where sampling decides.
    """
    audit = config.audit
    logged = statistics_of(config.canaries, audit)
    asked = [s for s in logged if audit.verdict_statistic in ("all", s.name)]
    bearing = [s for s in asked if participations is not None or is_about_sampling(s)]
    statistics = bearing or asked
    methods = chosen_methods(None if audit.verdict_method == "all" else (audit.verdict_method,))
    return ChosenTests(tuple(statistics), methods, audit.confidence)


def is_about_sampling(statistic: Statistic) -> bool:
    """Whether what sampling adds to an analytical epsilon holds against a statistic's attacker."""
    model = THREAT_MODELS.get(statistic.threat_model)
    return model is None or model.is_about_sampling


def chosen_methods(names: Collection[str] | None) -> tuple[str, ...]:
    """The valid methods among those that are asked for, in the order of reports.

    Args:
      names: Names of methods, also of such as prove nothing; None takes all.

    >>> chosen_methods(["one_run", "one_run_valid"])
    ('one_run_valid',)
    """
    return tuple(name for name in valid_methods() if names is None or name in names)
