"""Figures 1 to 5 and 7 of Zanella-Béguelin et al. (2022) and its Table 2; see README.md."""

import argparse
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scipy import stats

from experiments import method_colours
from fl_audit.estimators.counts import (
    ConfusionCounts,
    EpsilonPosterior,
    epsilon_of_rates,
    intervals,
)
from fl_audit.estimators.counts.bayes import RocCounts, best_threshold
from fl_audit.estimators.counts.confusion_counts import Interval
from fl_audit.estimators.counts.intervals import interval_of_rates
from fl_audit.estimators.threshold.error_rates import clopper_pearson_upper, jeffreys_upper
from fl_audit.formats.score_file import read_score_file

METHODS = ("clopper_pearson", "jeffreys", "bayes")
COLOURS = {
    "clopper_pearson": method_colours.COLOURS["threshold_clopper_pearson"],
    "jeffreys": method_colours.COLOURS["threshold_jeffreys"],
    "bayes": method_colours.COLOURS["bayes"],
}
"""The colour of each method in every figure."""

TRAININGS = ("tab:purple", "tab:brown", "tab:olive", "tab:cyan")
"""Colours of trainings in figure 1, none of them that of a method."""

CONFIDENCE, DELTA = 0.9, 1e-5
EXAMPLE = ConfusionCounts(35, 65, 25, 75)
RATES = np.linspace(0.05, 0.45, 9)


