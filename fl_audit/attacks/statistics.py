"""Statistics: ways to score canaries, each with the null distribution of its scores.

An attacker's score is a multiple of the largest cosine of a canary with one or several vectors: a
model, every round's aggregate, or the sum of their directions. Excluded canaries are independent of
all of these, so how large a score may be by chance follows from the canaries' family and, for
canaries of signs, from how much of a vector lies on few coordinates. `ComparedVectors` is what is
known of the vectors, `Statistic.null` the distribution that follows.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.audit_table import Audit
from fl_audit.errors import InputError
from fl_audit.estimators.null import (
    EMPIRICAL,
    AtMostNull,
    GaussianCanaryNull,
    LargestOfRoundsNull,
    Null,
    NullTail,
    ScaledNull,
    SignCanaryNull,
)
from fl_audit.estimators.random_signs import Concentration, concentration_of
from fl_audit.formats.text_files import read_json, write_text

# What is known of the vectors that canaries were compared with, and the null tail.


_FORMAT_VERSION = 1

_GROUPS_PER_OCTAVE = 4
"""The number of groups that vectors form per factor of two in their sums of cubes.

All vectors of a group count with its largest sum, which costs up to 19 % of a remainder term that
is itself a few percent of the tail; groups keep bounds fast with thousands of rounds."""


class Vectors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of vectors of which the same is known.

    Attributes:
      count: The number of vectors, at least 1.
      concentration: An upper bound on both sums of each vector; None where nothing is known of
        them, or the canaries' null law does not depend on it.
    """

    count: int
    concentration: Concentration | None = None


