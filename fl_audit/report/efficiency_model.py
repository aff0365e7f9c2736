"""The typed structure of what was proven of what could be; see `model`."""

import msgspec


class GaussianEfficiencyReport(msgspec.Struct, frozen=True):
    """The same by bounds that hold for Gaussian mechanisms alone.

    Attributes:
      proven: The largest lower bound that holds for Gaussian mechanisms; None without any.
      proven_by: The method that proved it.
      provable: The most that such a test could have proven, in the median.
    """

    proven: float | None
    proven_by: str | None
    provable: float


class EfficiencyReport(msgspec.Struct, frozen=True):
    """What was proven on a statistic, what could have been, and what the noise guarantees.

    Attributes:
      proven: The largest of the lower bounds that hold for any mechanism, each at the run's
        confidence; None without any.
      proven_by: The method that proved it.
      provable: What the best single threshold, had it been known beforehand, would have proven with
        these included canaries at this confidence, in the median; None where that is not known.
      guaranteed: The epsilon that the noise guarantees a canary against the statistic's attacker,
        possibly infinite; None where none is known.
      guaranteed_by: The accountant of the guarantee.
      knows_rounds: Whether the attacker knows in which rounds a canary is online.
      gaussian: The same by bounds for Gaussian mechanisms; None where what the attacker sees is
        not one, so that these bounds are about a stronger attacker.
    """

    proven: float | None
    proven_by: str | None
    provable: float | None
    guaranteed: float | None
    guaranteed_by: str | None
    knows_rounds: bool
    gaussian: GaussianEfficiencyReport | None
