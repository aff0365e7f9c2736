"""Real releases of the Gaussian mechanism, audited: Table 1 of Andrew et al. (2023); see README.md.

    python -m experiments.andrew2023_table1.releases --trials 5

prints the table's rows and writes epsilon_1.json, epsilon_3.json and epsilon_10.json here, or into
`--out`: what `fl-audit mechanism --json` prints. A trial takes about half a minute on two cores.
"""

import argparse
import json
import sys
from pathlib import Path

from fl_audit.attacks.one_release import MechanismAudit, audit_gaussian_mechanism
from fl_audit.formats.text_files import write_text

EPSILONS = (1, 3, 10)
DIM, CANARIES, DELTA = 10**6, 10**3, 1e-6


def audits(trials: int, dim: int = DIM, canaries: int = CANARIES) -> dict[int, MechanismAudit]:
    """The audits of the table's rows by epsilon, which is its row's seed too.

    Rows with one seed would share canaries and noise.

    Args:
      trials: The releases of each row.
      dim: The length of a release; the table's own by default.
      canaries: The canaries in a release; the table's own by default.
    """
    return {
        epsilon: audit_gaussian_mechanism(
            epsilon=epsilon,
            delta=DELTA,
            dim=dim,
            num_canaries=canaries,
            num_trials=trials,
            seed=epsilon,
        )
        for epsilon in EPSILONS
    }


def main() -> None:
    """Reads the command line, prints the rows and writes the files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trials", type=int, default=50, help="releases a row; 50 in the paper")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="for the files")
    arguments = parser.parse_args()
    sys.stdout.write("| ε | σ | estimate |\n|---|---|---|\n")
    for epsilon, audit in audits(arguments.trials).items():
        write_text(arguments.out / f"epsilon_{epsilon}.json", json.dumps(audit.to_json()) + "\n")
        row = f"| {epsilon} | {audit.sigma:.4f} | {audit.mean:.3f} ± {audit.std:.3f} |\n"
        sys.stdout.write(row)


if __name__ == "__main__":
    main()
