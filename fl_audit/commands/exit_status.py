"""The exit status of a command that reaches a verdict."""

EXIT_CONTRADICTED = 3


def verdict_status(outcome: str | None) -> int:
    """The exit status 3 if a claimed epsilon is contradicted, so that CI can fail on it; else 0.

    Args:
      outcome: The outcome of the verdict; None without a claim.
    """
    return EXIT_CONTRADICTED if outcome == "contradicted" else 0
