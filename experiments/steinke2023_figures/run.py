"""Figures 1, 2, 3, 10, 11 and 12 of Steinke et al. (2023); see README.md."""

import math
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy import optimize, stats

from experiments.steinke2023_figures.many_bounds import epsilon_lower_bounds
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value

DELTAS = (0.0, 1e-5, 1e-3)
SIGMA = 2.0
"""The deviation of the noise of figures 11 and 12, on signs: N(0, 4) as the paper writes it."""

EXAMPLES, CONFIDENCE, DELTA = 100_000, 0.95, 1e-5


def main(picture: Path) -> None:
    """Prints the numbers that the paper prints, and draws the six figures."""
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.4), constrained_layout=True)
    draws = (_figure_1, _figure_2, _figure_3, _figure_10, _figure_11, _figure_12)
    for axis, draw in zip(axes.ravel(), draws, strict=True):
        draw(axis)
        axis.set_title(draw.__name__.removeprefix("_").replace("_", " "), fontsize=9)
        axis.legend(fontsize=7)
    figure.savefig(picture, dpi=70)
    for name, paper, ours in _printed():
        sys.stdout.write(f"| {name} | {paper} | {ours} |\n")


def _printed() -> list[tuple[str, str, str]]:
    """What the paper prints of these figures, and what comes out: rows of the table."""
    guesses = np.arange(10, 6_001, 10)  # r/2 of each kind; the paper's 1,510 is the best ten
    bounds = _gaussian_bounds(guesses, CONFIDENCE, DELTA)
    best = int(np.argmax(bounds))
    right = _right_guesses(guesses[best : best + 1])[0]
    matching = optimize.brentq(lambda d: epsilon_of_sigma(SIGMA / 2, d) - bounds[best], 1e-6, 0.1)
    bound = epsilon_lower_bound(100, 100, 75, 0.0, CONFIDENCE)
    at_log_3 = p_value(100, 100, 75, math.log(3), 0.0)
    fixed = epsilon_lower_bound(EXAMPLES, 1500, 1429, DELTA, CONFIDENCE)
    return [
        ("figure 2: bound of 75 right guesses of 100, δ = 0", "0.702", f"{bound:.3f}"),
        ("figure 1: p-value of 75 of 100 at ε = ln 3, δ = 0", "0.553", f"{at_log_3:.3f}"),
        ("figure 11: largest bound", "2.675", f"{math.floor(1000 * bounds[best]) / 1000:.3f}"),
        ("figure 11: attained by", "1439 of 1510", f"{right} of {guesses[best]}"),
        ("figure 11: upper bound at δ = 1e-5", "4.38", f"{epsilon_of_sigma(SIGMA / 2, DELTA):.2f}"),
        ("figure 11: δ of an upper bound equal to it", "0.0039334", f"{matching:.7f}"),
        ("figure 12: right guesses of 1,500", "1429", str(_right_guesses(np.array([1500]))[0])),
        ("figure 12: bound at δ = 1e-5, 95 %", "not printed", f"{fixed:.3f}"),
    ]


def _right_guesses(guesses: np.ndarray) -> np.ndarray:
    """The right ones of so many guesses of figure 11, its ⌈r P(S = +1 | S + ξ > c)⌉."""
    signal, other = stats.norm(1, SIGMA), stats.norm(-1, SIGMA)
    cuts = [
        optimize.brentq(lambda c, r=r: signal.sf(c) + other.sf(c) - r / EXAMPLES, -20, 20)
        for r in guesses
    ]
    share = signal.sf(cuts) / (signal.sf(cuts) + other.sf(cuts))
    return np.ceil(guesses * share - 1e-9).astype(np.int64)


def _gaussian_bounds(guesses: np.ndarray, confidence: float, delta: float) -> np.ndarray:
    right = _right_guesses(guesses)
    return epsilon_lower_bounds(EXAMPLES, guesses, right, delta=delta, confidence=confidence)


