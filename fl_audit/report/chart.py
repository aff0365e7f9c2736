"""Charts of a page: histograms of scores, training curves, and bars of bounds on epsilon.

Figures are inline SVG; the same figure always gives the same bytes.
"""

import io
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import visible
from fl_audit.estimators import Gaussian
from fl_audit.estimators.scores import CanaryScores
from fl_audit.number_words import epsilon_text, lower_bound_text, significant, upper_bound_text
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.headline import Headline, headline_on, strongest_first
from fl_audit.report.report import Report
from fl_audit.verdict import ConfiguredClaim

# Colours of Okabe & Ito (2008), distinct in any colour vision, and in grey by lightness.
BLUE = "#0072b2"
ORANGE = "#d55e00"
GREEN = "#009e73"
PURPLE = "#cc79a7"
INK = "#2b2b2b"
FAINT = "#8a8a8a"

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text, in the page's font
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a folder's name stays a dollar sign
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": (-3, 5),
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}

# Figures use the page's colours, which differ in dark mode.
_ON_PAGE = {BLUE: "--blue", ORANGE: "--orange", INK: "--ink", FAINT: "--faint"}

_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


def draw(name: str, width: float, height: float, plot: Callable[[Axes], None]) -> Markup:
    """One figure as an `<svg>` element, whose internal references derive from its unique name."""
    with matplotlib.rc_context():
        matplotlib.rcParams.update(_STYLE)
        matplotlib.rcParams["svg.hashsalt"] = visible(name)
        figure = Figure(figsize=(width, height), layout="constrained")
        plot(figure.add_subplot())
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata=_NO_METADATA)
    text = buffer.getvalue()
    for colour, variable in _ON_PAGE.items():
        text = text.replace(f": {colour}", f": var({variable}, {colour})")
    return Markup(text[text.index("<svg") :])


_MOST_BINS = 90


def has_range(scores: CanaryScores) -> bool:
    """Whether the range of the scores is finite, as required by axes."""
    both = np.concatenate([scores.included, scores.excluded])
    return math.isfinite(float(both.max()) - float(both.min()))


def score_histogram(
    name: str, scores: CanaryScores, null: Gaussian | None, counted: str = "canaries"
) -> Markup:
    """The histogram of a statistic's scores, of finite range; without `null`, it is fitted."""
    edges = _edges(scores)
    null_distribution, included_fit = null or _fitted(scores.excluded), _fitted(scores.included)

    def plot(axes: Axes) -> None:
        for label, values, colour in (
            ("excluded", scores.excluded, BLUE),
            ("included", scores.included, ORANGE),
        ):
            bars, title = np.histogram(values, edges)[0], f"{label} ({len(values)})"
            axes.stairs(bars, edges, fill=True, color=colour, alpha=0.4, label=title)
        if null_distribution is not None:
            curve = _expected_counts(null_distribution, scores.num_excluded, edges)
            axes.plot(*curve, color=INK, linewidth=1.2, label="null distribution")
        if included_fit is not None:
            curve = _expected_counts(included_fit, scores.num_included, edges)
            title = "Gaussian fit to included"
            axes.plot(*curve, "--", color=ORANGE, linewidth=1.2, label=title)
        axes.set(xlabel="score", ylabel=counted)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

    return draw(f"histogram-{name}", 4.6, 2.7, plot)


def _edges(scores: CanaryScores) -> FloatArray:
    """Common bin edges; the smaller of both groups' Scott bins sets the width."""
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


def training_curves(run: FinishedRun) -> dict[str, Markup]:
    """The figures by title, one per curve with any value; no loss if participants are secret."""
    rounds, are_secret = run.rounds, run.record.schedule_secret is not None
    loss = {} if are_secret else {"Training loss (nats)": rounds.train_loss}
    curves = loss | {
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
    marker = "o" if len(known) <= _MOST_MARKERS else ""

    def plot(axes: Axes) -> None:
        axes.plot(known + 1, values[known], color=BLUE, linewidth=1.2, marker=marker, markersize=3)
        axes.set(xlabel="round", ylabel=title)

    return draw(f"curve-{title}", 3.4, 2.1, plot)


_FIRST, _LAST = 5.0, 93.0
"""Ends of the axis in percent of the width; 0 is drawn left of them, infinity right."""

_MOST_DECADES = 5
_FIRST_POWER = 1e6
"""At or above this, an axis writes numbers as powers of ten."""

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
        """A log axis spanning the finite values above `_LEAST`; smaller ones are at its low end.

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
    """The bar of an attacker or setting; places are in percent of the width, None if unknown."""

    title: str
    lower_bound: str
    estimated: str
    upper_bound: str
    start: float  # place of the lower bound; that of 0 without one
    end: float  # place of the upper bound; that of infinity without one
    is_open: bool  # whether there is no upper bound, so that the bar has no end
    is_broken: bool  # whether the lower bound exceeds the upper bound
    estimate: float | None
    interval: tuple[float, float] | None  # places of the ends of the estimate's interval


@dataclass(frozen=True)
class EpsilonBars:
    """The bars from top to bottom, with their axis."""

    by: str  # what a bar represents: "attacker" or a setting
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    claim: float | None
    claimed: str
    is_estimate_below: bool  # whether any estimate is below its lower bound


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
    return [
        (
            report.view_of(report.statistics[name].threat_model).title,
            headline_on(report, name),
        )
        for name in strongest_first(report.statistics)
    ]


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
