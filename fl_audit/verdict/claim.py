"""The claim that is made of a run."""

from dataclasses import dataclass

from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_delta

LARGEST_EPSILON = 300.0
"""The largest epsilon of a claim: twice it is simulated, and e^700 is about the largest float."""


@dataclass(frozen=True)
class Claim:
    """The claim that a run is (epsilon, delta)-private for a client.

    Neighbouring runs differ in one client, which is there or not, or which sends nothing. A canary
    is such a client, so that a lower bound for a canary bounds the client's epsilon too, as long as
    a canary takes part no more often than a client may. A canary that takes part less often is
    better protected, so that a claim for the client holds for it as well.

    Attributes:
      epsilon: The claimed epsilon, in (0, LARGEST_EPSILON].
      delta: The delta of the claim, in [0, 1).

    Raises:
      InputError: A number is out of range.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Checks the fields."""
        if not 0 < self.epsilon <= LARGEST_EPSILON:
            raise InputError(
                f"claimed epsilon must be above 0 and at most {LARGEST_EPSILON:g}, "
                f"got {self.epsilon}"
            )
        check_delta(self.delta)
