"""Comparison of participation patterns by attacker.

Patterns are compared by the area under the ROC curve (AUC): the probability that an included canary
has a larger score than an excluded one. The AUC needs no model of the scores. Canaries of different
patterns, in separate runs or in the arms of one, are independent, so an interval for a difference
follows from both intervals (Newcombe 1998, on the logit scale). The intervals for all differences
and attackers hold simultaneously (Bonferroni).
"""

import itertools
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scipy import special

from fl_audit.accounting.upper_bounds import Attacker
from fl_audit.estimators.roc import RocSummary
from fl_audit.estimators.roc.curve import ApproximateInterval, auc, auc_interval
from fl_audit.estimators.scores import CanaryScores
from fl_audit.json_records import UNWRITTEN
from fl_audit.number_words import lower_bound_text, significant, upper_bound_text
from fl_audit.text_table import TextTable

_ATTACKERS = (
    (Attacker.DOES_NOT_KNOW_ROUNDS.heading, ("likelihood_ratio", "max")),
    (Attacker.KNOWS_ROUNDS.heading, ("own_rounds",)),
    ("with the final model", ("final_minus_initial", "final")),
)
"""Attackers in words, each with its statistics, the best statistic first."""

_SEES = {
    **dict.fromkeys(("likelihood_ratio", "max"), "sees all rounds, not who took part when"),
    "own_rounds": "sees all rounds and who took part when, as a server does",
    "final_minus_initial": "initial and final model only",
    "final": "nothing else",
}
"""What the attacker of each statistic sees."""

_AUC = (
    "AUC: the chance that an included canary outscores an excluded one (0.5: nothing shows; 1: "
    "always recognised). It is about the average canary, ε about the most exposed one."
)

BOUND = "threshold_valid"
"""The method of the lower bounds on epsilon."""

_AS_OFTEN = 1.1
"""Mean participations that differ by at most this factor count as equal: by chance alone the mean
of 200 canaries with about seven rounds each moves by 3 %.
"""

_EDGE = 1e-6
"""The least distance to which an AUC is moved from 0 and 1, so that its logit is finite."""


@dataclass(frozen=True)
class Detection:
    """The detection of one pattern's canaries by one attacker.

    Attributes:
      label: The setting or arm.
      upper_bound: The upper bound on epsilon against the attacker, from accounting; None if
        unknown.
      lower_bound: The smallest lower bound of the pattern's runs; None if left out.
      auc: The mean AUC of the runs.
      deviation: The standard deviation of the AUC's logit.
      noise_multiplier: The noise multiplier of the runs; only patterns with equal noise are
        compared.
    """

    label: str
    upper_bound: float | None
    lower_bound: float | None
    auc: float
    deviation: float
    noise_multiplier: float | None = field(default=None, metadata=UNWRITTEN)

    def interval(self, confidence: float) -> tuple[float, float]:
        """The interval of the AUC."""
        reach = float(special.ndtri((1 + confidence) / 2)) * self.deviation
        middle = float(special.logit(self.auc))
        return float(special.expit(middle - reach)), float(special.expit(middle + reach))


@dataclass(frozen=True)
class PatternAttacker:
    """One attacker, and its detection of each pattern's canaries."""

    words: str
    statistic: str
    detections: tuple[Detection, ...]


@dataclass(frozen=True)
class Difference:
    """The difference of AUC between two patterns, with its simultaneous interval."""

    more: Detection
    less: Detection
    auc: float
    lower: float
    upper: float


def pattern_attackers(
    patterns: int, detection_of: Callable[[int, str], Detection | None]
) -> tuple[PatternAttacker, ...]:
    """The attackers common to all patterns, each with the best statistic that all patterns have.

    `detection_of` gives the detection of a pattern, by its index from 0, by a statistic; None if
    the pattern does not have the statistic.
    """
    found = []
    for words, statistics in _ATTACKERS:
        for statistic in statistics:
            detections = [detection_of(index, statistic) for index in range(patterns)]
            if None not in detections:
                found.append(PatternAttacker(words, statistic, tuple(filter(None, detections))))
                break
    return tuple(found)


def rounds_text(number: float) -> str:
    """A mean number of rounds, without decimals for an integer.

    >>> [rounds_text(number) for number in (1.0, 6.667, 12.3, 340.0)]
    ['1', '6.7', '12', '340']
    """
    is_whole = abs(number - round(number)) < 0.05
    return f"{number:.0f}" if is_whole else significant(number, 2)


def rounds_words(number: float | None) -> str:
    """The mean number of a canary's rounds, in words; empty if unknown."""
    text = "" if number is None else rounds_text(number)
    return text and f"{text} round{'' if text == '1' else 's'} per canary"


