"""Figure 6 of Negoescu et al. (2024), tests of mixtures on digits; see README.md."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from experiments.negoescu2024_appendix_b.mixtures import kolmogorov_smirnov_table
from experiments.negoescu2024_figure_1.run import private, trained, training_set
from experiments.negoescu2024_figure_1.tasks import TASKS
from fl_audit.estimators.epsilon_star import LossTransform

COMPONENTS, SIZES = range(1, 21), range(50, 401, 50)


def main() -> None:
    """Draws the p-values of one model without and of one with DP-SGD."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("models", type=Path, help="the folder that run.py keeps models in")
    arguments = parser.parse_args()
    arguments.models.mkdir(parents=True, exist_ok=True)
    task = TASKS["digits"]()
    members = training_set(len(task.points))
    recipes = {
        "without DP-SGD": replace(task.recipe, epochs=50),
        "DP-SGD, ε = 10": private(task.recipe, 10.0, int(members.sum()), None),
    }
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), constrained_layout=True)
    for axis, (name, recipe) in zip(axes, recipes.items(), strict=True):
        losses = -trained(task, recipe, members, arguments.models).margins[0]
        own, others = losses[members], losses[~members]
        table = kolmogorov_smirnov_table(
            LossTransform.from_losses(own, others).logits(own),
            num_components=COMPONENTS,
            num_samples=SIZES,
            seed=1,
        )
        drawn = axis.pcolormesh(SIZES, COMPONENTS, table.p_values, vmin=0, vmax=1, cmap="Greys_r")
        rejected = np.argwhere(table.p_values < 0.05)
        at = [np.array(values)[rejected[:, side]] for values, side in ((SIZES, 1), (COMPONENTS, 0))]
        axis.scatter(*at, marker="x", s=16, linewidths=1.2, color="red", label="below 0.05")
        axis.set(
            title=name, xlabel="held-out losses", ylabel="components", yticks=[1, 5, 10, 15, 20]
        )
        shares = table.not_rejected()
        sys.stdout.write(f"| {name} | {shares[0]:.0%} | {shares.mean():.0%} |\n")
    figure.colorbar(drawn, ax=axes, label="p-value")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center")
    figure.savefig(arguments.picture, dpi=80)


if __name__ == "__main__":
    main()
