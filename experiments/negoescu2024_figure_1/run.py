"""Figure 1 of Negoescu et al. (2024), privacy against utility; see README.md."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from experiments.negoescu2024_figure_1.tasks import TASKS, PlottedTask
from fl_audit.array_types import FloatArray
from fl_audit.engines.shadow_recipe import DpSgd, Recipe, with_epsilon
from fl_audit.engines.tff.shadow_models import ModelJob, ModelOutputs, train_models
from fl_audit.estimators.epsilon_star import epsilon_star, epsilon_star_empirical
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

MODELS = 5
"""The models of one strategy, all on the same training set, as in the paper."""

EPOCHS = (1, 5, 10, 50, 100)
"""The numbers of epochs without noise."""

EPSILONS = (1.0, 3.0, 10.0, 100.0)
CLIP_NORM = 1.0
MICROBATCHES = (None, 32)
"""The numbers of micro-batches of DP-SGD; None for examples one by one."""


@dataclass(frozen=True, eq=False)
class Strategy:
    """One way of training, and what its models gave.

    Attributes:
      name: The name of the way, with all that was varied.
      is_private: Whether it is DP-SGD.
      epsilon_star: Epsilon* of each model, parametric, float64 of shape (models,).
      empirical: The same from the empirical distributions.
      accuracy: Share of the other points classified correctly, of shape (models,).
    """

    name: str
    is_private: bool
    epsilon_star: FloatArray
    empirical: FloatArray
    accuracy: FloatArray


def main() -> None:
    """Trains all strategies of all tasks, prints a row of each, and draws the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("models", type=Path, help="a folder that keeps what was trained")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    arguments = parser.parse_args()
    arguments.models.mkdir(parents=True, exist_ok=True)
    width = 5 * len(arguments.tasks) + 2.4
    figure, axes = plt.subplots(
        1, len(arguments.tasks), figsize=(width, 4.8), constrained_layout=True, squeeze=False
    )
    for axis, name in zip(axes[0], arguments.tasks, strict=True):
        strategies = []
        for strategy in _strategies(TASKS[name](), arguments.models):
            strategies.append(strategy)
            sys.stdout.write(f"| {name} | {_row(strategy)} |\n")
            sys.stdout.flush()
        _plot(axis, name, strategies)
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside right center", fontsize=8)
    figure.savefig(arguments.picture, dpi=80)


def _strategies(task: PlottedTask, folder: Path) -> Iterator[Strategy]:
    """All strategies of a task: numbers of epochs without noise, then DP-SGD."""
    members = training_set(len(task.points))
    size = int(members.sum())
    for epochs in EPOCHS:
        recipe = replace(task.recipe, epochs=epochs)
        outputs = trained(task, recipe, members, folder)
        yield _measured(f"{epochs} epoch{'s' * (epochs > 1)}", outputs, members, is_private=False)
    for parts in MICROBATCHES:
        for epsilon in EPSILONS:
            recipe = private(task.recipe, epsilon, size, parts)
            name = f"DP-SGD, ε = {epsilon:g}" + (f", {parts} micro-batches" if parts else "")
            outputs = trained(task, recipe, members, folder)
            yield _measured(name, outputs, members, is_private=True)


def private(recipe: Recipe, epsilon: float, size: int, parts: int | None) -> Recipe:
    """The recipe with DP-SGD of an analytical epsilon, perhaps in micro-batches."""
    noiseless = replace(recipe, privacy=DpSgd(CLIP_NORM, 0.0, size, parts))
    return with_epsilon(noiseless, epsilon, delta_of(size))