def equally_often(first: float | None, second: float | None) -> bool:
    """Whether mean participations are about equal; an unknown mean equals only an unknown mean."""
    if first is None or second is None:
        return first is second
    return max(first, second) <= _AS_OFTEN * min(first, second)


def mean_auc(rocs: Sequence[RocSummary]) -> tuple[float, float]:
    """The mean AUC of independent runs, and the standard deviation of its logit."""
    deviation = math.hypot(*(_logit_deviation(roc.auc_interval, roc.confidence) for roc in rocs))
    mean = math.fsum(roc.auc for roc in rocs) / len(rocs)
    return _within(mean), deviation / len(rocs)


def area(scores: CanaryScores) -> tuple[float, float]:
    """The AUC of scores, and the standard deviation of its logit."""
    return _within(auc(scores)), _logit_deviation(auc_interval(scores, 0.95), 0.95)


def _logit_deviation(interval: ApproximateInterval, confidence: float) -> float:
    low, high = (float(special.logit(_within(end))) for end in (interval.lower, interval.upper))
    return (high - low) / 2 / float(special.ndtri((1 + confidence) / 2))


def _within(value: float) -> float:
    return min(max(value, _EDGE), 1 - _EDGE)


def differences(attackers: Sequence[PatternAttacker], confidence: float) -> list[list[Difference]]:
    """The differences of all pairs of patterns of equal noise, by attacker."""
    pairs = [
        [
            (a, b)
            for a, b in itertools.combinations(attacker.detections, 2)
            if a.noise_multiplier == b.noise_multiplier
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
        more,
        less,
        auc,
        auc - math.hypot(more.auc - more_low, less_high - less.auc),
        auc + math.hypot(more_high - more.auc, less.auc - less_low),
    )


# In words.


@dataclass(frozen=True)
class PatternAnswer:
    """The patterns that leak least and most to one attacker; empty if no two are distinguished.

    Attributes:
      least: The pattern with the smallest AUC, and patterns distinguished only from the largest
        AUC.
      most: The pattern with the largest AUC, and patterns distinguished only from the smallest AUC.
      unclear: The patterns distinguished neither from the smallest nor from the largest AUC.
    """

    attacker: PatternAttacker
    least: tuple[Detection, ...] = ()
    most: tuple[Detection, ...] = ()
    unclear: tuple[Detection, ...] = ()

    @classmethod
    def from_differences(
        cls, attacker: PatternAttacker, found: Sequence[Difference]
    ) -> "PatternAnswer":
        apart = [d for d in found if d.lower > 0]
        if not apart:
            return cls(attacker)
        first = min((d.less for d in apart), key=lambda detection: detection.auc)
        last = max((d.more for d in apart), key=lambda detection: detection.auc)
        above = {last.label, *(d.more.label for d in apart if d.less == first)}
        below = {first.label, *(d.less.label for d in apart if d.more == last)}
        ordered = sorted(attacker.detections, key=lambda detection: detection.auc)
        return cls(
            attacker,
            tuple(d for d in ordered if d.label in below - above),
            tuple(d for d in ordered if d.label in above - below),
            tuple(d for d in ordered if d.label not in above | below),
        )

    @property
    def sees(self) -> str:
        """What the attacker sees; empty for an unknown statistic."""
        return _SEES.get(self.attacker.statistic, "")

    @property
    def least_words(self) -> str:
        if not self.least:
            return f"no difference detected ({_auc_range(self.attacker.detections)})"
        return f"{'for the average canary ' if self.exposed_words else ''}{_alike(self.least)}"

    @property
    def most_words(self) -> str:
        return _alike(self.most) if self.most else ""

    @property
    def unclear_words(self) -> str:
        if not self.unclear:
            return ""
        return (
            "in between, distinguished neither from the least nor from the most: "
            f"{_names(self.unclear)}"
        )

    @property
    def exposed_words(self) -> str:
        """A warning that none of the patterns that leak most has the largest upper bound."""
        bounds = {d.label: d.upper_bound for d in self.attacker.detections}
        known = {label: bound for label, bound in bounds.items() if bound is not None}
        if not self.most or len(known) < len(bounds):
            return ""
        largest = max(known.values())
        first = [label for label, bound in known.items() if bound == largest]
        if any(d.label in first for d in self.most):
            return ""
        others = max(bound for bound in known.values() if bound != largest)
        return (
            f"for the most exposed canary the upper bound of {_listed([f'“{x}”' for x in first])} "
            f"is the largest: ε ≤ {upper_bound_text(largest)}, others ≤ {upper_bound_text(others)}"
        )

    @property
    def sentences(self) -> list[str]:
        sees = f" ({self.sees})" if self.sees else ""
        head = f"To an attacker {self.attacker.words}{sees}:"
        if not self.least:
            return [f"{head} {self.least_words}."]
        leaks = [f"least {self.least_words}", self.exposed_words, f"most {self.most_words}"]
        return [head, *(f"  {words}" for words in (*leaks, self.unclear_words) if words)]


def _names(detections: Sequence[Detection]) -> str:
    """The patterns with their AUCs."""
    aucs = [f"{'' if i else 'AUC '}{d.auc:.3f}" for i, d in enumerate(detections)]
    return _listed([f"“{d.label}” ({auc})" for d, auc in zip(detections, aucs, strict=True)])


def _alike(detections: Sequence[Detection]) -> str:
    return _names(detections) + (", not distinguished" if len(detections) > 1 else "")


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _auc_range(detections: Sequence[Detection]) -> str:
    aucs = sorted(detection.auc for detection in detections)
    return f"AUC {' to '.join(dict.fromkeys(f'{auc:.3f}' for auc in (aucs[0], aucs[-1])))}"


def _shown_by_bounds(attacker: PatternAttacker) -> str:
    """Differences shown by bounds on epsilon: a lower bound above others' upper bounds."""
    shown = []
    for more in attacker.detections:
        limits = {
            less.label: less.upper_bound
            for less in attacker.detections
            if less is not more
            and less.noise_multiplier == more.noise_multiplier
            and less.upper_bound is not None
            and (more.lower_bound or 0.0) > less.upper_bound
        }
        if limits and more.lower_bound is not None:
            labels = ", ".join(f"“{label}”" for label in limits)
            least = lower_bound_text(more.lower_bound)
            most = upper_bound_text(max(limits.values()))
            shown.append(f"“{more.label}” (ε ≥ {least}) leaks more than {labels} (ε ≤ {most})")
    if not shown:
        return ""
    by = "by bounds on ε, so for the most exposed canary"
    return f"To an attacker {attacker.words}, {by}: {'; '.join(shown)}."


@dataclass(frozen=True)
class PatternTable:
    """Patterns by attacker, with the answer to which pattern leaks least.

    Attributes:
      attackers: The attackers, each with all patterns; without any the table is empty.
      rounds: The rounds of a canary in words; empty if unknown.
      limits: Sentences on what limits the answer.
      remarks: Further sentences.
    """

    attackers: tuple[PatternAttacker, ...]
    rounds: str
    confidence: float
    limits: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    meaning = _AUC
    head = ("pattern", "upper bound", "lower bound", "AUC")

    @property
    def question(self) -> str:
        return f"Which pattern leaks least{f' ({self.rounds})' if self.rounds else ''}?"

    @property
    def answers(self) -> list[PatternAnswer]:
        found = differences(self.attackers, self.confidence)
        return list(map(PatternAnswer.from_differences, self.attackers, found))

    @property
    def limited(self) -> str:
        """The limits, with a hint at the warnings or faults that follow the table."""
        return " ".join([*self.limits, *(["More below."] if len(self.limits) > 1 else [])])

    @property
    def notes(self) -> list[str]:
        return [*filter(None, map(_shown_by_bounds, self.attackers)), *self.remarks]

    @property
    def groups(self) -> list[tuple[str, list[tuple[str, ...]]]]:
        """For each attacker a row for each pattern."""
        return [
            (
                f"an attacker {attacker.words} ({attacker.statistic})",
                [_cells(d, self.confidence) for d in attacker.detections],
            )
            for attacker in self.attackers
        ]

    def lines(self, width: int = 100) -> list[str]:
        """The answers and the table for the terminal."""
        if not self.attackers:
            return []
        rows: list[tuple[str, ...] | str] = []
        for words, cells in self.groups:
            rows += [words, *cells]
        answers = (sentence for answer in self.answers for sentence in answer.sentences)
        return [
            *_wrapped((self.question, self.meaning, *answers, self.limited), width),
            *TextTable(self.head, rows).lines(),
            *_wrapped(self.notes, width),
        ]


def _wrapped(sentences: Sequence[str], width: int) -> list[str]:
    """The sentences wrapped; all lines of a sentence have the sentence's indent."""
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(
            sentence, width, subsequent_indent=" " * (len(sentence) - len(sentence.lstrip()))
        )
    ]


def _cells(found: Detection, confidence: float) -> tuple[str, ...]:
    low, high = found.interval(confidence)
    upper, lower = found.upper_bound, found.lower_bound
    return (
        found.label,
        "none known" if upper is None else f"ε ≤ {upper_bound_text(upper)}",
        "–" if lower is None else f"ε ≥ {lower_bound_text(lower)}",
        f"{found.auc:.3f} ({low:.3f} … {high:.3f})",
    )
