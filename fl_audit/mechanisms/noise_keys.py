"""The keys of a mechanism that adds noise: how much, or the epsilon that it is to guarantee."""

from typing import Self

import msgspec

from fl_audit.kinds.table import NonNegativeFloat, PositiveFloat, Table
from fl_audit.mechanisms.kind import Mechanism


class NoisyMechanism(Table, Mechanism, frozen=True, kw_only=True):
    """A mechanism whose noise is stated, or solved for once the clients are known.

    Attributes:
      noise_multiplier: The noise multiplier; 0 means no noise.
      epsilon: The analytical epsilon that clients are to have, at the audit's delta. It stands
        instead of `noise_multiplier`: the least noise that guarantees it is added.
    """

    noise_multiplier: NonNegativeFloat | None = None
    epsilon: PositiveFloat | None = None

    def __post_init__(self) -> None:
        """Checks that the noise is said once."""
        if self.noise_multiplier is not None and self.epsilon is not None:
            raise ValueError("noise_multiplier and epsilon both say the noise; leave one out")
        if self.noise_multiplier is None and self.epsilon is None:
            raise ValueError("noise_multiplier (or epsilon) is missing")

    @property
    def multiplier(self) -> float:
        """The noise multiplier.

        Raises:
          ValueError: It is still to be found for an epsilon, by `config.design`.
        """
        if self.noise_multiplier is None:
            raise ValueError("the noise multiplier is not found yet")
        return self.noise_multiplier

    def with_multiplier(self, multiplier: float) -> Self:
        """This mechanism with another noise multiplier, and no epsilon to be found for."""
        return msgspec.structs.replace(self, noise_multiplier=multiplier, epsilon=None)
