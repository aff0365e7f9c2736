"""The question whether the checks of aggregates know a mechanism."""

from fl_audit.mechanisms import MECHANISMS, Mechanism


def why_not_checked(mechanism: Mechanism) -> str | None:
    """The reason for which a run's aggregates are not checked, in words; None where they are.

    Args:
      mechanism: The mechanism table of the run's config.
    """
    return MECHANISMS.of(mechanism).why_not_checked
