"""The exit status of a command that reaches a verdict."""

import argparse

from fl_audit.errors import InputError

EXIT_CONTRADICTED = 3
EXIT_NOT_CONSISTENT = 4


def add_require(parser: argparse.ArgumentParser) -> None:
    """Adds the option that demands more than a claim that is not contradicted."""
    parser.add_argument(
        "--require",
        choices=("consistent",),
        help="exit with status 4 where the claim is neither consistent nor contradicted",
    )


def check_required(required: str | None, *, is_claimed: bool, how: str) -> None:
    """Refuses to require a verdict where nothing is claimed.

    Args:
      required: What --require asks for; None for nothing.
      is_claimed: Whether there is a claim.
      how: How a claim is made, in words.

    Raises:
      InputError: A verdict is required without a claim.
    """
    if required is not None and not is_claimed:
        raise InputError(f"--require {required}: needs a claim; {how}")


def verdict_status(outcome: str | None, required: str | None = None) -> int:
    """The exit status: 3 for a contradicted claim, 4 for one that is not as required, else 0.

    Args:
      outcome: The outcome of the verdict; None without a claim.
      required: What --require asks for; None for nothing.
    """
    if outcome == "contradicted":
        return EXIT_CONTRADICTED
    return EXIT_NOT_CONSISTENT if required is not None and outcome != required else 0
