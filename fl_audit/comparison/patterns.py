"""The settings of a comparison as participation patterns, against each attacker."""

from fl_audit.comparison.comparison import Comparison
from fl_audit.comparison.order import by_participations
from fl_audit.comparison.settings import Setting
from fl_audit.report.patterns import (
    BOUND,
    Detection,
    PatternAttacker,
    mean_auc,
    pattern_answers,
    pattern_attackers,
)

_SHARED = "Runs of one seed share canaries, coins and the first model, and not the noise."


def attackers_of(comparison: Comparison) -> tuple[PatternAttacker, ...]:
    """The attackers common to all settings.

    Empty unless patterns differ, and canaries have about equal numbers of rounds.
    """
    settings = comparison.settings
    if not any(key.startswith("participation.") for key in comparison.differing):
        return ()
    if len(by_participations(settings)) > 1 or len(settings) < 2:
        return ()
    return pattern_attackers(len(settings), lambda i, name: detection_of(settings[i], name))


def detection_of(setting: Setting, statistic: str) -> Detection | None:
    """The detection by one statistic; None if a run lacks it."""
    results = [run.report.statistics.get(statistic) for run in setting.runs]
    rocs = [result.roc for result in results if result is not None and result.roc is not None]
    headline = setting.headline(statistic)
    if len(rocs) < len(setting.runs) or headline is None:
        return None
    bounds = setting.epsilon(statistic, BOUND)
    return Detection(
        setting.label,
        headline.upper_bound,
        None if bounds is None else bounds.smallest,
        *mean_auc(rocs),
        setting.noise_multiplier,
    )


def answers_of(comparison: Comparison, attackers: tuple[PatternAttacker, ...]) -> list[str]:
    """The pattern that leaks least to each attacker, in sentences."""
    rounds = comparison.settings[0].rounds_words
    answers = pattern_answers(attackers, rounds, confidence_of(comparison))
    seeds = {run.config.get("seed") for run in comparison.runs}
    is_shared = answers and len(seeds) < len(comparison.runs)
    return [*answers, *([_SHARED] if is_shared else [])]


def confidence_of(comparison: Comparison) -> float:
    return comparison.runs[0].report.confidence
