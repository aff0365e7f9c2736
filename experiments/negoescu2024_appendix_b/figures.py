"""Figures 3 to 5 of Negoescu et al. (2024), appendix B; see README.md."""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from experiments.method_colours import COLOURS
from experiments.negoescu2024_appendix_b.run import estimates, true_epsilon_star
from fl_audit.array_types import FloatArray

DELTA, SAMPLES, RUNS = 1e-5, (1000, 10_000, 100_000), 3
MEMBERS, OTHERS, TRIMMED_BELOW = stats.norm(0, 1), stats.norm(3, 1), 1e-9
"""The distributions of figure 3, and the rates that it leaves out."""


def main() -> None:
    """Draws the figures, and prints the largest values of figure 3."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    figure, axes = plt.subplots(2, 4, figsize=(14, 6), constrained_layout=True)
    thresholds = np.linspace(-8, 11, 20_001)
    truth = MEMBERS.cdf(thresholds), OTHERS.cdf(thresholds)
    _figure_3(axes[0, 0], "true CDFs", *truth)
    for axis, samples in zip(axes[0, 1:], SAMPLES, strict=True):
        rng = np.random.default_rng(samples)
        sides = (distribution.rvs(samples, random_state=rng) for distribution in (MEMBERS, OTHERS))
        _figure_3(axis, f"empirical, n = {samples:,}", *(_cdf(s, thresholds) for s in sides))
    for axis, d in zip(axes[1], range(4), strict=True):
        _figures_4_and_5(axis, d)
    figure.savefig(arguments.picture, dpi=70)


def _cdf(losses: FloatArray, thresholds: FloatArray) -> FloatArray:
    at_most = np.searchsorted(np.sort(losses), thresholds, side="right")
    return np.asarray(at_most / len(losses))


def _figure_3(axes: Axes, title: str, tpr: FloatArray, fpr: FloatArray) -> None:
    """The first two expressions of equation 7 against the mean of both rates."""
    middle = (tpr + fpr) / 2
    largest = 0.0
    for name, over, under in (
        ("(TPR − δ) / FPR", tpr, fpr),
        ("(TNR − δ) / FNR", 1 - fpr, 1 - tpr),
    ):
        kept = (under > TRIMMED_BELOW) & (over > DELTA)
        ratios = (over[kept] - DELTA) / under[kept]
        axes.semilogy(middle[kept], ratios, ".", markersize=2, label=name)
        largest = max(largest, float(np.max(ratios)))
    axes.set(title=f"figure 3: {title}", xlabel="(TPR + FPR) / 2")
    axes.legend(fontsize=7)
    sys.stdout.write(f"| figure 3, {title} | largest log ratio {np.log(largest):.2f} |\n")


def _figures_4_and_5(axes: Axes, d: int) -> None:
    """Means and deviations over runs against the number of losses."""
    found = np.array([estimates(d, n, DELTA, RUNS, seed=2024) for n in SAMPLES])
    names = {"empirical": "epsilon_star_empirical", "parametric": "epsilon_star"}
    for column, (name, method) in enumerate(names.items()):
        own, colour = found[:, :, column], COLOURS[method]
        axes.errorbar(
            SAMPLES, own.mean(axis=1), own.std(axis=1), None, "o-", color=colour, label=name
        )
    for below, style in ((DELTA, "--"), (0.001, ":")):
        truth = true_epsilon_star(d, DELTA, below)
        axes.axhline(truth, color="0.5", linestyle=style, label=f"truth, rates > {below:g}")
    number = 4 if d == 0 else 5
    axes.set(title=f"figure {number}: d = {d}", xlabel="losses", ylabel="ε*", xscale="log")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)


if __name__ == "__main__":
    main()
