"""Figures 2 and 3 of Yıldırım et al. (2025), from made counts; see README.md."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from experiments.method_colours import COLOURS
from fl_audit.array_types import FloatArray
from fl_audit.estimators.challenge_bases import ChainSettings, ChallengeCounts
from fl_audit.estimators.challenge_bases.counts_and_priors import FixedStrength, Prior
from fl_audit.estimators.challenge_bases.grid import grid_posterior
from fl_audit.estimators.challenge_bases.mhaar_chains import mhaar_posterior
from fl_audit.report.posterior import plot_epsilon, plot_joint, plot_rates, plot_strength

DELTA, CONFIDENCE = 0.01, 0.9
"""The paper prints no delta here; this is that of the authors' program."""

STRONG = ChallengeCounts(
    [40, 50, 60, 100, 100, 110, 120, 200, 200, 200],
    [1000] * 10,
    [250, 200, 150, 100, 120, 100, 100, 80, 70, 60],
    [1000] * 10,
)
STRENGTHS = np.array([0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.925, 0.95, 0.975, 0.99])
SAMPLES = np.arange(100, 1001, 100)
"""Figure 2's strengths at 500 + 500 challenges and its numbers of challenges at s = 0.99.

These, too, stand in the authors' program (`main_artificial_exp1`) and not in the paper.
"""


def main() -> None:
    """Prints the intervals of both figures, and draws them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--draws", type=int, default=8_000, help="of the chains")
    arguments = parser.parse_args()
    figure, axes = plt.subplots(2, 5, figsize=(15, 5.6), constrained_layout=True)
    at_strengths = [_one_attack(500, float(s)) for s in STRENGTHS]
    _figure_2(axes[0, 0], STRENGTHS, at_strengths, "strength s; N = 500")
    of_samples = [_one_attack(int(n), 0.99) for n in SAMPLES]
    _figure_2(axes[1, 0], SAMPLES, of_samples, "N; s = 0.99")
    for row, name, counts in zip(axes, ("weak", "strong"), (weak_attacks(1), STRONG), strict=True):
        _figure_3(row[1:], name, counts, arguments.draws)
    figure.savefig(arguments.picture, dpi=70)


def weak_attacks(seed: int) -> ChallengeCounts:
    """The counts of the first scenario: error rates of ten bases from Beta(10, 10)."""
    rng = np.random.default_rng(seed)
    alpha, beta = rng.beta(10, 10, (2, 10))
    return ChallengeCounts(
        rng.binomial(1000, alpha), [1000] * 10, rng.binomial(1000, beta), [1000] * 10
    )


def _one_attack(samples: int, strength: float) -> tuple[float, float, float]:
    """The ends and the mean of epsilon's interval where 40 % of both kinds are errors."""
    wrong = [int(0.4 * samples)]
    counts = ChallengeCounts(wrong, [samples], wrong, [samples])
    prior = Prior(strength=FixedStrength(strength))
    found = grid_posterior(counts, DELTA, prior).summary(CONFIDENCE).epsilon
    return found.lower, found.upper, found.mean


def _figure_2(
    axes: Axes, x: FloatArray, intervals: Sequence[tuple[float, float, float]], label: str
) -> None:
    lower, upper, mean = np.array(intervals).T
    colour = COLOURS["mcmc"]
    axes.fill_between(x, lower, upper, color=colour, alpha=0.28, lw=0, label="90 % interval")
    axes.plot(x, mean, color=colour, label="mean")
    axes.legend(loc="upper right")
    axes.set_xlabel(label)
    axes.set_ylabel("ε")
    axes.set_title("figure 2")
    for at in (0, -1):
        name = label.replace(";", f" = {x[at]:g},")
        sys.stdout.write(f"| 2: {name} | | {lower[at]:.2f} to {upper[at]:.2f} |\n")


def _figure_3(axes: Sequence[Axes], name: str, counts: ChallengeCounts, draws: int) -> None:
    """The error rates, the posteriors of epsilon and strength, and the joint one."""
    prior = Prior()
    settings = ChainSettings(draws=draws)
    rng = np.random.default_rng(0)
    found = mhaar_posterior(counts, DELTA, prior, correlated=False, settings=settings, rng=rng)
    summary, exact = found.summary(CONFIDENCE), grid_posterior(counts, DELTA, prior)
    plot_rates(axes[0], counts, DELTA, summary.epsilon)
    plot_epsilon(axes[1], found, prior, summary.epsilon)
    plot_strength(axes[2], found, prior, summary.strength)
    plot_joint(axes[3], found)
    axes[0].set_title(f"figure 3: {name} attacks")
    by_grid = exact.summary(CONFIDENCE)
    for label, one, other in (
        ("ε", summary.epsilon, by_grid.epsilon),
        ("s", summary.strength, by_grid.strength),
    ):
        words = [f"{of.lower:.2f} to {of.upper:.2f}" for of in (one, other)]
        sys.stdout.write(f"| 3, {name} attacks: {label} | {' | '.join(words)} |\n")


if __name__ == "__main__":
    main()
