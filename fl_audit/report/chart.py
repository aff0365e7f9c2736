"""Charts of a page as inline SVG in the page's colours, drawn without a library.

Bars from lower to upper bounds on epsilon, histograms of scores, training curves.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from markupsafe import Markup, escape
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators import Gaussian
from fl_audit.estimators.scores import CanaryScores
from fl_audit.number_words import epsilon_text, lower_bound_text, significant, upper_bound_text
from fl_audit.report.finished_run import Rounds
from fl_audit.report.headline import Headline, headline_on, strongest_first
from fl_audit.report.report import NOT_KNOWN, Report
from fl_audit.verdict import ConfiguredClaim

_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 10.0, 8.0, 42.0
"""Margins in drawing units; a letter is 12 units high."""

_LEGEND_ROW = 17.0
_MOST_TICKS = 6


Kind = Literal["bars", "line", "dashed", "dotted"]


@dataclass(frozen=True, eq=False)
class Series:
    """One set of bars, or one line.

    Attributes:
      x: Float64 of shape (n,); for bars, the n + 1 edges.
      y: Float64 of shape (n,), finite.
      colour: A colour of the page: "blue", "orange" or "ink".
      label: Text of the legend; empty for no entry.
    """

    x: FloatArray
    y: FloatArray
    colour: str
    kind: Kind = "line"
    label: str = ""


@dataclass(frozen=True)
class _Frame:
    """Maps data coordinates to drawing units."""

    width: float
    height: float
    top: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        share = (value - self.x_low) / (self.x_high - self.x_low)
        return round(_LEFT + share * (self.width - _LEFT - _RIGHT), 2)

    def y(self, value: float) -> float:
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return round(self.height - _BOTTOM - share * (self.height - _BOTTOM - self.top), 2)


def chart(
    series: Sequence[Series], x_label: str, y_label: str, *, size: tuple[int, int] = (460, 270)
) -> Markup:
    """Draws series over common axes as an `<svg>` element; the axis of bars begins at 0.

    Args:
      series: From back to front; at least one has a point.
      size: Width and height in drawing units; the element scales to the available width.
    """
    labelled = [curve for curve in series if curve.label]
    frame = _frame(series, size, _TOP + _LEGEND_ROW * math.ceil(len(labelled) / 2))
    parts = [
        *_axes(frame, x_label, y_label),
        *(part for curve in series for part in _drawn(curve, frame)),
        *(part for i, curve in enumerate(labelled) for part in _legend(curve, i, frame)),
    ]
    head = f'<svg class="chart" viewBox="0 0 {size[0]} {size[1]}" role="img">'
    return Markup(head + "".join(parts) + "</svg>")


def ticks(low: float, high: float) -> list[float]:
    """At most six round numbers between two ends.

    >>> ticks(0.0, 43.0), ticks(-0.02, 0.031)
    ([0.0, 10.0, 20.0, 30.0, 40.0], [-0.02, -0.01, 0.0, 0.01, 0.02, 0.03])
    """
    power = 10.0 ** math.floor(math.log10((high - low) / _MOST_TICKS))
    step = next(s * power for s in (1, 2, 5, 10) if (high - low) / (s * power) <= _MOST_TICKS)
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [float(f"{number * step:.12g}") for number in numbers][:_MOST_TICKS]


def _frame(series: Sequence[Series], size: tuple[int, int], top: float) -> _Frame:
    has_bars = any(curve.kind == "bars" for curve in series)
    x_low, x_high = _ends(np.concatenate([curve.x for curve in series]), 0.02)
    y_low, y_high = _ends(np.concatenate([curve.y for curve in series]), 0.05)
    return _Frame(size[0], size[1], top, x_low, x_high, 0.0 if has_bars else y_low, y_high)


def _ends(values: FloatArray, beyond: float) -> tuple[float, float]:
    """The ends of an axis, extended on both sides by the share `beyond` of the range."""
    low, high = float(values.min()), float(values.max())
    margin = beyond * (high - low) or abs(high) / 10 or 0.5
    return low - margin, high + margin


def _axes(frame: _Frame, x_label: str, y_label: str) -> Iterator[str]:
    left, right = _LEFT, frame.width - _RIGHT
    bottom, middle = frame.height - _BOTTOM, (frame.top + frame.height - _BOTTOM) / 2
    yield f'<path class="axis" d="M{left} {frame.top}V{bottom}H{right}"/>'
    for tick in ticks(frame.x_low, frame.x_high):
        x = frame.x(tick)
        yield f'<path class="axis" d="M{x} {bottom}v4"/>'
        yield f'<text x="{x}" y="{bottom + 17}" text-anchor="middle">{_number(tick)}</text>'
    for tick in ticks(frame.y_low, frame.y_high):
        y = frame.y(tick)
        yield f'<path class="axis" d="M{left} {y}h-4"/>'
        yield f'<text x="{left - 7}" y="{y + 4}" text-anchor="end">{_number(tick)}</text>'
    centre = (left + right) / 2
    yield f'<text x="{centre}" y="{frame.height - 6}" text-anchor="middle">{escape(x_label)}</text>'
    yield (
        f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _drawn(curve: Series, frame: _Frame) -> Iterator[str]:
    if curve.kind == "bars":
        steps = [
            f"V{frame.y(y)}H{frame.x(x)}"
            for x, y in zip(curve.x[1:].tolist(), curve.y.tolist(), strict=True)
        ]
        base, start = frame.y(0.0), frame.x(float(curve.x[0]))
        yield f'<path class="bars {curve.colour}" d="M{start} {base}{"".join(steps)}V{base}Z"/>'
        return
    points = [
        (frame.x(x), frame.y(y)) for x, y in zip(curve.x.tolist(), curve.y.tolist(), strict=True)
    ]
    joined = "L".join(f"{x} {y}" for x, y in points)
    dash = " dashed" if curve.kind == "dashed" else ""
    yield f'<path class="line {curve.colour}{dash}" d="M{joined}"/>'
    if curve.kind == "dotted":
        for x, y in points:
            yield f'<circle class="dot {curve.colour}" cx="{x}" cy="{y}" r="3"/>'


def _legend(curve: Series, index: int, frame: _Frame) -> Iterator[str]:
    column = (frame.width - _LEFT - _RIGHT) / 2
    x = _LEFT + 12 + column * (index % 2)
    y = _TOP + _LEGEND_ROW * (index // 2) + 6
    if curve.kind == "bars":
        yield f'<path class="bars {curve.colour}" d="M{x} {y - 5}h18v10h-18Z"/>'
    else:
        dash = " dashed" if curve.kind == "dashed" else ""
        yield f'<path class="line {curve.colour}{dash}" d="M{x} {y}h18"/>'
    yield f'<text x="{x + 24}" y="{y + 4}">{escape(curve.label)}</text>'


_MOST_BINS = 90


def has_range(scores: CanaryScores) -> bool:
    """Whether the range of the scores is finite, as axes need."""
    both = np.concatenate([scores.included, scores.excluded])
    return math.isfinite(float(both.max()) - float(both.min()))


def score_histogram(
    scores: CanaryScores, null: Gaussian | None, counted: str = "canaries"
) -> Markup:
    """Draws the histogram of one statistic's scores.

    Args:
      scores: The canaries' scores; their range is finite.
      null: Distribution of an excluded score if known; None fits one.
    """
    edges = _edges(scores)
    groups = (("excluded", scores.excluded, "blue"), ("included", scores.included, "orange"))
    bars = [
        Series(edges, _counted(values, edges), colour, "bars", f"{label} ({len(values)})")
        for label, values, colour in groups
    ]
    excluded_distribution, included_distribution = (
        null or _fitted(scores.excluded),
        _fitted(scores.included),
    )
    lines = []
    if excluded_distribution is not None:
        x, y = _expected_counts(excluded_distribution, scores.num_excluded, edges)
        lines.append(Series(x, y, "ink", "line", "null distribution"))
    if included_distribution is not None:
        x, y = _expected_counts(included_distribution, scores.num_included, edges)
        lines.append(Series(x, y, "orange", "dashed", "Gaussian fit to included"))
    return chart([*bars, *lines], "score", counted)


def _counted(values: FloatArray, edges: FloatArray) -> FloatArray:
    return np.histogram(values, edges)[0].astype(np.float64)


def _edges(scores: CanaryScores) -> FloatArray:
    """Common bin edges; the group that varies less sets the width."""
    both = np.concatenate([scores.included, scores.excluded])
    low, high = float(both.min()), float(both.max())
    if low == high:
        # All scores are equal: one bin around them, at their scale.
        half = abs(low) / 10 or 0.5
        return np.array([low - half, low + half])
    groups = [group for group in (scores.included, scores.excluded) if len(group) > 1]
    widths = [3.5 * Gaussian.fitted_to(group).std / len(group) ** (1 / 3) for group in groups]
    width = min((width for width in widths if width > 0), default=high - low)
    bins = min(max(math.ceil((high - low) / width), 1), _MOST_BINS)
    return np.linspace(low, high, bins + 1)


def _fitted(values: FloatArray) -> Gaussian | None:
    """The Gaussian fitted to scores; None for fewer than two scores, or equal ones."""
    if len(values) < 2 or np.ptp(values) == 0:
        return None
    return Gaussian.fitted_to(values)


def _expected_counts(
    distribution: Gaussian, num: int, edges: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Centres of a moving bin, and the expected number among `num` scores in each."""
    half = (edges[1] - edges[0]) / 2
    x = np.linspace(edges[0] - half, edges[-1] + half, 600)
    upper, lower = (
        (x + half - distribution.mean) / distribution.std,
        (x - half - distribution.mean) / distribution.std,
    )
    return x, num * (special.ndtr(upper) - special.ndtr(lower))


