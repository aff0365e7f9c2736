"""The arguments that all estimators share: scores, delta, confidence and null distribution."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fl_audit.errors import InputError
from fl_audit.estimators.null import EMPIRICAL, Null
from fl_audit.estimators.scores import CanaryScores, check_confidence, check_delta, check_dim

_ROUNDING = 1e-6
"""The largest excess over 1 of a cosine that was computed in float32."""


class NotApplicableError(InputError):
    """Raised by a method that cannot be applied to these scores."""


@dataclass(frozen=True, eq=False)
class AuditSetting:
    """The common arguments of all estimators, checked.

    Attributes:
      scores: The canaries' scores.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of every bound, in (0, 1).
      null: The null distribution; by default known only from the excluded scores.

    Raises:
      InputError: A number is out of range, the kind of null does not exist, or a closed-form null
        lacks dim or has scores that are not cosines.
    """

    scores: CanaryScores
    delta: float
    confidence: float
    null: Null = EMPIRICAL

    def __post_init__(self) -> None:
        check_delta(self.delta)
        check_confidence(self.confidence)
        if self.null.dim is not None:
            check_dim(self.null.dim)
        if self.null.kind not in ("closed_form", "empirical"):
            raise InputError(f"null must be 'closed_form' or 'empirical', got {self.null.kind!r}")
        if self.null.kind == "closed_form":
            self.null.closed_form()  # needs dim
            largest = np.max(np.abs(np.concatenate([self.scores.included, self.scores.excluded])))
            if largest > 1 + _ROUNDING:
                raise InputError(
                    "the closed_form null needs cosines, in [-1, 1], "
                    f"got a score of magnitude {largest:g} (use the empirical null)"
                )

    def require(self, included: int = 0, excluded: int = 0) -> None:
        """Raise NotApplicableError if there are fewer included or excluded scores than needed."""
        for name, needed, present in (
            ("included", included, self.scores.num_included),
            ("excluded", excluded, self.scores.num_excluded),
        ):
            if present < needed:
                raise NotApplicableError(
                    f"needs at least {needed} {name} score{'s'[: needed != 1]}, got {present}"
                )

    def require_null_scores(self) -> None:
        """Raise NotApplicableError for an empirical null with fewer than 2 excluded scores."""
        if self.null.kind == "empirical" and self.scores.num_excluded < 2:
            raise NotApplicableError(
                "the empirical null needs at least 2 excluded scores, "
                f"got {self.scores.num_excluded} (or give dim for the closed_form null)"
            )


def where_applicable(
    epsilon: Callable[[AuditSetting], float], settings: Iterable[AuditSetting]
) -> list[float | None]:
    """The epsilon of each setting; None where `epsilon` raises NotApplicableError."""
    epsilons: list[float | None] = []
    for setting in settings:
        try:
            epsilons.append(epsilon(setting))
        except NotApplicableError:
            epsilons.append(None)
    return epsilons
