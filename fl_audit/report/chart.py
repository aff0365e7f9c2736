"""Charts of a page: histograms of scores, training curves, and bars of bounds on epsilon.

Figures are inline SVG; the same input always gives the same bytes.
"""

import hashlib
import io
import itertools
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
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
from fl_audit.number_words import delta_text, epsilon_text, lower_bound_text, upper_bound_text
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
RED = "#b3261e"
RULE = "#d9dde1"

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "fl-audit",
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
_ON_PAGE = {
    **{BLUE: "--blue", ORANGE: "--orange", INK: "--ink"},
    **{FAINT: "--faint", RED: "--red", RULE: "--rule"},
}

_HASHED_ID = re.compile('id="([a-z][0-9a-f]{10})"')

_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


def draw(name: str, width: float, height: float, plot: Callable[[Axes], None]) -> Markup:
    """One figure as an `<svg>` element, whose ids are unique if `name` is unique on the page."""
    with matplotlib.rc_context():
        matplotlib.rcParams.update(_STYLE)
        figure = Figure(figsize=(width, height), layout="constrained")
        plot(figure.add_subplot())
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata=_NO_METADATA)
    text = buffer.getvalue()
    # Matplotlib's own ids are hashes of texts that differ between versions of NumPy.
    figure_id = hashlib.sha256(visible(name).encode()).hexdigest()[:10]
    for number, made in enumerate(dict.fromkeys(_HASHED_ID.findall(text))):
        text = text.replace(made, f"{made[0]}{figure_id}_{number}")
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
    """The histogram of scores of finite range, with `null` or a fit to the excluded scores.

    `counted` is the title of the vertical axis.
    """
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
    """Bin edges for both groups, with the smaller of the groups' widths by Scott's rule."""
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
    """The Gaussian fitted to scores; None for fewer than two scores, or equal scores."""
    if len(values) < 2 or np.ptp(values) == 0:
        return None
    return Gaussian.fitted_to(values)


