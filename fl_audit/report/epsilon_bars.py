"""The one picture of a page: bars from the epsilon proven to the epsilon guaranteed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fl_audit.number_words import epsilon_text, lower_bound_text, upper_bound_text
from fl_audit.report.folder_report import NOT_KNOWN, FolderReport
from fl_audit.report.headline import Headline, headline_on, strongest_first
from fl_audit.report.model import Report

_FIRST, _LAST = 5.0, 93.0
"""Places of the axis' ends in percent of the width; 0 is left of them, and infinity right."""

_MOST_DECADES = 5


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis with a place for 0 and one for infinity.

    Attributes:
      low: The smallest number that has a place of its own, positive.
      high: The largest.
    """

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float]) -> "LogAxis":
        """The axis for some numbers, of which neither 0 nor infinity decides its ends."""
        known = [value for value in values if 0 < value < math.inf] or [1.0]
        high = 1.15 * max(known)
        low = min(max(0.85 * min(known), high / 10**_MOST_DECADES), high / 10)
        return cls(low, high)

    def place(self, epsilon: float) -> float:
        """The place of an epsilon in percent of the width.

        >>> axis = LogAxis(0.1, 10.0)
        >>> [axis.place(epsilon) for epsilon in (0.0, 0.1, 1.0, 10.0, math.inf)]
        [0.5, 5.0, 49.0, 93.0, 99.5]
        """
        if epsilon <= 0:
            return 0.5
        if math.isinf(epsilon):
            return 99.5
        share = math.log(epsilon / self.low) / math.log(self.high / self.low)
        return round(_FIRST + (_LAST - _FIRST) * min(max(share, 0.0), 1.0), 2)

    def numbers(self) -> list[float]:
        """The numbers to write on the axis.

        >>> LogAxis(0.3, 7.0).numbers(), LogAxis(0.03, 400.0).numbers()
        ([0.5, 1.0, 2.0, 5.0], [0.1, 1.0, 10.0, 100.0])
        """
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1, 2, 5) if self.high < 1000 * self.low else (1,)
        found = [step * 10.0**decade for decade in decades for step in steps]
        return [number for number in found if self.low <= number <= self.high]


@dataclass(frozen=True)
class Tick:
    """A number on the axis, at its place in percent."""

    place: float
    text: str


@dataclass(frozen=True)
class Bar:
    """An attacker's or a setting's bar; places are in percent of the width, None if not known.

    Attributes:
      title: What the attacker sees, or the setting, in a few words.
      proven: The lower bound in words.
      estimated: The estimate in words.
      guaranteed: The upper bound in words.
      start: Place of the lower bound, or of 0.
      end: Place of the guarantee; that of infinity where none is known.
      is_open: Whether nothing is guaranteed, so that the bar has no end.
      is_broken: Whether more was proven than is guaranteed.
      estimate: Place of the estimate.
      interval: Places of the ends of its interval.
    """

    title: str
    proven: str
    estimated: str
    guaranteed: str
    start: float
    end: float
    is_open: bool
    is_broken: bool
    estimate: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class EpsilonBars:
    """The picture.

    Attributes:
      by: What a bar is of: "what the attacker sees".
      bars: The bars, from top to bottom.
      ticks: The numbers on the axis.
      claim: Place of the claimed epsilon; None without a claim.
      claimed: The claimed epsilon in words.
    """

    by: str
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    claim: float | None
    claimed: str


def epsilon_bars(report: Report | FolderReport) -> EpsilonBars | None:
    """The picture of a report; None where there is neither a bound nor an estimate to show."""
    claimed = None if report.verdict is None else report.verdict.claimed_epsilon
    return bars_of(_attackers(report), "what the attacker sees", claimed)


def bars_of(
    named: Iterable[tuple[str, Headline]], by: str, claimed: float | None = None
) -> EpsilonBars | None:
    """The picture of some headlines; None where there is neither a bound nor an estimate to show.

    Args:
      named: The title of each bar with its numbers, from top to bottom.
      by: What a bar is of, for the heading.
      claimed: The claimed epsilon, if any.
    """
    found = [(title, made) for title, made in named if made.proven or made.estimated]
    if not found:
        return None
    shown = [value for _, made in found for value in _values(made)]
    axis = LogAxis.around(shown if claimed is None else [*shown, claimed])
    bars = tuple(_bar(title, made, axis) for title, made in found)
    return EpsilonBars(
        by=by,
        bars=bars,
        ticks=tuple(_ticks(axis, shown, any(bar.is_open for bar in bars))),
        claim=None if claimed is None else axis.place(claimed),
        claimed="" if claimed is None else f"{claimed:g}",
    )


def _attackers(report: Report | FolderReport) -> list[tuple[str, Headline]]:
    """The title of every threat model, with the headline on the first of its statistics."""
    models, found = report.threat_models, []
    for name in strongest_first(report.statistics):
        made = report.statistics[name]
        title = models[made.threat_model].title if made.threat_model in models else NOT_KNOWN.title
        guaranteed = None
        if isinstance(report, Report):
            guaranteed = report.guaranteed_against(name).canary.epsilon
        headline = headline_on(made, guaranteed=guaranteed, confidence=report.confidence)
        found.append((title, headline))
    return found


def _values(made: Headline) -> list[float]:
    """All numbers that a bar shows."""
    ends = _interval(made) or ()
    known = (made.proven_epsilon(), made.estimate_within(), made.guaranteed, *ends)
    return [value for value in known if value is not None]


def _interval(made: Headline) -> tuple[float, float] | None:
    """The ends of the estimate's interval, which the guarantee and the bound cut off."""
    middle, fit = made.estimate_within(), made.estimated
    if fit is None or fit.lower is None or fit.upper is None or middle is None:
        return None
    return min(fit.lower, middle), max(min(fit.upper, made.most()), middle)


def _bar(title: str, made: Headline, axis: LogAxis) -> Bar:
    proven, estimate, most = made.proven_epsilon(), made.estimate_within(), made.guaranteed
    interval = _interval(made)
    return Bar(
        title=title,
        proven="nothing" if proven is None else f"ε ≥ {lower_bound_text(proven)}",
        estimated="no estimate" if estimate is None else f"≈ {epsilon_text(estimate)}",
        guaranteed="nothing known" if most is None else f"≤ {upper_bound_text(most)}",
        start=axis.place(proven or 0.0),
        end=axis.place(made.most()),
        is_open=math.isinf(made.most()),
        is_broken=(proven or 0.0) > made.most(),
        estimate=None if estimate is None else axis.place(estimate),
        interval=None if interval is None else (axis.place(interval[0]), axis.place(interval[1])),
    )


def _ticks(axis: LogAxis, shown: Sequence[float], is_open: bool) -> list[Tick]:
    zero = [Tick(axis.place(0.0), "0")] if min(shown) == 0 else []
    infinity = [Tick(axis.place(math.inf), "∞")] if is_open or math.inf in shown else []
    between = [Tick(axis.place(number), f"{number:g}") for number in axis.numbers()]
    return [*zero, *between, *infinity]