_MOST_MARKERS = 30


def training_curves(rounds: Rounds) -> dict[str, Markup]:
    """The figures by title, one per curve that has any value."""
    curves = {
        "Training loss (nats)": rounds.train_loss,
        "Held-out accuracy": rounds.accuracy,
        "Clip norm": rounds.clip_norm,
    }
    return {
        title: _curve(title, values)
        for title, values in curves.items()
        if np.isfinite(values).any()
    }


def _curve(title: str, values: FloatArray) -> Markup:
    known = np.flatnonzero(np.isfinite(values))
    kind: Kind = "dotted" if len(known) <= _MOST_MARKERS else "line"
    rounds = (known + 1).astype(np.float64)
    return chart([Series(rounds, values[known], "blue", kind)], "round", title, size=(340, 210))


_FIRST, _LAST = 5.0, 93.0
"""Ends of the axis in percent of the width; 0 is drawn left of them, infinity right."""

_MOST_DECADES = 5
_FIRST_POWER = 1e6
"""Numbers on an axis from here on are written as powers of ten."""

_STEPS = ((1, 2, 5), (1, 3), (1,))
"""Labelled multiples of powers of ten, finest first."""
_DIGIT = 2.3
"""Width of a digit in percent of the axis, on a page of 400 pixels."""


