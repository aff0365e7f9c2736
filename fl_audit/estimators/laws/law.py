"""The protocol of a law of a canary's score: both tails in log space, and quantiles."""

from typing import Protocol

import numpy.typing as npt

from fl_audit.array_types import FloatArray


class Law(Protocol):
    """A law on the real line whose tails are accurate in log space."""

    def logsf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X >= x)."""

    def logcdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X <= x)."""

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X >= x) = p, accurate for small p."""

    def ppf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X <= x) = p, accurate for small p."""

    def reflected(self) -> "Law":
        """The law of -X."""