def main() -> None:
    """Draws the figures, and prints the numbers of the paper next to ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("attacks", type=Path, nargs="*", help="folders of fl-audit attack")
    arguments = parser.parse_args()
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), constrained_layout=True)
    draws = (_figure_1, _figure_2, _figure_3, _figure_4, _figure_5, _figure_7)
    for axis, draw in zip(axes.ravel(), draws, strict=True):
        draw(axis, arguments.attacks)
        axis.set_title(draw.__name__.removeprefix("_").replace("_", " "), fontsize=10)
    figure.savefig(arguments.picture, dpi=80)
    for row in [*_printed(), *(row for folder in arguments.attacks for row in _table_2(folder))]:
        sys.stdout.write(f"| {' | '.join(row)} |\n")


def _printed() -> list[tuple[str, str, str]]:
    """What the text prints of these figures, and what comes out."""
    found = intervals(EXAMPLE, 0.05, 0.95)
    samples = {method: _enough_samples(method) for method in METHODS}
    widths = np.array([[_widths(fnr, fpr) for fpr in RATES] for fnr in RATES])
    shares = 1 - widths[..., 2:] / widths[..., :2]
    ranges = [
        f"{100 * share.min():.0f} % to {100 * share.max():.0f} %"
        for share in np.moveaxis(shares, -1, 0)
    ]
    return [
        ("section 3.2: credible interval", "[0.522, 1.268]", _words(found.bayes, 3)),
        ("section 3.2: Jeffreys", "[0.321, 1.456]", _words(found.jeffreys, 3)),
        ("figure 4: samples to ±0.15, Clopper-Pearson", "about 1,500", f"{samples[METHODS[0]]:,}"),
        ("figure 4: samples to ±0.15, Jeffreys", "marginally fewer", f"{samples['jeffreys']:,}"),
        ("figure 4: samples to ±0.15, Bayes", "just over 500", f"{samples['bayes']:,}"),
        ("figure 5: Bayes narrower than Clopper-Pearson by", "36 % to 52 %", ranges[0]),
        ("figure 5: Bayes narrower than Jeffreys by", "20 % to 32 %", ranges[1]),
    ]


def _counts(samples: int, fnr: float, fpr: float) -> ConfusionCounts:
    half = samples // 2
    wrong = round(fnr * half), round(fpr * half)
    return ConfusionCounts(wrong[0], half - wrong[0], wrong[1], half - wrong[1])


def _widths(fnr: float, fpr: float) -> list[float]:
    """The widths of the three intervals from 1,000 samples; figure 5."""
    found = intervals(_counts(1000, fnr, fpr), DELTA, CONFIDENCE)
    return [getattr(found, m).upper - getattr(found, m).lower for m in METHODS]


def _enough_samples(method: str) -> int:
    """The least number of samples, half of them members, with an interval at most 0.3 wide."""
    for samples in range(100, 4000, 2):
        found = getattr(intervals(_counts(samples, 0.4, 0.4), DELTA, CONFIDENCE), method)
        if found.upper - found.lower <= 0.3:
            return samples
    raise AssertionError("4,000 samples are not enough")


def _table_2(folder: Path) -> list[tuple[str, ...]]:
    """Intervals from LiRA's scores, at each one's best threshold and all at that of Bayes."""
    roc = RocCounts.from_scores(read_score_file(folder / "scores_lira.csv").canary_scores())
    tables = [roc.at(index) for index in range(len(roc.false_negatives))]
    ways: dict[str, Callable[[ConfusionCounts], Interval]] = {
        "Clopper-Pearson": lambda c: interval_of_rates(c, DELTA, CONFIDENCE, clopper_pearson_upper),
        "Jeffreys": lambda c: interval_of_rates(c, DELTA, CONFIDENCE, jeffreys_upper),
    }
    counts = _best_of(folder)
    bayes = EpsilonPosterior(counts, DELTA).interval(CONFIDENCE)
    own = {n: max(map(way, tables), key=lambda i: i.lower) for n, way in ways.items()}
    same = {name: way(counts) for name, way in ways.items()}
    rows = ((name, own[name], same[name]) for name in ways)
    return [
        (folder.name, name, *(f"{_words(i, 2)}, {i.upper - i.lower:.2f}" for i in intervals))
        for name, *intervals in (*rows, ("Bayes", bayes, bayes))
    ]


def _best_of(folder: Path) -> ConfusionCounts:
    """The counts of LiRA at the threshold with the largest lower credible end."""
    roc = RocCounts.from_scores(read_score_file(folder / "scores_lira.csv").canary_scores())
    return roc.at(best_threshold(roc, DELTA, CONFIDENCE))


def _words(interval: Interval, digits: int) -> str:
    return f"[{interval.lower:.{digits}f}, {interval.upper:.{digits}f}]"


def _figure_1(axes: Axes, attacks: list[Path]) -> None:
    """Posterior densities at LiRA's best threshold, and what the accountant guarantees."""
    if not attacks:
        axes.text(0.5, 0.5, "of attacks: none named", ha="center", va="center")
        axes.set_axis_off()
        return
    grid = np.linspace(0.01, 14, 300)
    for folder, colour in zip(attacks, itertools.cycle(TRAININGS), strict=False):
        name = folder.name.replace("_", " ")
        density = EpsilonPosterior(_best_of(folder), DELTA).pdf(grid)
        axes.plot(grid, density, color=colour, label=f"{name}: posterior")
        upper_bound = json.loads((folder / "report.json").read_text())["analytical_epsilon"]
        if upper_bound != "inf":
            axes.axvline(upper_bound, color=colour, linestyle=":", label=f"{name}: accountant")
    axes.set_xlabel("ε")
    axes.set_ylabel("density")
    axes.legend(fontsize=8)


def _figure_2(axes: Axes, attacks: list[Path]) -> None:
    """The borders of privacy regions."""
    del attacks
    rates = np.linspace(0, 1, 301)
    x, y = np.meshgrid(rates, rates)
    levels = [0.5, 1, 2, 3]
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.85, len(levels)))
    axes.contour(x, y, epsilon_of_rates(x, y, 0.05), levels=levels, colors=colours)
    lines = [Line2D([], [], color=colour) for colour in colours]
    names = [f"{level:g}" for level in levels]
    beside = {"bbox_to_anchor": (1.02, 1), "loc": "upper left"}
    axes.legend(lines, names, title="ε at δ = 0.05", fontsize=8, title_fontsize=8, **beside)
    axes.set_xlabel("FNR")
    axes.set_ylabel("FPR")