@dataclass(frozen=True)
class Tick:
    """A number on the axis, at its place in percent of the width."""

    place: float
    text: str


_LEAST = 1e-9


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from `low` to `high` (positive) with extra places for 0 and infinity."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float]) -> "LogAxis":
        """A log axis spanning the finite values of at least `_LEAST`; smaller ones are at its low.

        >>> LogAxis.around([5e-324])
        LogAxis(low=0.11499999999999999, high=1.15)
        """
        known = [value for value in values if _LEAST <= value < math.inf] or [1.0]
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
        """The labelled numbers.

        >>> LogAxis(0.3, 7.0).numbers(), LogAxis(0.03, 400.0).numbers()
        ([0.5, 1.0, 2.0, 5.0], [0.1, 1.0, 10.0, 100.0])
        >>> LogAxis(10.8, 7740.0).numbers()
        [30.0, 100.0, 300.0, 1000.0, 3000.0]
        """
        for steps in _STEPS if self.high < 1000 * self.low else _STEPS[-1:]:
            numbers = self._multiples(steps)
            if self._fit(numbers):
                break
        return numbers

    def _multiples(self, steps: tuple[int, ...]) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        numbers = [step * 10.0**decade for decade in decades for step in steps]
        return [number for number in numbers if self.low <= number <= self.high]

    def _fit(self, numbers: list[float]) -> bool:
        """Whether neighbouring labels do not overlap on the narrowest page."""
        places = [(self.place(number), len(_tick_text(number))) for number in numbers]
        return all(
            right - left > _DIGIT * (before + after) / 2 + _DIGIT
            for (left, before), (right, after) in itertools.pairwise(places)
        )

    def ticks(self, epsilons: Iterable[float]) -> list[Tick]:
        """The labelled numbers, with 0 and infinity if they are among the values.

        >>> [tick.text for tick in LogAxis(0.3, 7.0).ticks([0.0, 2.5, math.inf])]
        ['0', '0.5', '1', '2', '5', '∞']
        """
        values = set(epsilons)
        between = [Tick(self.place(number), _tick_text(number)) for number in self.numbers()]
        zero = [Tick(self.place(0.0), "0")] if 0 in values else []
        return [*zero, *between, *([Tick(self.place(math.inf), "∞")] if math.inf in values else [])]


