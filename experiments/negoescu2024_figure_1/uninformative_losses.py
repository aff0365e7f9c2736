"""Epsilon* of losses that tell nothing, at the sizes of the two tables; see README.md.

Usage: python -m experiments.negoescu2024_figure_1.uninformative_losses
"""

import sys

import numpy as np

from experiments.negoescu2024_figure_1.run import delta_of
from fl_audit.estimators.epsilon_star import epsilon_star, epsilon_star_empirical
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

SIZES = ((284, 285), (898, 899))
"""Members and others of breast cancer and of digits."""

RUNS = 100


def main() -> None:
    """Prints a row per size: members, parametric Epsilon* and mean of the empirical one."""
    sys.stdout.write("| members | parametric | empirical |\n")
    for members, others in SIZES:
        random = np.random.default_rng(members)
        settings = [
            AuditSetting(
                CanaryScores(random.standard_normal(members), random.standard_normal(others)),
                delta_of(members),
                0.95,
            )
            for _ in range(RUNS)
        ]
        parametric = [epsilon_star(setting).epsilon for setting in settings]
        empirical = np.mean([epsilon_star_empirical(setting).epsilon for setting in settings])
        spread = f"{np.mean(parametric):.2f} ± {np.std(parametric):.2f}"
        sys.stdout.write(f"| {members} | {spread} | {empirical:.1f} |\n")


if __name__ == "__main__":
    main()
