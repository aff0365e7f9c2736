"""Table 1 and figures 2 to 6 of Yıldırım et al. (2025); see README.md."""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from fl_audit.array_types import FloatArray
from fl_audit.estimators.challenge_bases.counts import ChallengeCounts
from fl_audit.estimators.challenge_bases.mhaar import ChainSettings
from fl_audit.estimators.challenge_bases.posterior import posterior
from fl_audit.estimators.challenge_bases.prior import FixedStrength, Prior
from fl_audit.membership.measure_mia import measure_mia_fast

DELTA, TARGET = 1e-3, 0.1
NAMES = {
    "A1": "wo_DP_fixed_weights_0.1",
    "A2": "wo_DP_random_weights_0.1",
    "A3, σ = 0.1": "w_DP_fixed_weights_0.1",
    "A4, σ = 0.1": "w_DP_random_weights_0.1",
    "A4, σ = 0.05": "w_DP_random_weights_0.05",
    "A4, σ = 0.01": "w_DP_random_weights_0.01",
}
"""The algorithms of Table 1, and the files of the authors' losses."""

Losses = Mapping[str, tuple[FloatArray, FloatArray]]
"""Losses without and with the point by algorithm, each of shape (bases, models)."""


def main() -> None:
    """Prints Table 1 of the losses that were asked for, and draws the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--published", type=Path, help="the folder `data` of the authors' program")
    parser.add_argument("--bases", type=int, default=20)
    parser.add_argument("--models", type=int, default=30, help="of each side of a base")
    parser.add_argument("--draws", type=int, default=20_000, help="of the chain")
    arguments = parser.parse_args()
    if arguments.published is None:
        # Published losses need no TensorFlow.
        from experiments.yildirim2025_table1.digits import trained_losses

        losses = trained_losses(arguments.bases, arguments.models, seed=1)
    else:
        losses = published_losses(arguments.published)
    figure, axes = plt.subplots(2, 4, figsize=(13, 6), constrained_layout=True)
    _figure_2(axes[0, 0], axes[1, 0])
    for name, axis in zip(list(NAMES)[:4], axes[:, 1:3].ravel(), strict=True):
        _figure_4(axis, name, losses[name])
    _figure_5(axes[0, 3], losses)
    axes[1, 3].set_axis_off()
    figure.savefig(arguments.picture, dpi=70)
    for name, (without, having) in losses.items():
        counts = measure_mia_fast(without, having).counts(TARGET)
        cells = [name, *(_interval(counts, draws) for draws in (arguments.draws, None))]
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()


def published_losses(folder: Path) -> Losses:
    """The losses of the authors' files `dp_attack_*.txt`: lines `l_0 : (…)` and `l_1 : (…)`."""
    found = {}
    for name, file in NAMES.items():
        text = (folder / f"dp_attack_{file}.txt").read_text()
        sides = [
            np.array([row.split(",") for row in re.findall(rf"l_{side}\s*:\s*\((.*?)\)", text)])
            for side in (0, 1)
        ]
        found[name] = (sides[0].astype(float), sides[1].astype(float))
    return found


def _interval(counts: ChallengeCounts, draws: int | None) -> str:
    """The 90 % credible interval, by the chain of equation 7 or by the grid of equation 1."""
    settings = None if draws is None else ChainSettings(draws=draws)
    found = posterior(counts, DELTA, correlated=draws is not None, settings=settings).epsilon
    return f"{found.lower:.2f} to {found.upper:.2f}"


def _figure_2(of_strength: Axes, of_samples: Axes) -> None:
    """Intervals of one attack with error rates 0.4 against its strength, and against N."""
    strengths = np.linspace(0, 0.95, 9)
    counts = [ChallengeCounts([400], [1000], [400], [1000])] * len(strengths)
    priors = [Prior(strength=FixedStrength(float(s))) for s in strengths]
    _plot_intervals(of_strength, strengths, counts, priors)
    of_strength.set_xlabel("strength s, N = 1,000")
    samples = np.array([10, 30, 100, 300, 1000, 3000])
    wrong = [int(0.4 * n) for n in samples]
    counts = [
        ChallengeCounts([w], [int(n)], [w], [int(n)]) for w, n in zip(wrong, samples, strict=True)
    ]
    strong = Prior(strength=FixedStrength(0.9))
    _plot_intervals(of_samples, samples, counts, [strong] * len(samples))
    of_samples.set_xscale("log")
    of_samples.set_xlabel("N, s = 0.9")


def _plot_intervals(
    axes: Axes, x: FloatArray, counts: list[ChallengeCounts], priors: list[Prior]
) -> None:
    found = [posterior(c, 0.0, prior=p).epsilon for c, p in zip(counts, priors, strict=True)]
    axes.fill_between(x, [f.lower for f in found], [f.upper for f in found], alpha=0.4)
    axes.plot(x, [f.mean for f in found])
    axes.set_ylabel("ε, 90 %")
    axes.set_title("figure 2", fontsize=9)


def _figure_4(axes: Axes, name: str, losses: tuple[FloatArray, FloatArray]) -> None:
    """The error counts of each base at all target rates."""
    rates = np.linspace(0.01, 0.99, 99)
    false_positives, false_negatives = measure_mia_fast(*losses).curve(rates)
    models = losses[0].shape[1]
    axes.plot(false_positives / models, false_negatives / models, linewidth=0.7)
    axes.set_title(f"figure 4: {name}", fontsize=9)
    axes.set_xlabel("false positives")
    axes.set_ylabel("false negatives")


def _figure_5(axes: Axes, losses: Losses) -> None:
    """Means of the counts at the target rate against output noise."""
    for name, (without, having) in losses.items():
        counts = measure_mia_fast(without, having).counts(TARGET)
        axes.scatter(counts.fp / counts.n0, counts.fn / counts.n1, s=9, label=name)
    axes.set_title("figure 5: counts at α* = 0.1", fontsize=9)
    axes.set_xlabel("false positives")
    axes.legend(fontsize=6)


if __name__ == "__main__":
    main()
