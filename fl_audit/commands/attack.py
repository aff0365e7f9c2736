"""`fl-audit attack`: train many models of a task, and attack them."""

import argparse
from pathlib import Path

from fl_audit.commands.parser import Commands, add_command, add_config_arguments
from fl_audit.commands.printing import print_json, print_path
from fl_audit.number_words import delta_text, epsilon_text, lower_bound_text, upper_bound_text


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        _attack,
        name="attack",
        summary="membership inference with shadow models, on examples or clients",
        description=(
            "Train shadow models of a task, choose the most exposed examples, and run membership "
            "inference (LiRA): which models were trained with such an example? With the config of "
            "a run, each model is a whole federated run, and clients take the place of examples."
        ),
        example="fl-audit attack attack.toml --out runs/attack",
    )
    add_config_arguments(parser, "config of the task or the run, with a table [attack]")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="the folder to write"
    )
    parser.add_argument("--resume", action="store_true", help="continue the attack in DIR")
    parser.add_argument("--json", action="store_true", help="print report.json")


def _attack(arguments: argparse.Namespace) -> int:
    """Attacks, with progress on standard error, and prints the results."""
    from fl_audit.config.attack_tables import FederatedAttack, load_attack_config, num_models
    from fl_audit.pipeline.attack_targets import continue_attack, start_attack
    from fl_audit.progress import Progress

    config = load_attack_config(arguments.config, arguments.overrides)
    go = continue_attack if arguments.resume else start_attack
    unit = "run" if isinstance(config.attack, FederatedAttack) else "model"
    with Progress("attack", num_models(config.attack), unit) as progress:
        report = go(config, arguments.out, lambda models, _: progress.advance(models))
    if arguments.json:
        print_json(report.to_json())
        return 0
    width = max(map(len, report.results))
    share = f"{100 * report.confidence:g} %"
    for name, result in report.results.items():
        bayes, valid = result.estimates[:2]
        scores = report.scores[name]
        models = scores.num_included + scores.num_excluded
        most = f" (the most that {models:,} models can show)"
        print(
            f"{name:<{width}}  {share} credible interval of epsilon {epsilon_text(bayes.lower)} to "
            f"{epsilon_text(bayes.upper)}, {share} lower bound {lower_bound_text(valid.lower)}"
            f"{most if valid.is_without_error else ''}"
        )
    most = f"{upper_bound_text(report.upper_bound.epsilon)} at delta {delta_text(report.delta)}"
    print(f"upper bound from accounting: epsilon {most}")
    print_path("report", arguments.out / "report.html")
    return 0
