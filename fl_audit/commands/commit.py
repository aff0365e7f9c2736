"""`fl-audit commit`: pin config, method and claim before training."""

import argparse
import secrets

from fl_audit.commands.parser import (
    Commands,
    add_command,
    add_config_arguments,
    config_of,
    output_file,
)
from fl_audit.commands.printing import print_lines
from fl_audit.progress import doing, warn

_EASILY_TRIED = 2**40
"""Whoever sees the rounds of participation can find a smaller seed by brute force."""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        _commit,
        name="commit",
        summary="fix config, method and claim before training",
        description=(
            "Write a commitment to a config and its input files: the claim and its tests in "
            "plain words, and a digest of every key under a secret nonce, which keeps the seed "
            "from being guessed. Publish FILE before `fl-audit run CONFIG --commitment FILE`. "
            "FILE.opening holds the nonce: keep it secret until you hand over the run's folder."
        ),
        example="fl-audit commit config.toml --out commitment.json",
    )
    add_config_arguments(parser, "the config of the run")
    parser.add_argument(
        "--out", metavar="FILE", type=output_file, required=True, help="the file to write"
    )


def _commit(arguments: argparse.Namespace) -> int:
    """Writes the commitment and its opening; warns of a seed that can be guessed."""
    from fl_audit.config.commitment import (
        check_uncommitted,
        commitment_to,
        opening_of,
        write_commitment,
    )
    from fl_audit.config.inputs import read_inputs
    from fl_audit.engines.prepare import prepare
    from fl_audit.verdict.chosen_tests import check_claim

    config = config_of(arguments)
    check_uncommitted(arguments.out)
    if config.seed < _EASILY_TRIED:
        warn(
            f"the commitment hides seed {config.seed}, but anyone who sees rounds can try all "
            f"small seeds; better: seed = {secrets.randbelow(2**63)}"
        )
    with doing("loading the data"):
        run = prepare(config)
        check_claim(run)
        inputs = read_inputs(config, run.task)
    opened = commitment_to(config, inputs)
    write_commitment(arguments.out, opened)
    print_lines(
        [
            f"commitment: {arguments.out}, SHA-256 {opened.digest}: publish the file, or this "
            "digest, now",
            f"opening: {opening_of(arguments.out)}: keep this file secret until the run is over",
        ]
    )
    return 0