def _figure_3(axes: Axes, attacks: list[Path]) -> None:
    """The joint posterior, Jeffreys' rectangle, and the regions of both intervals."""
    del attacks
    rates = np.linspace(0.1, 0.6, 251)
    x, y = np.meshgrid(rates, rates)
    fnr, fpr = stats.beta(35.5, 65.5), stats.beta(25.5, 75.5)
    axes.contour(x, y, fnr.pdf(x) * fpr.pdf(y), colors="grey", linewidths=0.6)
    found = intervals(EXAMPLE, 0.05, 0.95)
    epsilon = epsilon_of_rates(x, y, 0.05)
    for method in ("bayes", "jeffreys"):
        interval = getattr(found, method)
        levels = [interval.lower, interval.upper]
        axes.contour(x, y, epsilon, levels=levels, colors=COLOURS[method])
    tail = (1 - np.sqrt(0.95)) / 2
    low, high = [fnr.ppf(tail), fpr.ppf(tail)], [fnr.ppf(1 - tail), fpr.ppf(1 - tail)]
    width, height = high[0] - low[0], high[1] - low[1]
    axes.add_patch(plt.Rectangle(low, width, height, fill=False, color=COLOURS["jeffreys"]))
    told = {"joint posterior": "grey", "bayes": COLOURS["bayes"], "jeffreys": COLOURS["jeffreys"]}
    lines = [Line2D([], [], color=colour) for colour in told.values()]
    axes.legend(lines, [*told], fontsize=8, loc="upper right")
    axes.set_xlabel("FNR")
    axes.set_ylabel("FPR")


def _figure_4(axes: Axes, attacks: list[Path]) -> None:
    """Interval ends against samples where FNR = FPR = 40 %."""
    del attacks
    samples = range(100, 2001, 50)
    for method in METHODS:
        all_three = [intervals(_counts(n, 0.4, 0.4), DELTA, CONFIDENCE) for n in samples]
        found = [getattr(of, method) for of in all_three]
        for end in ("lower", "upper"):
            label = method.replace("_", " ") if end == "lower" else None
            axes.plot(samples, [getattr(i, end) for i in found], color=COLOURS[method], label=label)
    axes.axhspan(np.log(1.5) - 0.15, np.log(1.5) + 0.15, color="0.9", label="±0.15")
    axes.set_xlabel("samples")
    axes.set_ylabel("ε")
    axes.legend(fontsize=8)


def _figure_5(axes: Axes, attacks: list[Path]) -> None:
    """Widths against FNR = FPR, 1,000 samples: the diagonal of the paper's surfaces."""
    del attacks
    widths = np.array([_widths(rate, rate) for rate in RATES])
    for column, method in enumerate(METHODS):
        name = method.replace("_", " ")
        axes.plot(RATES, widths[:, column], color=COLOURS[method], label=name)
    axes.set_xlabel("FNR = FPR")
    axes.set_ylabel("width of the interval")
    axes.legend(fontsize=8)


def _figure_7(axes: Axes, attacks: list[Path]) -> None:
    """The posterior density of ε as samples grow, FNR = FPR = 40 %."""
    del attacks
    grid = np.linspace(0.005, 2, 300)
    numbers = (10, 40, 200, 1000, 4000)
    shades = plt.get_cmap("viridis")(np.linspace(0, 0.85, len(numbers)))
    for samples, shade in zip(numbers, shades, strict=True):
        posterior = EpsilonPosterior(_counts(samples, 0.4, 0.4), DELTA)
        axes.plot(grid, posterior.pdf(grid), color=shade, label=f"{samples:,}")
    axes.set_xlabel("ε")
    axes.set_ylabel("density")
    axes.legend(fontsize=8, title="samples", title_fontsize=8)


if __name__ == "__main__":
    main()
