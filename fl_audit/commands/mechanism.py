"""`fl-audit mechanism`: one-shot audits of the Gaussian mechanism."""

import argparse

from fl_audit.commands.parser import Commands, add_command
from fl_audit.commands.printing import print_json


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        _mechanism,
        name="mechanism",
        summary="one-shot audits of one release of a Gaussian mechanism",
        description="Audit single releases of a Gaussian mechanism (Andrew et al. 2023, Table 1).",
        example=(
            "fl-audit mechanism --epsilon 1 --delta 1e-5 --dim 10000 --canaries 1000 --trials 9 "
            "--seed 1"
        ),
    )
    parser.add_argument(
        "--epsilon", type=float, required=True, help="true epsilon, which determines sigma"
    )
    parser.add_argument("--delta", type=float, required=True, help="in (0, 1)")
    parser.add_argument("--dim", type=int, required=True, help="length of a release")
    parser.add_argument("--canaries", type=int, required=True, help="canaries in each release")
    parser.add_argument("--trials", type=int, required=True, help="independent releases")
    parser.add_argument("--seed", type=int, required=True, help="seed of canaries and noise")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _mechanism(arguments: argparse.Namespace) -> int:
    from fl_audit.attacks.one_release import audit_gaussian_mechanism

    audit = audit_gaussian_mechanism(
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        dim=arguments.dim,
        num_canaries=arguments.canaries,
        num_trials=arguments.trials,
        seed=arguments.seed,
    )
    if arguments.json:
        print_json(audit.to_json())
        return 0
    print(f"sigma {audit.sigma:.6g} for epsilon {arguments.epsilon:g}, delta {arguments.delta:g}")
    print(
        f"estimated epsilon {audit.mean:.4g} ± {audit.std:.3g} "
        f"(mean and standard deviation, {arguments.trials} trial{'s'[: arguments.trials != 1]})"
    )
    return 0
