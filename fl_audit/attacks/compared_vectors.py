"""The vectors compared with canaries, as far as null distributions depend on them.

For canaries of signs, the null distribution of a cosine depends on how much of the compared vector
is on few coordinates. Attackers record this for every compared vector, as `ComparedVectors`, from
which a statistic's null distribution is computed.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.likelihood_null import LikelihoodNull, largest_tail
from fl_audit.canaries.families import FAMILIES
from fl_audit.errors import InputError
from fl_audit.estimators.null import AtMostNull, LargestOfRoundsNull, NullTail, ScaledNull
from fl_audit.estimators.random_signs import Concentration, concentration_of
from fl_audit.formats.text_files import check_format_version, read_json, write_text

_FORMAT_VERSION = 1

_GROUPS_PER_OCTAVE = 4
"""The number of groups of vectors for each doubling of the sum of cubes.

Every vector counts with its group's largest sum, which adds up to 19 % to the Berry-Esseen term of
the bound on the tail, itself a few percent of the tail; with groups, bounds are fast for thousands
of rounds."""


class Vectors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` vectors with the same null distribution.

    `concentration` bounds the sums of cubes and of fourth powers of each vector at norm 1; None if
    these sums are not known, or if the canaries' null distribution does not depend on them.
    """

    count: int
    concentration: Concentration | None = None


class ComparedVectors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The vectors of a score that is `scale` times a canary's largest cosine with any vector.

    With `is_limit` the score is that product times an unknown factor from 0 to 1. A log likelihood
    ratio is no such product: `vectors` is then empty, and `likelihood` has the null of each arm, or
    one null named "" without arms.
    """

    vectors: tuple[Vectors, ...]
    scale: float = 1.0
    is_limit: bool = False
    likelihood: dict[str, LikelihoodNull] | msgspec.UnsetType = msgspec.UNSET

    def of_arm(self, arm: str) -> "ComparedVectors":
        """The vectors compared with one arm's canaries."""
        if self.likelihood is msgspec.UNSET:
            return self
        return msgspec.structs.replace(self, likelihood={arm: self.likelihood[arm]})

    def null_tail(self, family: str, dim: int) -> NullTail:
        """The tail of an excluded canary's score; ValueError for vectors that `dim` rules out."""
        if self.likelihood is not msgspec.UNSET:
            return largest_tail(tuple(self.likelihood.values()))
        tails: tuple[NullTail, ...] = tuple(
            tail
            for group in self.vectors
            for tail in group.count * (FAMILIES[family].null_tail(dim, group.concentration),)
        )
        largest: NullTail = tails[0] if len(tails) == 1 else LargestOfRoundsNull(tails)
        scaled = largest if self.scale == 1 else ScaledNull(largest, self.scale)
        return AtMostNull(scaled) if self.is_limit else scaled


ANY_VECTOR = ComparedVectors((Vectors(1),))
"""One vector of unknown concentration."""


def depends_on_vectors(family: str | None) -> bool:
    """Whether a family's null distribution depends on the compared vectors."""
    return family is not None and FAMILIES[family].null_depends_on_vector


def concentration_row(vector: Float32Array) -> FloatArray:
    """A row of `ConcentrationLog`: the vector's sums of cubes and of fourth powers at norm 1."""
    sums = concentration_of(vector)
    return np.zeros(2) if sums is None else np.array([sums.cubes, sums.fourth_powers])


def unknown_rows(num_rounds: int) -> FloatArray:
    """Rows of NaN, of shape (num_rounds, 2): vectors of unknown concentration."""
    return np.full((num_rounds, 2), np.nan)


def one_vector(family: str | None, vector: FloatArray | Float32Array) -> ComparedVectors | None:
    """The vector of a single cosine; None for a zero vector."""
    if not np.any(vector):
        return None
    concentration = concentration_of(vector) if depends_on_vectors(family) else None
    return ComparedVectors((Vectors(1, concentration),))


def any_one_of(rows: FloatArray) -> ComparedVectors | None:
    """One vector at least as concentrated as the vector of each row of a `ConcentrationLog`.

    None without rows, or if a row is of a zero vector.
    """
    if len(rows) == 0 or (rows[:, 1] == 0).any():
        return None
    if np.isnan(rows).any():
        return ANY_VECTOR
    return ComparedVectors((Vectors(1, largest_sums(rows)),))


def largest_sums(rows: FloatArray) -> Concentration:
    """The largest sum of cubes, and of fourth powers, of some rows of a `ConcentrationLog`."""
    return Concentration(*map(float, rows.max(axis=0)))


def largest_cosine(rows: FloatArray) -> ComparedVectors | None:
    """The vectors of a maximum of cosines, from rows of `ConcentrationLog`; None if all rows are 0.

    A zero vector's cosine is 0, and P(0 >= t) is 1 for t <= 0. For such t the tails of two other
    vectors add up to at least 1 already, as the distribution of each cosine is symmetric about 0.
    So zero vectors are left out if at least two vectors are not zero; otherwise they count as
    vectors of unknown concentration.
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
    """Groups vectors of similar concentration; a group has its vectors' largest sums."""
    numbers = np.ceil(_GROUPS_PER_OCTAVE * np.log2(rows[:, 0]))
    return tuple(
        Vectors(len(members), largest_sums(members))
        for members in (rows[numbers == number] for number in np.unique(numbers))
    )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: int
    statistics: dict[str, ComparedVectors]


def write_compared_vectors(
    path: Path, compared: Mapping[str, ComparedVectors], mode: int = 0o666
) -> None:
    text = msgspec.json.encode(_File(_FORMAT_VERSION, dict(compared))).decode()
    write_text(path, text + "\n", mode)


def read_compared_vectors(path: Path) -> Mapping[str, ComparedVectors]:
    """Reads the vectors by statistic; empty if there is no file."""
    if not path.exists():
        return {}
    file = read_json(path, _File, "the compared vectors of a run")
    check_format_version(path, file.format_version, _FORMAT_VERSION)
    for name, compared in file.statistics.items():
        if not _makes_sense(compared):
            must = "scale must be above 0 and finite, and vectors must be groups of at least 1"
            if compared.likelihood is not msgspec.UNSET:
                must = (
                    "likelihood must have ascending thresholds with finite tails that never rise, "
                    "and log_factor of at least 0, without vectors"
                )
            raise InputError(f"{path}: statistics.{name}: {must}")
    return file.statistics


def _makes_sense(compared: ComparedVectors) -> bool:
    if compared.likelihood is not msgspec.UNSET:
        nulls = compared.likelihood.values()
        return not compared.vectors and bool(nulls) and all(null.makes_sense for null in nulls)
    counts = [group.count for group in compared.vectors]
    return 0 < compared.scale < math.inf and min(counts, default=0) >= 1
