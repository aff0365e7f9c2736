"""Table 1 and figures 4 to 6 of Yıldırım et al. (2025); see README.md."""

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
from fl_audit.estimators.challenge_bases import ChainSettings, ChallengeCounts, posterior
from fl_audit.estimators.challenge_bases.counts_and_priors import Prior
from fl_audit.estimators.challenge_bases.mhaar_chains import MhaarDraws, mhaar_posterior
from fl_audit.estimators.challenge_bases.posterior_summary import Marginal
from fl_audit.membership.measure_mia import measure_mia_fast
from fl_audit.report.chart import BLUE, INK
from fl_audit.report.posterior import plot_autocorrelation, plot_joint

DELTA, TARGET, CONFIDENCE = 1e-3, 0.1, 0.9
FILES = {
    "A1": "wo_DP_fixed_weights_0.1",
    "A2": "wo_DP_random_weights_0.1",
    "A3, σ = 0.1": "w_DP_fixed_weights_0.1",
    "A4, σ = 0.1": "w_DP_random_weights_0.1",
    "A4, σ = 0.05": "w_DP_random_weights_0.05",
    "A4, σ = 0.01": "w_DP_random_weights_0.01",
}
"""The algorithms of Table 1, and the files of the authors' losses."""

TABLE_1 = {
    "A1": "5.52 to 10.52",
    "A2": "4.95 to 10.00",
    "A3, σ = 0.1": "1.29 to 2.53",
    "A4, σ = 0.1": "1.00 to 2.12",
    "A4, σ = 0.05": "2.80 to 7.68",
    "A4, σ = 0.01": "4.61 to 9.62",
}

_LARGEST_EPSILON = 11

Losses = Mapping[str, tuple[FloatArray, FloatArray]]
"""Losses without and with the point by algorithm, each of shape (bases, models)."""


def main() -> None:
    """Prints Table 1 of the losses that were asked for, and draws the figures."""
    arguments = _parsed()
    losses = _losses(arguments)
    figure, axes = plt.subplots(
        3, len(losses), figsize=(2.3 * len(losses), 6.3), constrained_layout=True, squeeze=False
    )
    for column, (name, (without, having)) in zip(axes.T, losses.items(), strict=True):
        measured = measure_mia_fast(without, having)
        counts = measured.counts(TARGET)
        draws = _chain(counts, ChainSettings(draws=arguments.draws, auxiliary=arguments.auxiliary))
        grid = posterior(counts, DELTA, confidence=CONFIDENCE).epsilon
        _plot_counts(column[0], measured.curve(np.linspace(0.01, 0.99, 99)), without.shape[1])
        column[0].set_title(name)
        plot_joint(column[1], draws)
        column[1].set(xlim=(0, _LARGEST_EPSILON), ylim=(0, 1))
        plot_autocorrelation(column[2], {"ε": draws.epsilon})
        found = draws.summary(CONFIDENCE)
        words = [name, TABLE_1.get(name, ""), _interval(found.epsilon), _interval(grid)]
        words += [f"{found.strength.mean:.2f}", f"{counts.fn.sum() / counts.n1.sum():.2f}"]
        words += [f"{found.ess:.0f}", f"{found.r_hat:.3f}"]
        sys.stdout.write(f"| {' | '.join(words)} |\n")
        sys.stdout.flush()
    figure.savefig(arguments.picture, dpi=70)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--published", type=Path, help="the folder `data` of the authors' program")
    parser.add_argument("--losses", type=Path, help="an .npz file: read if there, else written")
    parser.add_argument("--bases", type=int, default=20)
    parser.add_argument("--models", type=int, default=100, help="of each side of a base")
    parser.add_argument("--draws", type=int, default=8_000, help="of the chains")
    parser.add_argument("--auxiliary", type=int, default=32, help="K of the chains")
    return parser.parse_args()


def _losses(arguments: argparse.Namespace) -> Losses:
    if arguments.published is not None:
        return published_losses(arguments.published)
    kept: Path | None = arguments.losses
    if kept is not None and kept.exists():
        with np.load(kept) as arrays:
            return {name: (arrays[name][0], arrays[name][1]) for name in arrays.files}
    # Published and kept losses need no TensorFlow.
    from experiments.yildirim2025_table1.digits import trained_losses

    losses = trained_losses(arguments.bases, arguments.models, seed=1)
    if kept is not None:
        np.savez(kept, **{name: np.stack(sides) for name, sides in losses.items()})
    return losses


def published_losses(folder: Path) -> Losses:
    """The losses of the authors' files `dp_attack_*.txt`: lines `l_0 : (…)` and `l_1 : (…)`."""
    found = {}
    for name, file in FILES.items():
        text = (folder / f"dp_attack_{file}.txt").read_text()
        sides = [
            np.array([row.split(",") for row in re.findall(rf"l_{side}\s*:\s*\((.*?)\)", text)])
            for side in (0, 1)
        ]
        found[name] = (sides[0].astype(float), sides[1].astype(float))
    return found


def _chain(counts: ChallengeCounts, settings: ChainSettings) -> MhaarDraws:
    """The draws of equation 7's posterior."""
    return mhaar_posterior(
        counts,
        DELTA,
        Prior(),
        correlated=True,
        settings=settings,
        rng=np.random.default_rng(0),
    )


def _interval(marginal: Marginal) -> str:
    return f"{marginal.lower:.2f} to {marginal.upper:.2f}"


def _plot_counts(axes: Axes, curve: tuple[FloatArray, FloatArray], models: int) -> None:
    """The error rates of each base at all target rates, and its counts at the one of Table 1."""
    false_positives, false_negatives = (counts / models for counts in curve)
    lines = axes.plot(false_positives, false_negatives, color=BLUE, lw=0.6, alpha=0.6)
    dots = axes.plot(false_positives[9], false_negatives[9], ".", color=INK, markersize=3)
    axes.legend([lines[0], dots[0]], ["a base", "at α* = 0.1"], loc="upper right", fontsize=7)
    axes.set(xlabel="false positives", ylabel="false negatives", xlim=(0, 1), ylim=(0, 1))


if __name__ == "__main__":
    main()
