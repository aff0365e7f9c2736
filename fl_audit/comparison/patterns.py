"""Participation patterns against attackers: what a pattern hides, from which attacker.

Patterns are compared by the area under the ROC curve (AUC): the chance that an included canary has
a larger score than an excluded one. It needs no model of the scores, and no shape of them. Runs of
different patterns are independent, so that an interval of a difference follows from the intervals
of both (Newcombe 1998, on the logit scale); all differences of all attackers hold together
(Bonferroni).
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scipy import special

from fl_audit.comparison.comparison import Comparison
from fl_audit.comparison.order import by_participations
from fl_audit.comparison.settings import Setting, rounds_words
from fl_audit.estimators.roc import RocSummary
from fl_audit.number_words import lower_bound_text, upper_bound_text
from fl_audit.text_table import TextTable

_ATTACKERS = (
    ("without the schedule", ("likelihood_ratio", "max")),
    ("with the schedule", ("own_rounds",)),
    ("with the final model", ("final_minus_initial", "final")),
)
"""Attackers in words, each with the statistics that score it, the best one first."""

_BOUND = "threshold_valid"

_MOST_PAIRS = 2
"""The most pairs of settings that a sentence names one by one."""

_EDGE = 1e-6
"""The distance of an AUC from 0 and 1 at which its logit is taken."""


@dataclass(frozen=True)
class Detection:
    """How well one attacker finds the canaries of one setting.

    Attributes:
      upper_bound: The upper bound on epsilon against it, from accounting; None if none is known.
      lower_bound: The smallest lower bound of the setting's runs; None if left out.
      auc: The mean AUC of the runs.
      deviation: The standard deviation of its logit.
    """

    setting: Setting
    upper_bound: float | None
    lower_bound: float | None
    auc: float
    deviation: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """The interval of the AUC."""
        reach = float(special.ndtri((1 + confidence) / 2)) * self.deviation
        middle = float(special.logit(self.auc))
        return float(special.expit(middle - reach)), float(special.expit(middle + reach))


@dataclass(frozen=True)
class Attacker:
    """One attacker, and how well it finds the canaries of settings with equal rounds."""

    words: str
    statistic: str
    detections: tuple[Detection, ...]


@dataclass(frozen=True)
class Difference:
    """The difference of AUC between two settings, with its simultaneous interval."""

    more: Setting
    less: Setting
    auc: float
    lower: float
    upper: float


def attackers_of(comparison: Comparison) -> list[Attacker]:
    """The attackers that all settings of equal rounds have, the weakest last.

    Empty unless patterns differ, and canaries have about equal numbers of rounds.
    """
    if not any(key.startswith("participation.") for key in comparison.differing):
        return []
    groups = by_participations(comparison.settings)
    if len(groups) > 1 or len(comparison.settings) < 2:
        return []
    found = []
    for words, statistics in _ATTACKERS:
        for statistic in statistics:
            detections = [detection_of(setting, statistic) for setting in comparison.settings]
            if None not in detections:
                found.append(Attacker(words, statistic, tuple(filter(None, detections))))
                break
    return found


def detection_of(setting: Setting, statistic: str) -> Detection | None:
    """The detection by one statistic; None if a run lacks it."""
    results = [run.report.statistics.get(statistic) for run in setting.runs]
    rocs = [result.roc for result in results if result is not None and result.roc is not None]
    headline = setting.headline(statistic)
    if len(rocs) < len(setting.runs) or headline is None:
        return None
    auc, deviation = mean_auc(rocs)
    bounds = setting.epsilon(statistic, _BOUND)
    bound = None if bounds is None else bounds.smallest
    return Detection(setting, headline.upper_bound, bound, auc, deviation)


def mean_auc(rocs: Sequence[RocSummary]) -> tuple[float, float]:
    """The mean AUC of independent runs, and the standard deviation of its logit."""
    squares = []
    for roc in rocs:
        ends = (roc.auc_interval.lower, roc.auc_interval.upper)
        low, high = (special.logit(min(max(end, _EDGE), 1 - _EDGE)) for end in ends)
        squares.append(((high - low) / 2 / special.ndtri((1 + roc.confidence) / 2)) ** 2)
    auc = math.fsum(roc.auc for roc in rocs) / len(rocs)
    return min(max(auc, _EDGE), 1 - _EDGE), math.sqrt(math.fsum(squares)) / len(rocs)


def differences(attackers: Sequence[Attacker], confidence: float) -> list[list[Difference]]:
    """The differences of all pairs of settings of equal noise, by attacker."""
    pairs = [
        [
            (a, b)
            for a, b in itertools.combinations(attacker.detections, 2)
            if a.setting.noise_multiplier == b.setting.noise_multiplier
        ]
        for attacker in attackers
    ]
    level = 1 - (1 - confidence) / max(sum(map(len, pairs)), 1)
    return [[_difference(a, b, level) for a, b in of_attacker] for of_attacker in pairs]


def _difference(first: Detection, second: Detection, confidence: float) -> Difference:
    more, less = (first, second) if first.auc >= second.auc else (second, first)
    (more_low, more_high), (less_low, less_high) = (
        detection.interval(confidence) for detection in (more, less)
    )
    auc = more.auc - less.auc
    return Difference(
        more.setting,
        less.setting,
        auc,
        auc - math.hypot(more.auc - more_low, less_high - less.auc),
        auc + math.hypot(more_high - more.auc, less.auc - less_low),
    )


def pattern_sentence(comparison: Comparison) -> str:
    """Whose canaries an attacker finds better; empty where patterns are not compared.

    Only what bounds on epsilon show for certain is said of them: a lower bound above another
    setting's upper bound.
    """
    attackers = attackers_of(comparison)
    if not attackers:
        return ""
    confidence = _confidence(comparison)
    parts = [
        _part(attacker, of_attacker)
        for attacker, of_attacker in zip(attackers, differences(attackers, confidence), strict=True)
    ]
    rounds = rounds_words(comparison.settings[0])
    start = f"With {rounds}, an attacker " if rounds else "An attacker "
    certain = [words for attacker in attackers for words in _certain(attacker)]
    return " ".join([f"{start}{'; '.join(parts)}.", *certain])


def _part(attacker: Attacker, found: Sequence[Difference]) -> str:
    apart = [d for d in found if d.lower > 0]
    if not apart:
        return f"{attacker.words} finds no pattern’s canaries detectably better than another’s"
    if len(apart) > _MOST_PAIRS:
        least, *_, most = sorted(attacker.detections, key=lambda detection: detection.auc)
        return (
            f"{attacker.words} finds those of “{least.setting.label}” least (AUC {least.auc:.3f}) "
            f"and of “{most.setting.label}” best ({most.auc:.3f}, {len(apart)} of {len(found)} "
            "differences beyond chance)"
        )
    pairs = [
        f"those of “{d.more.label}” better than of “{d.less.label}” "
        f"(AUC by {d.auc:.3f}, {d.lower:.3f} … {d.upper:.3f})"
        for d in apart
    ]
    return f"{attacker.words} finds {', '.join(pairs)}"


def _certain(attacker: Attacker) -> Iterator[str]:
    for more, less in itertools.permutations(attacker.detections, 2):
        lower, upper = more.lower_bound, less.upper_bound
        is_equal_noise = more.setting.noise_multiplier == less.setting.noise_multiplier
        if is_equal_noise and lower is not None and upper is not None and lower > upper:
            yield (
                f"The most exposed canary of “{more.setting.label}” leaks more than any of "
                f"“{less.setting.label}” to an attacker {attacker.words}: "
                f"ε ≥ {lower_bound_text(lower)}, ≤ {upper_bound_text(upper)}."
            )


NOTE = (
    "AUC is about the average canary, ε about the most exposed. Intervals of differences hold "
    "together."
)
PATTERN_HEAD = ("pattern", "upper bound", "lower bound", "AUC")


def pattern_rows(comparison: Comparison) -> list[tuple[str, list[tuple[str, ...]]]]:
    """The table pattern x attacker: for each attacker a row of cells for each setting."""
    confidence = _confidence(comparison)
    return [
        (f"an attacker {attacker.words}", [_cells(d, confidence) for d in attacker.detections])
        for attacker in attackers_of(comparison)
    ]


def _cells(found: Detection, confidence: float) -> tuple[str, ...]:
    low, high = found.interval(confidence)
    upper, lower = found.upper_bound, found.lower_bound
    return (
        found.setting.label,
        "none known" if upper is None else f"ε ≤ {upper_bound_text(upper)}",
        "–" if lower is None else f"ε ≥ {lower_bound_text(lower)}",
        f"{found.auc:.3f} ({low:.3f} … {high:.3f})",
    )


def pattern_lines(comparison: Comparison) -> list[str]:
    """The table for the terminal; empty where patterns are not compared."""
    rows: list[tuple[str, ...] | str] = []
    for words, cells in pattern_rows(comparison):
        rows += [words, *cells]
    return ["", *TextTable(PATTERN_HEAD, rows).lines(), "", NOTE] if rows else []


def _confidence(comparison: Comparison) -> float:
    return comparison.runs[0].report.confidence
