"""Checks of the arguments that every estimator takes.

The arguments come from the command line as often as from code, so a bad one is an InputError, which
is a ValueError.
"""

from fl_audit.errors import InputError

LARGEST_DIM = 2**53
"""The largest dimension, up to which a float counts exactly."""


def check_delta(delta: float) -> None:
    """Refuse a delta outside [0, 1).

    Raises:
      InputError: If delta is out of range or NaN.
    """
    if not 0 <= delta < 1:
        raise InputError(f"delta must be in [0, 1), got {delta}")


def check_confidence(confidence: float) -> None:
    """Refuse a confidence outside (0, 1), such as 95 for 0.95.

    Raises:
      InputError: If the confidence is out of range or NaN.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be in (0, 1), such as 0.95, got {confidence}")


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is negative, infinite or NaN.

    Raises:
      InputError: If epsilon is negative, infinite or NaN.
    """
    if not 0 <= epsilon < float("inf"):
        raise InputError(f"epsilon must be finite and at least 0, got {epsilon}")


def check_dim(dim: int) -> None:
    """Refuse a dimension below 2, or beyond what a float counts.

    Raises:
      InputError: If dim is out of range.
    """
    if not 2 <= dim <= LARGEST_DIM:
        raise InputError(f"dim must be in 2 to 2^53, got {dim}")
