"""The tests of a verdict, chosen before any score is seen."""

from collections.abc import Collection
from dataclasses import dataclass

from fl_audit.attacks.statistics import RunFacts, Statistic
from fl_audit.attacks.threat_models import statistics_of
from fl_audit.config import Config
from fl_audit.config.design import RunDesign
from fl_audit.config_tables.audit import Audit
from fl_audit.estimators import CanaryScores, valid_methods
from fl_audit.estimators.scores import Inclusion
from fl_audit.verdict.claim_tests import ScoredStatistic
from fl_audit.verdict.claims import claim_to_test
from fl_audit.verdict.scope import is_about_sampling, sees_uploads


@dataclass(frozen=True)
class ChosenTests:
    """The statistics and methods that a config's audit table selects.

    Attributes:
      asked: The statistics that the table selects, also those that a claim does not cover.
      statistics: The tested statistics among them.
      methods: Names of the methods that are applied to each statistic.
      confidence: The confidence of all bounds together.
    """

    asked: tuple[Statistic, ...]
    statistics: tuple[Statistic, ...]
    methods: tuple[str, ...]
    confidence: float


def shared_confidence(audit: Audit) -> float:
    """The confidence of the live test, and also of all final tests together.

    A run that stops when its claim is contradicted is tested in both ways, each with half of the
    level, so that the audit as a whole has the configured confidence (Bonferroni).
    """
    share = 0.5 if audit.stop_when_contradicted else 1.0
    return 1 - share * (1 - audit.confidence)


def scored_statistic(
    statistic: Statistic, scores: CanaryScores, facts: RunFacts
) -> ScoredStatistic:
    """Joins scores with their null distribution."""
    return ScoredStatistic(statistic.name, scores, statistic.null(facts))


def chosen_tests(config: Config, participations: int | None) -> ChosenTests:
    """The tests that a config's audit table selects for the verdict.

    If the rounds of a client are sampled, a claim may rely on that. Statistics of attackers who
    know the rounds are then left out, unless no other statistic is selected. A claim counts as one
    about sums, or about uploads if only a statistic of uploads is selected. `participations` is the
    largest number of rounds of a client; None if a client's rounds are secret or unknown.
    """
    audit = config.audit
    logged = statistics_of(config.canaries, audit)
    asked = tuple(s for s in logged if audit.verdict_statistic in ("all", s.name))
    of_sums = tuple(s for s in asked if not sees_uploads(s))
    in_scope = tuple(s for s in of_sums if participations is not None or is_about_sampling(s))
    statistics = in_scope or of_sums or asked
    asked_methods = None if audit.verdict_method == "all" else (audit.verdict_method,)
    methods = chosen_methods(asked_methods, config.canaries.inclusion)
    return ChosenTests(asked, statistics, methods, shared_confidence(audit))


def check_claim(design: RunDesign) -> None:
    """Raises InputError for a stated claim that the verdict on the run could not test."""
    audit, release = design.config.audit, design.release
    if audit.is_claimed:
        chosen = chosen_tests(design.config, release.client.participations)
        claim_to_test(audit, release, design.delta, chosen.asked)


def chosen_methods(
    names: Collection[str] | None, inclusion: Inclusion | None = None
) -> tuple[str, ...]:
    """The valid methods among the requested `names` (None for all), in the order of reports.

    They allow a way of including canaries; None for any.

    >>> chosen_methods(["one_run", "one_run_valid"])
    ('one_run_valid',)
    """
    return tuple(name for name in valid_methods(inclusion) if names is None or name in names)