def training_set(num_points: int) -> npt.NDArray[np.bool_]:
    """A random half of the points, the same for all models."""
    members = np.zeros(num_points, np.bool_)
    members[np.random.default_rng(1).permutation(num_points)[: num_points // 2]] = True
    return members


def trained(
    task: PlottedTask, recipe: Recipe, members: npt.NDArray[np.bool_], folder: Path
) -> ModelOutputs:
    """The outputs of a strategy's models, trained or read."""
    job = ModelJob(task.classifier, task.name, task.points, recipe, seed=1)
    training = np.tile(members, (MODELS, 1))
    return train_models(
        job, training, 0, folder=folder, models_per_block=MODELS, after_block=lambda _, __: None
    )


def _measured(
    name: str, outputs: ModelOutputs, members: npt.NDArray[np.bool_], is_private: bool
) -> Strategy:
    delta = delta_of(int(members.sum()))
    settings = [
        AuditSetting(CanaryScores(own[members], own[~members]), delta, 0.95)
        for own in outputs.margins
    ]
    return Strategy(
        name,
        is_private,
        np.array([epsilon_star(setting).epsilon for setting in settings]),
        np.array([epsilon_star_empirical(setting).epsilon for setting in settings]),
        np.mean(outputs.correct[:, ~members], axis=1),
    )


def delta_of(size: int) -> float:
    """The delta of the paper's section 4."""
    return float(1 / (size * np.log(size)))


def _row(strategy: Strategy) -> str:
    star = strategy.epsilon_star
    return " | ".join(
        [
            strategy.name,
            f"{strategy.accuracy.mean():.1%}",
            f"{star.mean():.2f} ({star.min():.2f} to {star.max():.2f})",
            f"{strategy.empirical.mean():.2f}",
        ]
    )


def convex_hull(epsilons: npt.ArrayLike, accuracies: npt.ArrayLike) -> list[int]:
    """The points with no better mixture of two others, by rising epsilon: the paper's front.

    A mixture is better if its epsilon is no larger and its accuracy no smaller.

    >>> convex_hull([0, 1, 2, 3, 4], [0, 5, 6, 9, 8])
    [0, 1, 3]
    """
    x, y = np.asarray(epsilons, np.float64), np.asarray(accuracies, np.float64)
    hull: list[int] = []
    for new in np.lexsort((-y, x)).tolist():
        if hull and y[new] <= y[hull[-1]]:
            continue
        while len(hull) > 1 and _is_below(hull[-2], hull[-1], new, x, y):
            hull.pop()
        hull.append(new)
    return hull


def _is_below(left: int, middle: int, right: int, x: FloatArray, y: FloatArray) -> bool:
    """Whether the middle point is on or below the line through the others."""
    rise = (y[right] - y[left]) * (x[middle] - x[left])
    return bool((y[middle] - y[left]) * (x[right] - x[left]) <= rise)


def _plot(axes: Axes, name: str, strategies: Sequence[Strategy]) -> None:
    """Means with the ranges over models, and the hull."""
    for one, (colour, marker) in zip(strategies, looks(strategies), strict=True):
        x, y = one.epsilon_star, 100 * one.accuracy
        axes.errorbar(
            x.mean(),
            y.mean(),
            xerr=[[x.mean() - x.min()], [x.max() - x.mean()]],
            yerr=[[y.mean() - y.min()], [y.max() - y.mean()]],
            fmt=marker,
            color=colour,
            ecolor=(*colour[:3], 0.45),
            markeredgecolor="black",
            markeredgewidth=0.5,
            markersize=7,
            linewidth=1,
            label=one.name,
        )
    means = np.array([(one.epsilon_star.mean(), 100 * one.accuracy.mean()) for one in strategies])
    hull = means[convex_hull(*means.T)]
    axes.plot(*hull.T, color="0.5", linewidth=1, zorder=0, label="convex hull")
    axes.set(title=name, xlabel="ε*", ylabel="accuracy on other points (%)")


_FAMILIES = {False: ("Oranges", "o"), True: ("Blues", "s")}
_MICROBATCHED = ("Greens", "^")


def looks(strategies: Sequence[Strategy]) -> list[tuple[tuple[float, ...], str]]:
    """The colour and marker of each strategy: one hue a family, darker from one to the next.

    Plain SGD is orange, DP-SGD blue, DP-SGD in micro-batches green.
    """
    families = [
        _MICROBATCHED if "micro-batches" in one.name else _FAMILIES[one.is_private]
        for one in strategies
    ]
    made = []
    for index, (hue, marker) in enumerate(families):
        place = families[:index].count((hue, marker))
        shade = 0.3 + 0.65 * place / max(families.count((hue, marker)) - 1, 1)
        made.append((tuple(map(float, plt.get_cmap(hue)(shade))), marker))
    return made


if __name__ == "__main__":
    main()
