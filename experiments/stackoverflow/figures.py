"""Figures 1 and 2 of Andrew et al. (2023) from the runs of a sweep; see README.md.

    python -m experiments.stackoverflow.figures runs/table_4 figures.png

Above, for each noise multiplier: densities of the included canaries' cosines with the final model,
a curve for each number of presentations, and in black the distribution of a canary that did not
participate, N(0, 1/d). Below: the estimate as bars and the 95 % bound as ticks. The paper prints
numbers of one presentation (Table 3), which are drawn as open marks, and Anderson-Darling
statistics of all 15 sets (Table 4), which the printed table compares with ours. Any sweep with
canaries will do. Runs of one noise and one mean number of presentations, such as those of other
seeds, are drawn as one: all their cosines, and medians.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from scipy import stats

from experiments.method_colours import COLOURS
from experiments.stackoverflow.tables import BOUND, ESTIMATE, FINAL, PAPER, read_runs
from fl_audit.errors import InputError
from fl_audit.estimators.gaussian.fit import anderson_darling
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.score_file import read_score_file

Floats = npt.NDArray[np.float64]

PAPER_TABLE_3 = {noise: (row.estimate_final, row.bound_final) for noise, row in PAPER.items()}
"""Estimate and bound of one presentation, from the final model, by noise multiplier."""

PAPER_TABLE_4 = {
    0.0: {1: 0.464, 2: 0.590, 3: 0.396, 5: 0.407, 10: 0.196},
    0.1023: {1: 0.976, 2: 0.422, 3: 0.340, 5: 0.432, 10: 0.116},
    0.2344: {1: 0.326, 2: 0.157, 3: 0.347, 5: 0.951, 10: 0.401},
}
"""Anderson-Darling statistics by noise multiplier and number of presentations."""

_GRID = 400


@dataclass(frozen=True, eq=False)
class Setting:
    """What runs of one noise multiplier and one number of presentations found.

    Attributes:
      cosines: The included canaries' cosines with the final model.
      dim: The number of the model's parameters.
      estimate: The paper's estimate of epsilon.
      bound: Its bound at 95 %.
    """

    cosines: Floats
    dim: int
    estimate: float
    bound: float


Settings = Mapping[float, Mapping[float, Setting]]
"""Settings by noise multiplier, then by the mean number of a canary's presentations, to a tenth."""


def read_settings(sweep: Path) -> Settings:
    """The settings of a sweep's finished runs that have canaries, in rising order.

    Args:
      sweep: The folder of the sweep.

    Raises:
      InputError: It has no such run, or a file of one cannot be used.
    """
    found: defaultdict[tuple[float, float], list[Setting]] = defaultdict(list)
    for run in read_runs(sweep):
        if run.record is not None and run.record.num_canaries and FINAL in run.report.statistics:
            scores = read_score_file(RunFolder(run.folder).scores(FINAL))
            setting = Setting(
                scores.score[scores.included],
                run.record.dim,
                run.epsilon(FINAL, ESTIMATE) or 0.0,
                run.epsilon(FINAL, BOUND) or 0.0,
            )
            noise = run.config["mechanism.noise_multiplier"]
            found[noise, round(run.participations or 0.0, 1)].append(setting)
    if not found:
        raise InputError(f"{sweep}: has no finished run with canaries in runs/")
    by_noise: dict[float, dict[float, Setting]] = {}
    for (noise, participations), settings in sorted(found.items()):
        by_noise.setdefault(noise, {})[participations] = _together(settings)
    return by_noise


def _together(settings: Sequence[Setting]) -> Setting:
    return Setting(
        np.concatenate([setting.cosines for setting in settings]),
        settings[0].dim,
        float(np.median([setting.estimate for setting in settings])),
        float(np.median([setting.bound for setting in settings])),
    )


def draw(settings: Settings, picture: Path) -> None:
    """Draws both figures, a column for each noise multiplier.

    Args:
      settings: The settings.
      picture: The PNG to write.
    """
    size = (max(3.4 * len(settings), 4.5), 6.4)
    figure, axes = plt.subplots(
        2, len(settings), figsize=size, squeeze=False, constrained_layout=True
    )
    numbers = sorted({number for of_noise in settings.values() for number in of_noise})
    shades = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(numbers)))
    colours = dict(zip(numbers, shades, strict=True))
    for column, (noise, of_noise) in enumerate(settings.items()):
        axes[0, column].set_title(f"noise multiplier {noise:g}", fontsize=10)
        _densities(axes[0, column], of_noise, colours)
        _bars(axes[1, column], of_noise, PAPER_TABLE_3.get(noise))
    of_top, of_bottom = axes
    # Beside the panels, where no curve or bar is behind them.
    of_top[-1].legend(title="presentations", loc="upper left", bbox_to_anchor=(1, 1))
    of_bottom[-1].legend(*_all_labels(of_bottom), loc="upper left", bbox_to_anchor=(1, 1))
    axes[0, 0].set_ylabel("density")
    axes[1, 0].set_ylabel("epsilon")
    figure.savefig(picture, dpi=80)
    plt.close(figure)


