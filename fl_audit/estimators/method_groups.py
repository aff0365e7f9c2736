"""Groups of methods by how far their numbers may be relied on, for whoever prints estimates."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MethodGroup:
    """Methods whose numbers may be relied on to the same degree.

    Attributes:
      title: Title of the group.
      meaning: How far the numbers of the group may be relied on.
      kinds: Pairs of the kind of an estimate and the mechanisms for which it is valid.
    """

    title: str
    meaning: str
    kinds: frozenset[tuple[str, str | None]]

    def has(self, kind: str, valid_for: str | None) -> bool:
        """Whether an estimate of this kind, valid for these mechanisms, belongs to this group."""
        return (kind, valid_for) in self.kinds


METHOD_GROUPS = (
    MethodGroup(
        "Lower bounds that hold",
        "At their confidence, although thresholds and numbers of guesses were chosen on the same "
        "scores: one_run_valid whatever was trained, threshold_valid if the scores of different "
        "canaries are independent.",
        frozenset({("lower_bound", "any mechanism"), ("lower_bound", "independent scores")}),
    ),
    MethodGroup(
        "Lower bounds that hold if the mechanism is Gaussian",
        "As the first, but only where the noise makes the trade-off of error rates a Gaussian "
        "one; where it does, they are mostly tighter.",
        frozenset({("lower_bound", "Gaussian mechanisms")}),
    ),
    MethodGroup(
        "Lower bounds as published",
        "The best threshold or number of guesses, or the round after which a run was stopped, is "
        "chosen on the same scores, which makes them too high more often than their confidence "
        "says.",
        frozenset({("lower_bound", None)}),
    ),
    MethodGroup(
        "Intervals that hold",
        "Both ends at their confidence, whatever was trained.",
        frozenset({("interval", "any mechanism"), ("interval", "independent scores")}),
    ),
    MethodGroup(
        "Intervals that hold if the mechanism is Gaussian",
        "Both ends at their confidence, but only where the noise makes the trade-off of error "
        "rates a Gaussian one.",
        frozenset({("interval", "Gaussian mechanisms")}),
    ),
    MethodGroup(
        "Estimates and intervals",
        "Neither upper nor lower bounds: another attack may find more, or this one less.",
        frozenset(
            {
                ("interval", None),
                ("estimate", None),
                ("estimate", "any mechanism"),
                ("estimate", "independent scores"),
                ("estimate", "Gaussian mechanisms"),
            }
        ),
    ),
)
"""The groups, from what may be relied on to what is only an estimate; every method is in one."""