def _figure_1(axes: Axes) -> None:
    """The p-value at ε = ln 3 against the right ones of 100 guesses."""
    right = range(101)
    for delta in DELTAS:
        values = [p_value(100, 100, v, math.log(3), delta) for v in right]
        axes.plot(right, values, label=f"δ = {delta:g}")
    axes.set_xlabel("right guesses of 100")
    axes.set_ylabel("p-value at ε = ln 3")


def _figure_2(axes: Axes) -> None:
    """The bound against the right ones of 100 guesses."""
    right = np.arange(50, 101)
    for delta in DELTAS:
        bounds = epsilon_lower_bounds(100, 100, right, delta=delta, confidence=CONFIDENCE)
        axes.plot(right, bounds, label=f"δ = {delta:g}")
    axes.plot(right[:-1], np.log(right[:-1] / (100 - right[:-1])), "k:", label="ideal")
    axes.set_xlabel("right guesses of 100")
    axes.set_ylabel("lower bound on ε")


def _figure_3(axes: Axes) -> None:
    """The bound from 1,000 guesses against the ideal ε."""
    right = np.arange(500, 1000)
    ideal = np.log(right / (1000 - right))
    for delta in DELTAS:
        bounds = epsilon_lower_bounds(1000, 1000, right, delta=delta, confidence=CONFIDENCE)
        axes.plot(ideal, bounds, label=f"δ = {delta:g}")
    axes.plot(ideal, ideal, "k:", label="ideal")
    axes.set_xlabel("ideal ε of 1,000 guesses")
    axes.set_ylabel("lower bound on ε")


def _figure_10(axes: Axes) -> None:
    """The bound where a share e⁴ / (e⁴ + 1) of all guesses is right."""
    guesses = np.unique(np.geomspace(10, 100_000, 200).astype(np.int64))
    right = np.floor(guesses / (1 + math.exp(-4))).astype(np.int64)
    for delta in DELTAS:
        bounds = [
            epsilon_lower_bound(int(m), int(m), int(v), delta, CONFIDENCE)
            for m, v in zip(guesses, right, strict=True)
        ]
        axes.semilogx(guesses, bounds, label=f"δ = {delta:g}")
    axes.axhline(4, color="k", linestyle=":", label="upper bound")
    axes.set_xlabel("guesses, no abstentions")
    axes.set_ylabel("lower bound on ε")


def _figure_11(axes: Axes) -> None:
    """The bound against the number of guesses of 100,000 in the Gaussian setting."""
    guesses = np.unique(np.geomspace(10, EXAMPLES, 150).astype(np.int64))
    for delta in DELTAS:
        bounds = _gaussian_bounds(guesses, CONFIDENCE, delta)
        axes.semilogx(guesses, bounds, label=f"δ = {delta:g}")
    upper = epsilon_of_sigma(SIGMA / 2, DELTA)
    axes.axhline(upper, color="k", linestyle=":", label="upper bound, δ = 1e-05")
    axes.set_ylim(top=1.5 * upper)  # room for the legend
    axes.set_xlabel("guesses of 100,000")
    axes.set_ylabel("lower bound on ε")


def _figure_12(axes: Axes) -> None:
    """The bound of 1,429 right guesses of 1,500 against δ."""
    deltas = np.geomspace(1e-9, 1e-1, 60)
    for confidence in (0.75, 0.95, 0.99):
        bounds = [epsilon_lower_bound(EXAMPLES, 1500, 1429, d, confidence) for d in deltas]
        axes.semilogx(deltas, bounds, label=f"{confidence:.0%} confidence")
    upper = [epsilon_of_sigma(SIGMA / 2, d) for d in deltas]
    axes.semilogx(deltas, upper, "k:", label="upper bound")
    axes.set_xlabel("δ")
    axes.set_ylabel("ε")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "steinke2023_figures.png"))