def _densities(axes: Axes, settings: Mapping[float, Setting], colours: Mapping[float, Any]) -> None:
    """Figure 1: a curve for each number of presentations, and the null distribution."""
    spread = 1 / np.sqrt(max(setting.dim for setting in settings.values()))
    everything = np.concatenate([setting.cosines for setting in settings.values()])
    low, high = min(everything.min(), -3 * spread), max(everything.max(), 3 * spread)
    grid = np.linspace(low - spread, high + spread, _GRID)
    axes.plot(grid, stats.norm(0, spread).pdf(grid), color="black", lw=1.2, label="not included")
    for number, setting in settings.items():
        density = stats.gaussian_kde(setting.cosines)(grid)
        axes.plot(grid, density, color=colours[number], lw=1.4, label=f"{number:g}")
    axes.set_xlabel("100 × cosine with the final model")
    axes.xaxis.set_major_formatter(lambda cosine, _: f"{100 * cosine:g}")
    axes.set_ylim(bottom=0)


def _bars(axes: Axes, settings: Mapping[float, Setting], paper: tuple[float, float] | None) -> None:
    """Figure 2: bars of the estimate, ticks of the bound, the paper's as open marks."""
    place = np.arange(len(settings))
    estimates = [setting.estimate for setting in settings.values()]
    axes.bar(place, estimates, color=COLOURS[ESTIMATE], alpha=0.6, width=0.6, label="estimate")
    bounds = [setting.bound for setting in settings.values()]
    marks = {"linestyle": "", "markersize": 16, "markeredgewidth": 2.2}
    axes.plot(place, bounds, marker="_", color=COLOURS[BOUND], label="95 % bound", **marks)
    if paper is not None and 1 in settings:
        at, small = [list(settings).index(1)], {"linestyle": "", "mfc": "none", "markersize": 8}
        axes.plot(
            at, paper[:1], marker="o", mec=COLOURS[ESTIMATE], label="paper's estimate", **small
        )
        axes.plot(at, paper[1:], marker="D", mec=COLOURS[BOUND], label="paper's bound", **small)
    axes.set_xticks(place, [f"{number:g}" for number in settings])
    axes.set_xlabel("presentations")
    axes.set_ylim(bottom=0)
    axes.margins(y=0.15)


def _all_labels(row: Sequence[Axes]) -> tuple[list[Any], list[str]]:
    """What a legend of a row of panels takes: each label once, with one of its marks."""
    marks = {}
    for axes in row:
        for mark, label in zip(*axes.get_legend_handles_labels(), strict=True):
            marks.setdefault(label, mark)
    return [*marks.values()], [*marks]


def table(settings: Settings) -> list[str]:
    """The numbers of both figures as Markdown, the paper's where it prints them.

    Args:
      settings: The settings.
    """
    lines = [
        "| noise | presentations | estimate | paper | bound | paper | Anderson-Darling | paper |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for noise, of_noise in settings.items():
        for number, setting in of_noise.items():
            printed = PAPER_TABLE_3.get(noise) if number == 1 else None
            estimate, bound = ("", "") if printed is None else map(str, printed)
            statistic = PAPER_TABLE_4.get(noise, {}).get(int(number) if number % 1 == 0 else 0, "")
            ours = anderson_darling(setting.cosines).statistic
            cells = [
                f"{noise:g}",
                f"{number:g}",
                f"{setting.estimate:.3g}",
                estimate,
                f"{setting.bound:.3g}",
                bound,
                f"{ours:.3f}",
                str(statistic),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Reads the command line, prints the table and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sweep", type=Path, help="the folder of a sweep")
    parser.add_argument("picture", type=Path, help="the PNG to write")
    arguments = parser.parse_args()
    settings = read_settings(arguments.sweep)
    draw(settings, arguments.picture)
    sys.stdout.write("\n".join(table(settings)) + "\n")


if __name__ == "__main__":
    main()
