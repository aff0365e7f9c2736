"""The scores of included and excluded canaries, and checks of every estimator's arguments."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError

LARGEST_DIM = 2**53
"""The largest dimension; floats represent integers exactly up to here."""


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
    """Raise InputError unless dim is from 2 to 2^53."""
    if not 2 <= dim <= LARGEST_DIM:
        raise InputError(f"dim must be in 2 to 2^53, got {dim}")


Inclusion = Literal["coins", "unequal_coins", "fixed_half", "pairs"]
"""How canaries were included: each by a fair coin, each by a coin of one common probability other
than 1/2, a random half of all, or one canary of each pair by a fair coin.
"""


@dataclass(frozen=True, eq=False)
class CanaryScores:
    """Scores of canaries; a LARGER score looks MORE like a member.

    One array may be empty (some estimators need no excluded canaries), but not both.

    Attributes:
      included: Scores of the canaries that participated in training, float64 of shape (n1,).
      excluded: Scores of the canaries that did not participate, float64 of shape (n0,).
      inclusion: How inclusion was decided; methods that guess inclusion need independent coins.
        With `pairs` both arrays have the same order: included[i] and excluded[i] are one pair.
      inclusion_probability: Probability with which a canary is included, in (0, 1); 1/2 except with
        `unequal_coins`, where it must differ from 1/2.

    Raises:
      ValueError: An array is not one-dimensional or holds a non-finite score, both are empty, the
        arrays of pairs differ in length, or the probability is out of range or does not fit the
        inclusion.

    >>> scores = CanaryScores(included=[0.5, 0.25], excluded=[0.0])
    >>> scores.num_included, scores.num_excluded
    (2, 1)
    """

    included: FloatArray
    excluded: FloatArray
    inclusion: Inclusion = "coins"
    inclusion_probability: float = 0.5

    def __post_init__(self) -> None:
        for name in ("included", "excluded"):
            object.__setattr__(self, name, _frozen_scores(name, getattr(self, name)))
        if self.num_included + self.num_excluded == 0:
            raise ValueError("scores must hold at least one score, got none")
        check_inclusion(self.inclusion, self.inclusion_probability)
        if self.inclusion == "pairs" and self.num_included != self.num_excluded:
            raise ValueError(
                "pairs need as many included as excluded scores, "
                f"got {self.num_included} and {self.num_excluded}"
            )

    @property
    def num_included(self) -> int:
        """Number of canaries that participated in training."""
        return len(self.included)

    @property
    def num_excluded(self) -> int:
        """Number of canaries that did not participate in training."""
        return len(self.excluded)

    @property
    def num_coins(self) -> int:
        """Number of coins: one for each pair if canaries are in pairs, else one for each canary."""
        in_pairs = self.inclusion == "pairs"
        return self.num_included if in_pairs else self.num_included + self.num_excluded


def check_inclusion(inclusion: Inclusion, probability: float) -> None:
    """Raise ValueError if the inclusion is unknown, or the probability does not fit it."""
    if inclusion not in (kinds := get_args(Inclusion)):
        raise ValueError(f"inclusion must be one of {', '.join(kinds)}, got {inclusion!r}")
    if not 0 < probability < 1:
        raise ValueError(f"inclusion_probability must be in (0, 1), got {probability}")
    if (probability == 0.5) != (inclusion != "unequal_coins"):
        needs = "another than 0.5" if inclusion == "unequal_coins" else "0.5"
        raise ValueError(
            f"inclusion {inclusion!r} needs inclusion_probability {needs}, got {probability}"
        )


def _frozen_scores(name: str, values: npt.ArrayLike) -> FloatArray:
    scores = np.array(values, dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(f"{name} scores must be one-dimensional, got shape {scores.shape}")
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise ValueError(f"{name} scores must be finite, got {scores[bad[0]]} at index {bad[0]}")
    scores.flags.writeable = False
    return scores
