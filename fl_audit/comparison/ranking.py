"""The order of settings by leakage, on one statistic and by attacker.

On one statistic, differences are significant if intervals do not overlap.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fl_audit.attacks.threat_models import title_of
from fl_audit.comparison.comparison import Comparison
from fl_audit.comparison.settings import Setting
from fl_audit.number_words import epsilon_text, upper_bound_text
from fl_audit.report.headline import Headline, strongest_first
from fl_audit.report.patterns import (
    BOUND,
    Detection,
    PatternAttacker,
    PatternTable,
    equally_often,
    mean_auc,
    pattern_attackers,
)


@dataclass(frozen=True)
class Group:
    """Settings whose intervals overlap, directly or through others.

    Attributes:
      lower: The lowest limit of the settings' intervals.
      upper: The highest limit of the settings' intervals.
      printed: The highest limit as printed, where intervals are capped at the upper bound from
        accounting.
      accounting: The smallest and the largest of the settings' upper bounds from accounting; None
        if a setting's upper bound is unknown.
    """

    settings: tuple[Setting, ...]
    lower: float
    upper: float
    printed: float
    accounting: tuple[float, float] | None

    def joined(self, other: "Group") -> "Group":
        """The union of both groups."""
        limits = self.accounting, other.accounting
        known = [limit for pair in limits if pair is not None for limit in pair]
        return Group(
            settings=(*self.settings, *other.settings),
            lower=min(self.lower, other.lower),
            upper=max(self.upper, other.upper),
            printed=max(self.printed, other.printed),
            accounting=None if None in limits else (min(known), max(known)),
        )

    @property
    def names(self) -> str:
        """The settings' labels in words."""
        return _listed(self.settings)


def compared_statistic(comparison: Comparison) -> str | None:
    """The statistic that compares settings; None if no statistic has an interval in two settings.

    Statistics of stronger attackers come first, whatever the scores. If clients are sampled in any
    run, attackers who know the sampled cohort are left out, unless no other attacker remains.
    """
    reports = {
        name: run.report.statistics[name]
        for name in comparison.statistics
        for run in comparison.runs
        if name in run.report.statistics
    }
    is_sampled = any(run.is_sampled for run in comparison.runs)
    for name in strongest_first(reports, is_sampled):
        if sum(span(setting.headline(name)) is not None for setting in comparison.settings) > 1:
            return name
    return None


def span(headline: Headline | None) -> tuple[float, float] | None:
    """The estimate's interval; None without one.

    If the lower bound contradicts the estimate, the interval from lower to upper bound.
    """
    fit = None if headline is None else headline.estimated
    if headline is None or fit is None or fit.lower is None or fit.upper is None:
        return None
    bound = headline.lower_bound_epsilon() or 0.0
    if headline.estimate_within() is None:
        return bound, max(headline.most(), bound)
    return fit.lower, fit.upper


def beyond_noise(comparison: Comparison) -> str:
    """Which settings leak significantly more, in sentences.

    Only settings whose canaries participate equally often are compared. Empty if no two settings
    have an interval on the same statistic.
    """
    name = compared_statistic(comparison)
    if name is None:
        return ""
    estimated = [s for s in comparison.settings if span(s.headline(name)) is not None]
    groups = by_participations(estimated)
    compared = [_sentence(title_of(name), group, name) for group in groups if len(group) > 1]
    return " ".join([*compared, *_not_compared(groups)])


def by_participations(settings: Sequence[Setting]) -> list[list[Setting]]:
    """The settings grouped by a canary's mean number of rounds, smallest first, unknown last."""
    groups: list[list[Setting]] = []
    for setting in sorted(settings, key=_participations):
        first = groups[-1][0] if groups else None
        if first is not None and equally_often(_mean_rounds(first), _mean_rounds(setting)):
            groups[-1].append(setting)
        else:
            groups.append([setting])
    return groups


def groups_apart(settings: Sequence[Setting], statistic: str) -> list[Group]:
    """The settings with an interval on a statistic, grouped by overlap, smallest epsilon first."""
    alone = [
        _group_of_one(s, headline)
        for s in settings
        if (headline := s.headline(statistic)) is not None
    ]
    ordered = sorted(filter(None, alone), key=lambda group: (group.lower, group.upper))
    groups: list[Group] = []
    for group in ordered:
        is_apart = not groups or group.lower > groups[-1].upper
        groups.append(group if is_apart else groups.pop().joined(group))
    return groups


def _group_of_one(setting: Setting, headline: Headline) -> Group | None:
    """The group of one setting; None if the setting has no interval."""
    ends = span(headline)
    limits = None if headline.upper_bound is None else (headline.upper_bound, headline.upper_bound)
    within = headline.interval_within() or ends
    if ends is None or within is None:
        return None
    return Group((setting,), *ends, printed=within[1], accounting=limits)


