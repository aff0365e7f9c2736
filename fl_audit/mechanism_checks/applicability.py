"""Which mechanisms the checks of aggregates know."""

from fl_audit.mechanisms import MECHANISMS, Mechanism


def why_not_checked(mechanism: Mechanism) -> str | None:
    """Why a run's aggregates are not checked, in words; None where they are.

    Args:
      mechanism: The table of its config.
    """
    return MECHANISMS.of(mechanism).why_not_checked
