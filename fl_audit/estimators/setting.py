"""The arguments that all estimators share: the scores, delta, confidence and the null law."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_confidence, check_delta, check_dim
from fl_audit.estimators.distributions import ExactCosine, Gaussian, closed_form_null
from fl_audit.estimators.null import NullTail, SignCanaryNull
from fl_audit.estimators.scores import CanaryScores

Null = Literal["closed_form", "empirical"]
NullSource = Literal["design", "argument"]
"""How a closed-form null is known: by the design of the audit, whose pool made the canaries and
whose program scored them; or by an argument such as --dim, which only the scores can confirm."""

_ROUNDING = 1e-6
"""The largest excess over 1 of a cosine that was computed in float32."""


class NotApplicableError(InputError):
    """The error that a method cannot be applied to these scores; a default one is left out."""


@dataclass(frozen=True)
class AuditSetting:
    """The common arguments of all estimators, checked.

    Attributes:
      scores: The canaries' scores.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of every bound, in (0, 1).
      dim: Number of trainable parameters; the closed-form null needs it.
      null: Law of an excluded canary's score: "closed_form" (a cosine with a random direction
        in dimension dim) or "empirical" (from the excluded scores).
      null_tail: What is known of an excluded canary's score, for the bounds that have to hold;
        None for what holds for canaries of every family under the closed-form null, and for
        nothing under the empirical one.
      null_source: How a known null is known. One that only an argument names is held against the
        excluded scores at a part of the failure probability (threshold/null_choice.py).

    Raises:
      InputError: If a number is out of range, the null is unknown, or the closed-form null is
        asked for without dim or for scores that are no cosines.
    """

    scores: CanaryScores
    delta: float
    confidence: float
    dim: int | None
    null: Null
    null_tail: NullTail | None = None
    null_source: NullSource = "design"

    def __post_init__(self) -> None:
        """Check the fields, so that no estimator has to."""
        check_delta(self.delta)
        check_confidence(self.confidence)
        if self.dim is not None:
            check_dim(self.dim)
        if self.null not in ("closed_form", "empirical"):
            raise InputError(f"null must be 'closed_form' or 'empirical', got {self.null!r}")
        if self.null == "closed_form":
            self._check_cosines()

    def require(self, included: int = 0, excluded: int = 0) -> None:
        """Refuse scores with fewer included or excluded canaries than a method needs.

        Raises:
          NotApplicableError: If there are too few; the message names what is missing.
        """
        for name, needed, found in (
            ("included", included, self.scores.num_included),
            ("excluded", excluded, self.scores.num_excluded),
        ):
            if found < needed:
                raise NotApplicableError(
                    f"needs at least {needed} {name} score{'s'[: needed != 1]}, got {found}"
                )

    def closed_form_null(self) -> Gaussian | ExactCosine:
        """The closed-form law of an excluded canary's cosine, as published methods take it.

        Raises:
          InputError: If dim is missing.
        """
        if self.dim is None:
            raise InputError("the closed_form null needs dim, the number of trainable parameters")
        return closed_form_null(self.dim)

    def known_tail(self) -> NullTail | None:
        """What is known of an excluded canary's score; None under the empirical null."""
        if self.null_tail is None and self.null == "closed_form" and self.dim is not None:
            return SignCanaryNull(self.dim)
        return self.null_tail

    def require_null_scores(self) -> None:
        """Refuse an empirical null with fewer than 2 excluded scores.

        Raises:
          NotApplicableError: If there are too few; the message names what is missing.
        """
        if self.null == "empirical" and self.scores.num_excluded < 2:
            raise NotApplicableError(
                "the empirical null needs at least 2 excluded scores, "
                f"got {self.scores.num_excluded} (or give dim for the closed_form null)"
            )

    def _check_cosines(self) -> None:
        self.closed_form_null()
        largest = np.max(np.abs(np.concatenate([self.scores.included, self.scores.excluded])))
        if largest > 1 + _ROUNDING:
            raise InputError(
                "the closed_form null needs cosines, in [-1, 1], "
                f"got a score of magnitude {largest:g} (use the empirical null)"
            )