class ComparedVectors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The vectors behind a score, which is a multiple of the largest cosine with any of them.

    Attributes:
      vectors: All vectors, in groups.
      scale: The factor between the largest cosine and the score, above 0.
      is_limit: Whether that product is no more than a limit to the size of the score.
    """

    vectors: tuple[Vectors, ...]
    scale: float = 1.0
    is_limit: bool = False

    def null_tail(self, family: str, dim: int) -> NullTail:
        """The tail of the law of an excluded canary's score.

        Args:
          family: The canaries' family, as in `canaries.family`.
          dim: The number of trainable parameters.

        Raises:
          ValueError: No vector of that dimension has such a concentration, or there is no vector.
        """
        tails: tuple[NullTail, ...] = tuple(
            tail
            for group in self.vectors
            for tail in group.count * (_of_one_vector(family, dim, group.concentration),)
        )
        largest: NullTail = tails[0] if len(tails) == 1 else LargestOfRoundsNull(tails)
        scaled = largest if self.scale == 1 else ScaledNull(largest, self.scale)
        return AtMostNull(scaled) if self.is_limit else scaled


ANY_VECTOR = ComparedVectors((Vectors(1),))
"""One vector, of which nothing is known."""


def depends_on_vectors(family: str | None) -> bool:
    """Whether the null law of canaries of a family depends on what they are compared with."""
    return family in ("rademacher", "hadamard")


def _of_one_vector(family: str, dim: int, concentration: Concentration | None) -> NullTail:
    if family == "gaussian":
        return GaussianCanaryNull(dim)
    return SignCanaryNull(dim, concentration)


def concentration_row(vector: Float32Array) -> FloatArray:
    """A vector's two sums as a row of `ConcentrationLog`.

    Args:
      vector: The vector, float32 of shape (dim,).

    Returns:
      The sums of cubes and of fourth powers, float64 of shape (2,); zeros for the zero vector.
    """
    found = concentration_of(vector)
    return np.zeros(2) if found is None else np.array([found.cubes, found.fourth_powers])


def unknown_rows(num_rounds: int) -> FloatArray:
    """Rows of vectors of which nothing is known, float64 of shape (num_rounds, 2)."""
    return np.full((num_rounds, 2), np.nan)


def one_vector(family: str | None, vector: FloatArray | Float32Array) -> ComparedVectors | None:
    """The vector behind a cosine with one vector; None for zero, which has no direction.

    Args:
      family: The canaries' family; decides whether the vector's concentration is computed.
      vector: The vector, of shape (dim,).
    """
    if not np.any(vector):
        return None
    known = concentration_of(vector) if depends_on_vectors(family) else None
    return ComparedVectors((Vectors(1, known),))


def any_one_of(rows: FloatArray) -> ComparedVectors | None:
    """What is known of each vector of some rounds alone; None where one has no direction.

    Args:
      rows: The rows of the rounds that were scored, as in `ConcentrationLog`, float64 of shape
        (rounds, 2).
    """
    if len(rows) == 0 or (rows[:, 1] == 0).any():
        return None
    if np.isnan(rows).any():
        return ANY_VECTOR
    return ComparedVectors((Vectors(1, Concentration(*map(float, rows.max(axis=0)))),))


def largest_cosine(rows: FloatArray) -> ComparedVectors | None:
    """The vectors behind a largest cosine over rounds; None where no vector has a direction.

    A zero vector's cosine is 0, and P(0 >= t) is 1 for t <= 0. For such t the tails of two other
    rounds add up to at least 1 already, as each of these laws is symmetric about 0. So a zero
    vector is left out where there are two others, and else is counted like any vector.

    Args:
      rows: The rows of the scored rounds, as in `ConcentrationLog`, float64 of shape (rounds, 2).
    """
    is_zero = rows[:, 1] == 0
    others = rows[~is_zero]
    if len(others) == 0:
        return None
    unknown = np.isnan(others).any(axis=1)
    not_known = int(unknown.sum()) + (int(is_zero.sum()) if len(others) < 2 else 0)
    groups = _grouped(others[~unknown])
    return ComparedVectors((*groups, Vectors(not_known)) if not_known else groups)


def _grouped(rows: FloatArray) -> tuple[Vectors, ...]:
    """Groups vectors of about the same concentration, each with its largest sums."""
    numbers = np.ceil(_GROUPS_PER_OCTAVE * np.log2(rows[:, 0]))
    return tuple(
        Vectors(len(members), Concentration(*(float(most) for most in members.max(axis=0))))
        for members in (rows[numbers == number] for number in np.unique(numbers))
    )


def named(
    compared: Mapping["Statistic", ComparedVectors | None],
) -> dict[str, ComparedVectors]:
    """The entries that are not None, by the statistic's name."""
    return {statistic.name: one for statistic, one in compared.items() if one is not None}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file, by statistic."""

    format_version: int
    statistics: dict[str, ComparedVectors]


def write_compared_vectors(path: Path, compared: Mapping[str, ComparedVectors]) -> None:
    """Writes what is known of the vectors by statistic; the file appears whole."""
    text = msgspec.json.encode(_File(_FORMAT_VERSION, dict(compared))).decode()
    write_text(path, text + "\n")


def read_compared_vectors(path: Path) -> Mapping[str, ComparedVectors]:
    """Reads what is known of the vectors by statistic; empty without a file, as in older folders.

    Raises:
      InputError: The file is damaged or of another format version.
    """
    if not path.exists():
        return {}
    found = read_json(path, _File, "what a run writes")
    if found.format_version != _FORMAT_VERSION:
        raise InputError(
            f"{path}: format_version is {found.format_version}, must be {_FORMAT_VERSION}"
        )
    for name, compared in found.statistics.items():
        if not _makes_sense(compared):
            raise InputError(
                f"{path}: statistics.{name}: scale must be above 0 and finite, and vectors must "
                "be groups of at least 1"
            )
    return found.statistics


def _makes_sense(compared: ComparedVectors) -> bool:
    counts = [group.count for group in compared.vectors]
    return 0 < compared.scale < math.inf and min(counts, default=0) >= 1


# A statistic, and what its null distribution follows from.


Sight = Literal[
    "initial_model", "final_model", "round_cosines", "canary_rounds", "rounds", "uploads"
]
"""One thing that a score may need: a model, every canary's cosine with the aggregates of rounds,
the rounds of every canary, canaries' own uploads, or all that there is to see of each round while
the system trains (`SeenRound`), which no log keeps."""


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run, or of a log, when a null distribution is asked for.

    Attributes:
      audit: The table [audit] of its config; the default one for a log.
      dim: The number of trainable parameters; None where it is not known.
      family: The canaries' family, as in `canaries.family`; None where it is not known, or where
        canaries are not vectors.
      compared: What is known of the vectors that canaries were compared with, by statistic.
    """

    audit: Audit
    dim: int | None
    family: str | None = None
    compared: Mapping[str, ComparedVectors] = field(default_factory=dict)