def _tick_text(number: float) -> str:
    """A number on an axis; a power of ten if it is long.

    >>> _tick_text(0.5), _tick_text(2000.0), _tick_text(1e8)
    ('0.5', '2,000', '10⁸')
    """
    return f"{number:,g}" if number < _FIRST_POWER else significant(number, 1).removeprefix("1 × ")


@dataclass(frozen=True)
class Bar:
    """The bar of an attacker or setting; places are in percent of the width, None if unknown.

    Attributes:
      start: Place of the lower bound; that of 0 without one.
      end: Place of the upper bound; that of infinity without one.
      is_open: Whether there is no upper bound, so that the bar has no end.
      is_broken: Whether the lower bound exceeds the upper bound.
      interval: Places of the ends of the estimate's interval.
    """

    title: str
    lower_bound: str
    estimated: str
    upper_bound: str
    start: float
    end: float
    is_open: bool
    is_broken: bool
    estimate: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class EpsilonBars:
    """The bars from top to bottom, with their axis.

    Attributes:
      by: What a bar represents: "attacker" or a setting.
      claim: Place of the claimed epsilon.
      is_estimate_below: Whether any estimate is below its lower bound.
    """

    by: str
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    claim: float | None
    claimed: str
    is_estimate_below: bool


def epsilon_bars(report: Report) -> EpsilonBars | None:
    """A bar per attacker; None without any bound or estimate."""
    claim = None if report.verdict is None else report.verdict.claim
    claimed = None if claim is None or isinstance(claim, ConfiguredClaim) else claim.epsilon
    return bars_of(_attackers(report), "attacker", claimed)


def bars_of(
    named: Iterable[tuple[str, Headline]], by: str, claimed: float | None = None
) -> EpsilonBars | None:
    """A bar per headline that has a bound or estimate; None without any."""
    answered = [
        (title, answer) for title, answer in named if answer.lower_bound or answer.estimated
    ]
    if not answered:
        return None
    epsilons = [value for _, answer in answered for value in _values(answer)]
    axis = LogAxis.around(epsilons if claimed is None else [*epsilons, claimed])
    bars = tuple(_bar(title, answer, axis) for title, answer in answered)
    return EpsilonBars(
        by=by,
        bars=bars,
        ticks=tuple(axis.ticks([*epsilons, *(math.inf for bar in bars if bar.is_open)])),
        claim=None if claimed is None else axis.place(claimed),
        claimed="" if claimed is None else f"{claimed:.4g}",
        is_estimate_below=any(answer.is_estimate_below for _, answer in answered),
    )


def _attackers(report: Report) -> list[tuple[str, Headline]]:
    """The title of every threat model, with the headline on the first of its statistics."""
    models, headlines = report.threat_models, []
    for name in strongest_first(report.statistics):
        statistic = report.statistics[name]
        title = (
            models[statistic.threat_model].title
            if statistic.threat_model in models
            else NOT_KNOWN.title
        )
        against = report.upper_bounds_against(name)
        upper_bound = None if against is None else against.canary.epsilon
        headline = headline_on(statistic, upper_bound=upper_bound, confidence=report.confidence)
        headlines.append((title, headline))
    return headlines


def _values(answer: Headline) -> list[float]:
    """All numbers of a bar."""
    ends = answer.interval_within() or ()
    known = (answer.lower_bound_epsilon(), answer.estimate_within(), answer.upper_bound, *ends)
    return [value for value in known if value is not None]


def _bar(title: str, answer: Headline, axis: LogAxis) -> Bar:
    lower_bound, estimate, most = (
        answer.lower_bound_epsilon(),
        answer.estimate_within(),
        answer.upper_bound,
    )
    interval = answer.interval_within()
    return Bar(
        title=title,
        lower_bound="no lower bound"
        if lower_bound is None
        else f"ε ≥ {lower_bound_text(lower_bound)}",
        estimated="no estimate" if estimate is None else f"≈ {epsilon_text(estimate)}",
        upper_bound="no upper bound" if most is None else f"≤ {upper_bound_text(most)}",
        start=axis.place(lower_bound or 0.0),
        end=axis.place(answer.most()),
        is_open=math.isinf(answer.most()),
        is_broken=(lower_bound or 0.0) > answer.most(),
        estimate=None if estimate is None else axis.place(estimate),
        interval=None if interval is None else (axis.place(interval[0]), axis.place(interval[1])),
    )