def _participations(setting: Setting) -> float:
    mean = _mean_rounds(setting)
    return math.inf if mean is None else mean


def _mean_rounds(setting: Setting) -> float | None:
    return None if setting.participations is None else setting.participations.mean


def _listed(settings: Sequence[Setting]) -> str:
    return " and ".join(f"“{setting.label}”" for setting in settings)


def _sentence(title: str, settings: Sequence[Setting], statistic: str) -> str:
    """Which of the settings, whose canaries participate equally often, leaks more."""
    rounds = settings[0].rounds_words
    where = f"With {rounds}, by “{title}”" if rounds else f"By “{title}”"
    groups = groups_apart(settings, statistic)
    if len(groups) == 1:
        return f"{where}, this audit cannot tell which of {_listed(settings)} leaks more."
    parts = [
        f"{group.names} (ε {epsilon_text(group.lower)} … {epsilon_text(group.printed)})"
        for group in groups
    ]
    tied = any(len(group.settings) > 1 for group in groups)
    return " ".join(
        [
            f"{where}, leakage increases in this order: {', then '.join(parts)}.",
            *(["This audit cannot tell settings joined by “and” apart."] if tied else []),
            *_against_accounting(groups),
        ]
    )


def _against_accounting(groups: Sequence[Group]) -> Iterator[str]:
    """A sentence per pair of adjacent groups that accounting orders the other way round."""
    for less, more in itertools.pairwise(groups):
        if less.accounting and more.accounting and less.accounting[0] > more.accounting[1]:
            yield (
                f"Accounting orders these settings in reverse: its upper bound for {less.names} is "
                f"larger than for {more.names}. For {less.names} the attack found a smaller share "
                "of the upper bound, which does not show that less leaks."
            )


def _not_compared(groups: Sequence[Sequence[Setting]]) -> Iterator[str]:
    """Which groups of settings are not compared, as their canaries participate unequally often."""
    if len(groups) > 1:
        parts = [f"{g[0].rounds_words or 'an unknown number'} in {_listed(g)}" for g in groups]
        yield (
            f"Not compared, because canaries participate in different numbers of rounds: "
            f"{'; '.join(parts)}. More rounds leak more under any pattern; "
            "`participation.canaries` sets how many."
        )


# Settings as participation patterns, against each attacker.


_SHARED = "Runs of one seed share canaries, coins and the first model, but not the noise."


def attackers_of(comparison: Comparison) -> tuple[PatternAttacker, ...]:
    """The attackers common to all settings, each with its detection of each setting's canaries.

    Empty unless patterns differ and canaries participate about equally often.
    """
    settings = comparison.settings
    if not any(key.startswith("participation.") for key in comparison.differing):
        return ()
    if len(by_participations(settings)) > 1 or len(settings) < 2:
        return ()
    return pattern_attackers(len(settings), lambda i, name: detection_of(settings[i], name))


def detection_of(setting: Setting, statistic: str) -> Detection | None:
    """The detection of a setting's canaries by a statistic; None if a run has no such ROC."""
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


def patterns_of(comparison: Comparison) -> PatternTable:
    """The table of settings by attacker (`attackers_of`); empty without attackers."""
    seeds = {run.config.get("seed") for run in comparison.runs}
    return PatternTable(
        attackers_of(comparison),
        comparison.settings[0].rounds_words,
        comparison.runs[0].report.confidence,
        tuple(_limits(comparison)),
        (_SHARED,) if len(seeds) < len(comparison.runs) else (),
    )


def clients_bounds(comparison: Comparison) -> str:
    """Clients' upper bounds in words; empty if they are equal, or one is unknown or infinite."""
    spreads = [(setting.guarantee("client"), setting.label) for setting in comparison.settings]
    known = sorted((spread.largest, label) for spread, label in spreads if spread is not None)
    texts = [upper_bound_text(bound) for bound, _ in known]
    if len(known) < len(spreads) or len(set(texts)) == 1 or math.isinf(known[-1][0]):
        return ""
    named = ", ".join(
        f"“{label}” ε ≤ {text}" for (_, label), text in zip(known, texts, strict=True)
    )
    return f"All this is about canaries; accounting for a client: {named}. "


def _limits(comparison: Comparison) -> Iterator[str]:
    """What limits the comparison of patterns, in short."""
    runs = sorted({len(setting.runs) for setting in comparison.settings})
    if runs == [1]:
        number = "One run per pattern: another may give other numbers."
    else:
        number = f"{' to '.join(map(str, (runs[0], runs[-1])[: len(runs)]))} runs per pattern."
    yield f"{clients_bounds(comparison)}{number}"
    for sentence in comparison.warnings:
        yield f"{re.split('[:.] ', sentence)[0].rstrip('.')}."
    faults = dict.fromkeys(f.name for run in comparison.runs for f in run.report.faults)
    if faults:
        yield f"Faults of training: {', '.join(faults)}."
