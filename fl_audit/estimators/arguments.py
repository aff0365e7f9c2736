"""Checks of the arguments that every estimator takes.

They raise InputError, a ValueError: the arguments come from the command line as often as from code.
"""

from fl_audit.errors import InputError

LARGEST_DIM = 2**53
"""The largest dimension, up to which a float counts exactly."""


def check_delta(delta: float) -> None:
    """Raise InputError unless delta is in [0, 1)."""
    if not 0 <= delta < 1:
        raise InputError(f"delta must be in [0, 1), got {delta}")


def check_confidence(confidence: float) -> None:
    """Raise InputError unless the confidence is in (0, 1): 0.95, not 95."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be in (0, 1), such as 0.95, got {confidence}")


def check_epsilon(epsilon: float) -> None:
    """Raise InputError unless epsilon is at least 0 and finite."""
    if not 0 <= epsilon < float("inf"):
        raise InputError(f"epsilon must be finite and at least 0, got {epsilon}")


def check_dim(dim: int) -> None:
    """Raise InputError unless dim is in 2 to 2^53."""
    if not 2 <= dim <= LARGEST_DIM:
        raise InputError(f"dim must be in 2 to 2^53, got {dim}")
