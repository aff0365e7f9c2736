"""The log of canaries' cosines with their own noised uploads, and scores from this log.

A score is the cosine of a canary with its upload or, if it has several, with the sum of the
uploads' directions.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.attacks.compared_vectors import (
    ANY_VECTOR,
    ComparedVectors,
    Vectors,
    any_one_of,
    concentration_row,
    depends_on_vectors,
    largest_sums,
)
from fl_audit.attacks.directions import RoundDirections
from fl_audit.attacks.own_rounds import OwnRounds, RoundWeights
from fl_audit.attacks.own_sums import KeptSums
from fl_audit.formats.folders import ScoredFolder
from fl_audit.formats.round_logs import ConcentrationLog, Mode, UploadCosines
from fl_audit.inner_products import euclidean_norm, inner_product
from fl_audit.seeds import Stream, generator


class ScoredCanaries(Protocol):
    """Canaries that are vectors, such as a `CanaryFamily` or a `CanaryPool`."""

    def cosines(self, target: Float32Array, /) -> FloatArray:
        """The cosine of every canary with a vector, float32 of shape (dim,)."""

    def vector(self, canary: int, /) -> Float32Array:
        """The unit vector of a canary, float32 of shape (dim,)."""


@dataclass(frozen=True, eq=False)
class UploadScores:
    """Scores from uploads, and the compared vectors."""

    values: FloatArray
    compared: ComparedVectors


@dataclass(frozen=True, eq=False)
class PoolOfUploads:
    """The pool whose uploads are logged; without `own` rounds, a canary has at most one upload."""

    canaries: ScoredCanaries
    family: str | None
    seed: int
    dim: int
    own: OwnRounds | None

    def slots(self) -> Mapping[tuple[int, int], int]:
        """The row of a direction by round and canary; empty if no canary has several rounds."""
        if self.own is None or self.own.most <= 1:
            return {}
        pairs = (
            (index, int(canary))
            for index, members in sorted(self.own.members().items())
            for canary in members
        )
        return {pair: slot for slot, pair in enumerate(pairs)}


class CanaryUploads:
    """A log of canaries' uploads.

    The score of a canary without an upload is its cosine with a Gaussian vector drawn by the seed.
    This vector is independent of all canaries, so the score has the null distribution whether the
    canary is included or not: a lost upload shows nothing, and excluded canaries need not send
    anything.
    """

    def __init__(
        self,
        pool: PoolOfUploads,
        cosines: UploadCosines,
        concentrations: ConcentrationLog | None,
        directions: RoundDirections | KeptSums | None,
    ) -> None:
        self._pool = pool
        self._cosines = cosines
        self._concentrations = concentrations
        self._directions = directions
        self._slots = pool.slots()

    @classmethod
    def opened(
        cls,
        mode: Mode,
        folder: ScoredFolder,
        pool: PoolOfUploads,
        num_rounds: int | Literal["rounds"],
        count: int,
    ) -> "CanaryUploads":
        """Opens or creates the logs of a folder; in mode "r", only the cosines must exist."""
        cosines = UploadCosines.opened(mode, folder.upload_cosines, num_rounds, count)
        concentrations = None
        directions: RoundDirections | KeptSums | None = None
        path = folder.upload_concentrations
        if path.exists() if mode == "r" else depends_on_vectors(pool.family):
            concentrations = ConcentrationLog.opened(mode, path, cosines.num_rounds)
        path, kept = folder.upload_directions, folder.kept_upload_directions
        slots = len(pool.slots())
        if slots and (mode != "r" or path.exists()):
            directions = RoundDirections.opened(
                mode, path, slots, pool.seed, pool.dim, kept=None if mode == "r" else kept
            )
        elif mode == "r" and kept.exists():
            directions = KeptSums.read(kept)
        return cls(pool, cosines, concentrations, directions)

    def rounds_of(self, canary: int) -> IntArray:
        """The rounds, from 0, in which a canary has an upload."""
        return np.flatnonzero(np.isfinite(self._cosines.array[:, canary]))

    def add(self, index: int, canary: int, vector: Float32Array) -> None:
        """Logs the noised upload of a canary's client, of shape (dim,), in place of an earlier one.

        Zeros count as no upload; so does an upload whose logging a kill interrupted.
        """
        self._cosines.write(index, canary, np.nan)
        if isinstance(self._directions, RoundDirections):
            self._directions.add(self._slots[index, canary], vector)
        norm = euclidean_norm(vector)
        if norm == 0:
            return
        if self._concentrations is not None:
            rows = np.array([self._concentrations.array[index], concentration_row(vector)])
            self._concentrations.write_round(index, np.nanmax(rows, axis=0))
        product = inner_product(self._pool.canaries.vector(canary), vector)
        self._cosines.write(index, canary, product / norm)

    def flush(self) -> None:
        for log in (self._concentrations, self._directions, self._cosines):
            if log is not None and not isinstance(log, KeptSums):
                log.flush()

    @property
    def is_empty(self) -> bool:
        return not np.isfinite(self._cosines.values()).any()

    @property
    def most(self) -> int:
        """The largest number of uploads of a canary."""
        return int(np.isfinite(self._cosines.values()).sum(axis=0).max(initial=0))

    def scores(self) -> UploadScores:
        """The score of each canary, and the compared vectors.

        Cosines of several uploads are added up. The sum is divided by the norm of the summed
        directions, which gives one cosine; if that norm is not known, the sum is divided by the
        number of uploads, an upper bound on the norm.
        """
        values = self._cosines.values().astype(np.float64)
        is_there = np.isfinite(values)
        counts = is_there.sum(axis=0)
        totals = np.where(is_there, values, 0.0).sum(axis=0)
        stand_in = generator(self._pool.seed, Stream.STAND_IN_UPLOAD).standard_normal(
            self._pool.dim, np.float32
        )
        is_missing = counts == 0
        if is_missing.any():
            totals[is_missing] = self._pool.canaries.cosines(stand_in)[is_missing]
        if counts.max(initial=0) <= 1:
            compared = self._compared_with_one(is_there.any(axis=1), concentration_row(stand_in))
            return UploadScores(np.clip(totals, -1, 1), compared)
        return self._scores_of_sums(totals, np.maximum(counts, 1), is_there, stand_in)

    def _compared_with_one(
        self, rounds: npt.NDArray[np.bool_], stand_in: FloatArray
    ) -> ComparedVectors:
        if self._concentrations is None or not depends_on_vectors(self._pool.family):
            return ANY_VECTOR
        rows = np.vstack([self._concentrations.values()[rounds], stand_in])
        return any_one_of(rows) or ANY_VECTOR

    def _scores_of_sums(
        self,
        totals: FloatArray,
        counts: IntArray,
        is_there: npt.NDArray[np.bool_],
        stand_in: Float32Array,
    ) -> UploadScores:
        """`totals` over the norms of summed directions, or over `counts` if norms are not known."""
        of_canary: list[list[int]] = [[] for _ in counts]
        for (index, canary), slot in self._slots.items():
            if is_there[index, canary]:
                of_canary[canary].append(slot)
        slots = np.array(sorted(slot for own_slots in of_canary for slot in own_slots), np.int64)
        own = OwnRounds(tuple(np.array(slots, np.int64) for slots in of_canary))
        sums = None
        if self._directions is not None and len(slots):
            weights = RoundWeights.from_presences(own, slots)
            sums = self._directions.weighted_sums(weights, slots)
        if sums is None:
            limit = ComparedVectors((Vectors(1),), is_limit=True)
            return UploadScores(np.clip(totals / counts, -1, 1), limit)
        if (known := sums.concentration) is not None and depends_on_vectors(self._pool.family):
            rows = np.array([(known.cubes, known.fourth_powers), concentration_row(stand_in)])
            sums = dataclasses.replace(sums, concentration=largest_sums(rows))
        lengths = np.where(is_there.any(axis=0), sums.lengths, 1.0)
        return UploadScores(np.clip(totals / lengths, -1, 1), sums.compared)