WITHOUT_A_LAW = ("dirac",)
"""Families whose cosine with a vector has no law but that of the vector's own entries."""

ONE_VECTOR = Null("closed_form")


def of_excluded_scores(facts: RunFacts) -> Null:
    """The law of a maximum or a sum over several vectors, or of a loss, in any run.

    The law depends on how alike the vectors are; what is known of them is in the facts.
    """
    del facts
    return EMPIRICAL


def of_one_vector(facts: RunFacts) -> Null:
    """The law of a cosine with one vector that is independent of excluded canaries, in any run."""
    del facts
    return ONE_VECTOR


@dataclass(frozen=True)
class Statistic:
    """One way to score canaries.

    Attributes:
      name: The name in file names, JSON keys and config keys.
      title: A few words for a heading.
      meaning: A sentence on the score, and on what the attacker sees.
      threat_model: The name of the threat model.
      canaries: The kind of canaries that have this score, as in `canaries.kind`.
      needs: The things that the score is computed from.
      law: The function from what is known of a run to a null of its kind; callers use `null`.
    """

    name: str
    title: str
    meaning: str
    threat_model: str
    canaries: str
    needs: frozenset[Sight]
    law: Callable[[RunFacts], Null] = of_excluded_scores

    def null(self, facts: RunFacts) -> Null:
        """The null distribution in a run or log; "empirical" if the dimension is not known.

        Args:
          facts: What is known of the run.

        Raises:
          InputError: No vectors of that dimension can be as the facts say.
        """
        kind = self.law(facts).kind
        if facts.dim is None or facts.family in WITHOUT_A_LAW:
            return Null("empirical", dim=facts.dim)
        compared = facts.compared.get(self.name, ANY_VECTOR if kind == "closed_form" else None)
        if compared is None or facts.family is None:
            return Null(kind, dim=facts.dim)
        try:
            return Null(kind, compared.null_tail(facts.family, facts.dim), facts.dim)
        except ValueError as error:
            raise InputError(
                f"what is known of the vectors behind {self.name} does not go with dim "
                f"{facts.dim}: {error}"
            ) from error


# Statistics of canaries that hold examples; their attackers are in `fl_audit.run`. Their loss
# is minus the log-odds of the labels, which orders single examples as cross-entropy does.


FINAL_LOSS = Statistic(
    name="final_loss",
    title="Final loss",
    meaning=(
        "Minus the final model’s loss on the canary’s data (minus the log-odds of the labels): the "
        "attacker may query that model, and nothing else."
    ),
    threat_model="final",
    canaries="examples",
    needs=frozenset({"final_model"}),
)

LOSS_DIFFERENCE = Statistic(
    name="loss_difference",
    title="Loss difference",
    meaning=(
        "The initial model’s loss on the canary’s data minus the final one’s: the attacker may "
        "query both (Steinke et al., black box)."
    ),
    threat_model="final_and_initial",
    canaries="examples",
    needs=frozenset({"initial_model", "final_model"}),
)

WHITE_BOX = Statistic(
    name="white_box",
    title="White box, sum",
    meaning=(
        "Sum over all rounds of the inner product of what the canary would send, clipped, with the "
        "noisy aggregate: the attacker sees every round (Steinke et al., white box)."
    ),
    threat_model="all_iterates",
    canaries="examples",
    needs=frozenset({"rounds"}),
)

WHITE_BOX_MAX = Statistic(
    name="white_box_max",
    title="White box, largest",
    meaning=("Largest of these inner products: the attacker looks for a canary that appears once."),
    threat_model="all_iterates",
    canaries="examples",
    needs=frozenset({"rounds"}),
)

WHITE_BOX_OWN = Statistic(
    name="white_box_own_rounds",
    title="White box, own rounds",
    meaning=(
        "The inner product in the very round that the canary takes part in, or would have taken "
        "part in were it included; of several, the sum over the root of their number."
    ),
    threat_model="known_rounds",
    canaries="examples",
    needs=frozenset({"rounds", "canary_rounds"}),
)

OF_EXAMPLES = (FINAL_LOSS, LOSS_DIFFERENCE, WHITE_BOX, WHITE_BOX_MAX, WHITE_BOX_OWN)
