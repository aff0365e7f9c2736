"""Which mechanisms the checks of aggregates know."""

from fl_audit.config import (
    Distributed,
    GaussianAdaptive,
    GaussianFixed,
    Mechanism,
    NoPrivacy,
    TreeAggregation,
)


def why_not_checked(mechanism: Mechanism) -> str | None:
    """Why a run's aggregates are not checked, in words; None where they are.

    Args:
      mechanism: the table of its config.
    """
    match mechanism:
        case GaussianFixed() | GaussianAdaptive():
            return None
        case NoPrivacy():
            return "nothing clips the updates, and no noise is added"
        case TreeAggregation():
            return "the noise of a tree's nodes is not fresh in each round"
        case Distributed():
            return "each client adds a share of discrete noise, in rotated coordinates"
