"""Table of what a run is audited for."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fl_audit.config.table import OpenUnitFloat, Table


class Audit(Table, frozen=True):
    """What the estimates are computed at, and the claim that they are held against.

    Attributes:
      delta: of (epsilon, delta)-DP; by default `claimed_delta`, else N^-1.1 for N real clients
        (Andrew et al. section 5).
      confidence: of each lower bound, and of the verdict as a whole.
      claimed_epsilon: what the run is said to guarantee to a client; without it no verdict.
      claimed_delta: at which; by default `delta`. A bound at another delta says nothing about the
        claim, so the two may not differ.
      verdict_statistic: the only statistic that the verdict looks at, or all.
      verdict_method: the only method that it looks at, or all that hold for any mechanism.
    """

    delta: OpenUnitFloat | None = None
    confidence: OpenUnitFloat = 0.95
    claimed_epsilon: Annotated[float, Meta(gt=0, le=300)] | None = None
    claimed_delta: OpenUnitFloat | None = None
    verdict_statistic: Literal["all", "final", "final_minus_initial", "max", "sum"] = "all"
    verdict_method: Literal["all", "threshold_valid", "one_run_valid"] = "all"

    def __post_init__(self) -> None:
        """Checks what is said of a claim, and that there is one delta."""
        if self.claimed_epsilon is None:
            for key in ("claimed_delta", "verdict_statistic", "verdict_method"):
                if getattr(self, key) not in (None, "all"):
                    raise ValueError(f"{key} needs claimed_epsilon")
        if self.claimed_delta is None:
            return
        if self.delta not in (None, self.claimed_delta):
            raise ValueError(
                f"claimed_delta is {self.claimed_delta:g} and delta {self.delta:g}; they must be "
                "equal, as a bound at another delta says nothing about the claim: leave out one"
            )
        msgspec.structs.force_setattr(self, "delta", self.claimed_delta)
