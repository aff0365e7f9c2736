"""The exit status of a command that reaches a verdict."""

EXIT_CONTRADICTED = 3


def verdict_status(outcome: str | None) -> int:
    """3 where a claimed epsilon is contradicted, so that CI can gate on it; else 0.

    Args:
      outcome: of the verdict; None without a claim.
    """
    return EXIT_CONTRADICTED if outcome == "contradicted" else 0
