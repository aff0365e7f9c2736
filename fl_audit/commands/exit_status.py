"""The exit status of a command that reaches a verdict."""

from collections.abc import Mapping
from typing import Any

EXIT_CONTRADICTED = 3


def verdict_status(verdict: Mapping[str, Any] | None) -> int:
    """3 where a claimed epsilon is contradicted, so that CI can gate on it; else 0.

    Args:
      verdict: as report.json has it; None without a claim.
    """
    contradicted = verdict is not None and verdict["outcome"] == "contradicted"
    return EXIT_CONTRADICTED if contradicted else 0
