"""Figures 4 to 9 of Steinke et al. (2023) in shape: one-run audits of DP-SGD; see README.md."""

import argparse
import csv
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from experiments.method_colours import COLOURS
from experiments.steinke2023_training.simulation import DELTA, Trained, Training, train
from fl_audit.estimators import METHODS, AuditSetting

COLUMNS = ("figure", "series", "x", "repeat", "published", "valid", "accuracy")

METHOD_NAMES = {"published": "one_run", "valid": "one_run_valid"}
"""The methods of two of the columns."""


@dataclass(frozen=True)
class Series:
    """One line of a figure.

    Attributes:
      figure: The paper's number.
      name: The label of the line.
      axis: The label of the horizontal axis.
      points: The training at each value of the horizontal axis.
    """

    figure: int
    name: str
    axis: str
    points: Sequence[tuple[float, Training]]


def all_series() -> Iterator[Series]:
    """Every line of every figure."""
    dirac, image = Training("dirac", 1000, 1000), Training("mislabelled", 500, 0)
    change = dataclasses.replace
    for epsilon in (8.0, 2.0):
        base = change(dirac, epsilon=epsilon)
        name = f"ε = {epsilon:g}"
        counts = [100, 250, 500, 1000, 2000, 4000]
        yield Series(4, name, "canaries m", [(m, change(base, canaries=m)) for m in counts])
        others = [0, 250, 500, 1000, 1500]
        yield Series(5, name, "further images n − m", [(n, change(base, others=n)) for n in others])
    for name, number in (("ε = 8", 1000), ("ε = 8, no other images", 0)):
        base = change(dirac, others=number, share=1.0)
        steps = [1, 5, 20, 100, 400]
        yield Series(6, name, "steps", [(t, change(base, steps=t)) for t in steps])
    epsilons = [1.0, 2.0, 4.0, 8.0]
    more = change(dirac, others=1500)
    yield Series(7, "ours", "analytical ε", [(e, change(more, epsilon=e)) for e in epsilons])
    for kind in ("mislabelled", "in_distribution"):
        name = kind.replace("_", " ")
        base = change(image, kind=kind)
        counts = [50, 100, 200, 500, 1000, 1500]
        yield Series(8, name, "canaries m = n", [(m, change(base, canaries=m)) for m in counts])
        base = change(base, canaries=200)
        others = [0, 100, 300, 700, 1500]
        yield Series(9, name, "further images n − m", [(n, change(base, others=n)) for n in others])


def bounds(trained: Trained) -> tuple[float, float]:
    """The paper's bound, the largest over attacks and guesses; and a valid one of one attack."""
    settings = {name: AuditSetting(scores, DELTA, 0.95) for name, scores in trained.scores.items()}
    published = max(METHODS["one_run"](setting).epsilon for setting in settings.values())
    *_, last = settings.values()
    return published, METHODS["one_run_valid"](last).epsilon


Row = dict[str, str]
"""A run, as a line of the file has it."""


def measure(repeats: int, done: Sequence[Row]) -> Iterator[Row]:
    """Trains every point so many times, but for what is done: a row a run."""
    found = {tuple(row[name] for name in COLUMNS[:4]) for row in done}
    for repeat in range(repeats):
        for series in all_series():
            for x, setting in series.points:
                point = (str(series.figure), series.name, f"{x:g}", str(repeat))
                if point in found:
                    continue
                trained = train(dataclasses.replace(setting, seed=repeat))
                numbers = (f"{number:.4f}" for number in (*bounds(trained), trained.accuracy))
                yield dict(zip(COLUMNS, (*point, *numbers), strict=True))


def draw(rows: Sequence[Row], picture: Path) -> None:
    """Draws the six figures: medians and quartiles."""
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.4), constrained_layout=True)
    for series in all_series():
        axis = axes.ravel()[series.figure - 4]
        is_first = not axis.containers
        for method in METHOD_NAMES:
            _draw_line(axis, series, method, "-o" if is_first else "--s", rows)
        axis.set_title(f"figure {series.figure}", fontsize=9)
        axis.set_xlabel(series.axis, fontsize=8)
        axis.set_ylabel("bound on ε, 95 %", fontsize=8)
        if series.figure in (4, 6, 8):
            axis.set_xscale("log")
    of_paper = axes.ravel()[3]
    of_paper.plot([1, 2, 4, 8], [0.7, 1.2, 1.8, 3.5], "k-^", label="paper, published", ms=4)
    of_paper.plot([1, 2, 4, 8], [1, 2, 4, 8], "--", color="gray", lw=0.8, label="analytical")
    for axis in axes.ravel():
        axis.set_ylim(0, 1.35 * axis.get_ylim()[1])  # room for the legend
        axis.legend(fontsize=6)
    of_paper.set_ylim(0, 4.5)
    figure.savefig(picture, dpi=80)


def _draw_line(axis: Axes, series: Series, method: str, style: str, rows: Sequence[Row]) -> None:
    ends = [_quartiles(rows, series, x, method) for x, _ in series.points]
    low, middle, high = np.array(ends).T
    x = [x for x, _ in series.points]
    looks = {"color": COLOURS[METHOD_NAMES[method]], "ms": 3, "lw": 1, "capsize": 2}
    ends = [middle - low, high - middle]
    axis.errorbar(x, middle, ends, fmt=style, label=f"{series.name}, {method}", **looks)


def _quartiles(rows: Sequence[Row], series: Series, x: float, method: str) -> list[float]:
    of = (str(series.figure), series.name, f"{x:g}")
    found = [float(row[method]) for row in rows if (row["figure"], row["series"], row["x"]) == of]
    return [float(q) for q in np.percentile(found, [25, 50, 75])]


def table(rows: Sequence[Row]) -> Iterator[str]:
    """A row of Markdown for each point: medians, and the quartiles of the paper's bound."""
    for series in all_series():
        for x, _ in series.points:
            low, middle, high = _quartiles(rows, series, x, "published")
            _, valid, _ = _quartiles(rows, series, x, "valid")
            _, right, _ = _quartiles(rows, series, x, "accuracy")
            yield (
                f"| {series.figure} | {series.name} | {series.axis} = {x:g} | "
                f"{middle:.2f} ({low:.2f} … {high:.2f}) | {valid:.2f} | {100 * right:.0f} % |\n"
            )


def main() -> None:
    """Trains, unless the points are there, prints the table and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", type=Path, help="CSV of all runs; what is missing is run")
    parser.add_argument("picture", type=Path, help="PNG of the figures")
    parser.add_argument("--repeats", type=int, default=6)
    arguments = parser.parse_args()
    rows: list[Row] = []
    if arguments.points.exists():
        rows = list(csv.DictReader(arguments.points.read_text().splitlines()))
    with arguments.points.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not rows:
            writer.writeheader()
        for row in measure(arguments.repeats, rows[:]):
            writer.writerow(row)
            file.flush()
            rows.append(row)
    draw(rows, arguments.picture)
    sys.stdout.writelines(table(rows))


if __name__ == "__main__":
    main()