def _expected_counts(
    distribution: Gaussian, num: int, edges: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Centres of a bin that moves over the axis, and how many of `num` scores it should contain."""
    half = (edges[1] - edges[0]) / 2
    x = np.linspace(edges[0] - half, edges[-1] + half, 600)
    upper, lower = (
        (x + half - distribution.mean) / distribution.std,
        (x - half - distribution.mean) / distribution.std,
    )
    return x, num * (special.ndtr(upper) - special.ndtr(lower))


_MOST_MARKERS = 30


def training_curves(run: FinishedRun) -> dict[str, Markup]:
    """A figure by title for each curve with any value; without loss if participants are secret."""
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


_DECADES = 5
"""The most powers of ten that an axis spans; smaller numbers are drawn at its low end."""

_LEAST = 1e-9

_STEPS = ((1.7, (1, 2, 5)), (3.0, (1, 3)), (math.inf, (1,)))
"""Pairs: the most powers of ten that an axis spans, and the multiples of each that are labelled."""

_FIRST_POWER = 1e6
"""An axis writes numbers from here on as powers of ten."""


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from `low` to `high` (positive) with extra places for 0 and infinity."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float]) -> "LogAxis":
        """An axis over the finite values from `_LEAST` on, with smaller values at its low end.

        >>> LogAxis.around([5e-324])
        LogAxis(low=0.11499999999999999, high=1.15)
        """
        known = [value for value in values if _LEAST <= value < math.inf] or [1.0]
        high = 1.15 * max(known)
        return cls(min(max(0.85 * min(known), high / 10**_DECADES), high / 10), high)

    def place(self, epsilon: float) -> float:
        """The place of an epsilon, 0 to 1 on the axis; less for epsilon 0, more for infinity.

        >>> axis = LogAxis(0.1, 10.0)
        >>> [axis.place(epsilon) for epsilon in (0.0, 0.01, 1.0, 10.0, math.inf)]
        [-0.05, 0.0, 0.5, 1.0, 1.07]
        """
        if epsilon <= 0:
            return -0.05
        if math.isinf(epsilon):
            return 1.07
        share = math.log(epsilon / self.low) / math.log(self.high / self.low)
        return round(min(max(share, 0.0), 1.0), 4)

    def ticks(self, epsilons: Iterable[float]) -> dict[float, str]:
        """The labels of the axis by place, with 0 and infinity if they are among `epsilons`.

        >>> [*LogAxis(0.3, 7.0).ticks([0.0, 2.5, math.inf]).values()]
        ['0', '0.5', '1', '2', '5', '∞']
        >>> [*LogAxis(0.03, 400.0).ticks([]).values()], [*LogAxis(1e7, 1e8).ticks([]).values()]
        (['0.1', '1', '10', '100'], ['10⁷', '2 × 10⁷', '5 × 10⁷', '10⁸'])
        """
        decades = math.log10(self.high / self.low)
        steps = next(steps for most, steps in _STEPS if decades <= most)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        numbers = [step * 10.0**power for power in powers for step in steps]
        inner = [number for number in numbers if self.low <= number <= self.high]
        ends = [end for end in (0.0, math.inf) if end in set(epsilons)]
        return {self.place(number): _tick_text(number) for number in sorted([*ends, *inner])}

    def show(self, axes: Axes, epsilons: Iterable[float]) -> None:
        """Makes this the horizontal axis of `axes`, with labels for `epsilons`."""
        ticks = self.ticks(epsilons)
        axes.set_xticks([*ticks], [*ticks.values()])
        axes.set_xlim(-0.08, 1.1)


def _tick_text(number: float) -> str:
    """A number on an axis; from `_FIRST_POWER` on as a power of ten.

    >>> _tick_text(0.5), _tick_text(2000.0), _tick_text(1e8), _tick_text(math.inf)
    ('0.5', '2,000', '10⁸', '∞')
    """
    if math.isinf(number):
        return "∞"
    return f"{number:,g}" if number < _FIRST_POWER else delta_text(number)


@dataclass(frozen=True)
class EpsilonBars:
    """Bars of bounds and estimates by attacker or setting, from top to bottom.

    Attributes:
      by: What the bars compare, in words, such as "attacker".
      answers: The title of each bar, and the headline with its numbers.
      claimed: The claimed epsilon; None without a claim.
    """

    by: str
    answers: Sequence[tuple[str, Headline]]
    claimed: float | None = None

    @property
    def is_estimate_below(self) -> bool:
        """Whether any bar's estimate is below the bar's lower bound."""
        return any(answer.is_estimate_below for _, answer in self.answers)


def bars_of(
    named: Iterable[tuple[str, Headline]], by: str, claimed: float | None = None
) -> EpsilonBars | None:
    """A bar per headline with a lower bound or an estimate; None if no headline has one."""
    answers = [(title, one) for title, one in named if one.lower_bound or one.estimated]
    return EpsilonBars(by, answers, claimed) if answers else None


def bars_by_attacker(report: Report) -> EpsilonBars | None:
    """A bar per attacker, on the attacker's first statistic; None if there is nothing to draw."""
    claim = None if report.verdict is None else report.verdict.claim
    claimed = None if claim is None or isinstance(claim, ConfiguredClaim) else claim.epsilon
    titles = {
        name: report.view_of(report.statistics[name].threat_model).title
        for name in strongest_first(report.statistics)
    }
    named = ((title, headline_on(report, name)) for name, title in titles.items())
    return bars_of(named, "attacker", claimed)


def epsilon_bars(bars: EpsilonBars, *, is_wide: bool) -> Markup:
    """Draws a bar per headline, from the lower to the upper bound, with the estimate.

    A narrow picture, for the screen of a telephone, has a bar's numbers below the bar's title.
    """
    answers, claimed = bars.answers, bars.claimed
    epsilons = [value for _, answer in answers for value in _values(answer)]
    axis = LogAxis.around(epsilons if claimed is None else [*epsilons, claimed])
    width, title_width, ends = (9.4, 70, (0.8, 0.9, 1.0)) if is_wide else (4.6, 44, (0.4, 0.7, 1.0))
    titles = [
        (textwrap.wrap(title, title_width) or [""]) + [""] * (not is_wide) for title, _ in answers
    ]
    heights = [1.0 + 0.36 * (len(lines) - 1) for lines in titles]

    def plot(axes: Axes) -> None:
        axis.show(axes, epsilons)
        axes.set(xlabel="ε of a canary (logarithmic)", yticks=[], ylim=(0.7 - sum(heights), 1.0))
        axes.spines["left"].set_visible(False)
        for (_, answer), lines, y in zip(
            answers, titles, itertools.accumulate(heights), strict=True
        ):
            axes.axhline(1 - y, color=RULE, lw=0.8, zorder=0)
            _write_numbers(axes, "\n".join(lines), answer, ends, 1.33 - y)
            _draw_bar(axes, axis, answer, 1 - y)
            if claimed is not None:
                place, label = axis.place(claimed), f"claimed: ε ≤ {claimed:.4g}"
                bottom, top, dashes = 0.72 - y, 1.28 - y, (0, (3, 3))
                axes.vlines(place, bottom, top, colors=INK, ls=dashes, label=label, lw=1.0)
        handles, labels = axes.get_legend_handles_labels()
        legend = dict(zip(labels, handles, strict=True))  # one entry for all bars
        axes.legend(
            [*legend.values()],
            [*legend],
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0,
            ncols=4 if is_wide else 2,
            markerscale=0.7,
        )

    name = f"bars-{bars.by}-{'wide' if is_wide else 'narrow'}"
    return draw(name, width, 0.75 + 0.55 * sum(heights), plot)


def _values(answer: Headline) -> list[float]:
    """All numbers of a bar; an unknown upper bound counts as infinite."""
    ends = answer.interval_within() or ()
    known = (answer.lower_bound_epsilon() or 0.0, answer.estimate_within(), answer.most(), *ends)
    return [value for value in known if value is not None]


def _write_numbers(
    axes: Axes, title: str, answer: Headline, ends: tuple[float, float, float], y: float
) -> None:
    """Writes a bar's title and numbers; numbers end at `ends`, shares of the picture's width."""
    least, fit, most = answer.lower_bound_epsilon(), answer.estimate_within(), answer.upper_bound
    texts = (
        (0.0, INK, title),
        (ends[0], BLUE, "no lower bound" if least is None else f"ε ≥ {lower_bound_text(least)}"),
        (ends[1], ORANGE, "no estimate" if fit is None else f"≈ {epsilon_text(fit)}"),
        (ends[2], INK, "no upper bound" if most is None else f"≤ {upper_bound_text(most)}"),
    )
    for x, colour, text in texts:
        axes.text(
            x,
            y,
            text,
            color=colour,
            ha="right" if x else "left",
            fontsize=10.5,
            transform=axes.get_yaxis_transform(),
        )


def _draw_bar(axes: Axes, axis: LogAxis, answer: Headline, y: float) -> None:
    """Draws the range between the bounds, a mark at each, and the estimate with its interval."""
    least, most = answer.lower_bound_epsilon(), answer.most()
    start, end = axis.place(least or 0.0), axis.place(most)
    is_broken, is_open = (least or 0.0) > most, math.isinf(most)
    colour, alpha = (RED, 0.5) if is_broken else (BLUE, 0.12 if is_open else 0.25)
    axes.barh(y, end - start, 0.3, start, color=colour, alpha=alpha, lw=0)
    bound: dict[str, Any] = {"marker": "|", "ls": "", "ms": 15, "zorder": 3}
    if least is not None:
        axes.plot(start, y, color=BLUE, mew=3, label="lower bound", **bound)
    if not is_open:
        axes.plot(end, y, color=INK, mew=2, label="upper bound from accounting", **bound)
    fit = answer.estimate_within()
    if fit is not None:
        middle, ends = axis.place(fit), answer.interval_within() or (fit, fit)
        places = [axis.place(ends[0]), middle, axis.place(ends[1])]
        label = "estimate, with its interval"
        axes.plot(places, [y] * 3, "-o", color=ORANGE, markevery=[1], ms=6, label=label, zorder=4)
