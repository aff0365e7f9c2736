"""Matrix mechanisms, as used in production: noise correlated over rounds by a matrix.

Round t is released with row t of C^-1 z, where z is independent Gaussian noise and C a
lower-triangular Toeplitz matrix, the strategy (`accounting.toeplitz`). The noise of later rounds
cancels part of the noise of earlier rounds. So the model, a sum over rounds, has less noise at the
same epsilon. A `NoiseStream` computes the noise round by round.
"""

import functools
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from fl_audit.accounting.buffered_toeplitz import MOST_BUFFERS, BufferedToeplitz, optimise
from fl_audit.accounting.noise_distributions import MATRIX
from fl_audit.accounting.toeplitz import (
    Toeplitz,
    inverse_column,
    inverse_sqrt_column,
    sqrt_column,
)
from fl_audit.array_types import FloatArray
from fl_audit.config_tables.kinds import PositiveFloat, PositiveInt
from fl_audit.errors import InputError
from fl_audit.formats.npy_file import read_array
from fl_audit.formats.run_record import RunRecord
from fl_audit.mechanisms.kind import (
    WITH_FIXED_CLIP,
    MechanismKind,
    NoiseStream,
    NoisyMechanism,
    by_multiplier,
)
from fl_audit.mechanisms.zeroing import Zeroing
from fl_audit.number_words import count

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


_KEY_OF = {
    "banded_sqrt": "bands",
    "banded_inverse_sqrt": "bands",
    "blt": "buffers",
    "file": "coefficients",
}
"""The required key of each strategy."""

_MOST_GROWTH = 1e3
"""The largest accepted ratio of the standard deviations of noise in any round and in the first."""


class MatrixFactorisation(
    NoisyMechanism, frozen=True, kw_only=True, tag_field="kind", tag="matrix_factorisation"
):
    """Noise correlated over rounds by a matrix: DP-FTRL with a Toeplitz strategy C.

    Attributes:
      noise_multiplier: Standard deviation, in clip norms, of the noise before C^-1 correlates it.
      clip_norm: L2 norm to which updates are clipped.
      strategy: The matrix C (docs/mechanisms.md).
      bands: Diagonals of the banded strategies; memory holds bands - 1 vectors of model size.
      buffers: Buffers of `blt`, 1 to 10, each a vector of model size in memory.
      coefficients: The .npy file of C's first column.
      zeroing: The zeroing of updates before they are clipped; none by default.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("coefficients",)
    refused_keys: ClassVar[Mapping[str, str]] = WITH_FIXED_CLIP

    clip_norm: PositiveFloat
    strategy: Literal["banded_sqrt", "sqrt", "blt", "banded_inverse_sqrt", "file"]
    bands: PositiveInt | None = None
    buffers: PositiveInt | None = None
    coefficients: str | None = None
    zeroing: Zeroing | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        needed = _KEY_OF.get(self.strategy)
        for key in ("bands", "buffers", "coefficients"):
            is_set = getattr(self, key) is not None
            if key == needed and not is_set:
                raise ValueError(f"strategy {self.strategy!r} needs {key}")
            if key != needed and is_set:
                needs = f"needs {needed}" if needed else "needs no other key"
                raise ValueError(f"{key} is not for strategy {self.strategy!r}, which {needs}")
        if self.buffers is not None and self.buffers > MOST_BUFFERS:
            raise ValueError(f"buffers must be from 1 to {MOST_BUFFERS}, got {self.buffers}")


# The matrix and its noise.


@functools.lru_cache(maxsize=64)
def _buffered(buffers: int, num_rounds: int) -> BufferedToeplitz:
    return optimise(buffers, num_rounds)


def strategy_of(table: MatrixFactorisation, num_rounds: int) -> Toeplitz:
    """The matrix C of a mechanism's config table, for a number of rounds."""
    match table.strategy:
        case "file":  # not cached, because the file may change
            return _from_file(Path(table.coefficients or ""), num_rounds)
        case computed:
            bands = min(table.bands or num_rounds, num_rounds)
            return _computed(computed, bands, table.buffers or 1, num_rounds)


@functools.lru_cache(maxsize=16)
def _computed(
    strategy: Literal["banded_sqrt", "sqrt", "blt", "banded_inverse_sqrt"],
    bands: int,
    buffers: int,
    num_rounds: int,
) -> Toeplitz:
    match strategy:
        case "sqrt" | "banded_sqrt":
            column = sqrt_column(bands)
        case "banded_inverse_sqrt":
            column = inverse_column(inverse_sqrt_column(bands), num_rounds)
        case "blt":
            column = _buffered(buffers, num_rounds).column(num_rounds)
        case _:
            typing.assert_never(strategy)
    return Toeplitz.from_column(column, num_rounds)


def stream_of(table: MatrixFactorisation, num_rounds: int) -> NoiseStream:
    """The noise stream of a mechanism's config table, for a number of rounds."""
    own = _own_stream(table, num_rounds)
    return own or NoiseStream.from_column(strategy_of(table, num_rounds).first_column)


def _own_stream(table: MatrixFactorisation, num_rounds: int) -> NoiseStream | None:
    """The noise stream; None if it is that of the matrix's first column. Reads no file."""
    match table.strategy:
        case "blt":
            buffered = _buffered(table.buffers or 1, num_rounds)
            weights = tuple(-scale for scale in buffered.scales)
            return NoiseStream(1.0, weights, decays=buffered.decays)
        case "banded_inverse_sqrt":
            fresh, *past = inverse_sqrt_column(min(table.bands or 1, num_rounds)).tolist()
            return NoiseStream(fresh, tuple(past), keeps_fresh=True)
        case _:
            return None


def _from_file(path: Path, num_rounds: int) -> Toeplitz:
    column: FloatArray = read_array(path, "the first column of a matrix (mechanism.coefficients)")
    name = f"mechanism.coefficients: {path}"
    if column.ndim != 1 or column.dtype.kind not in "fiu" or column.size == 0:
        raise InputError(
            f"{name}: must be numbers of shape (bands,), the first column of the strategy, got "
            f"{column.dtype} of shape {column.shape}"
        )
    column = column.astype(np.float64)
    if not np.isfinite(column).all() or column[0] <= 0:
        raise InputError(f"{name}: must be finite numbers, the first of them above 0")
    strategy = Toeplitz.from_column(column, num_rounds)
    with np.errstate(over="ignore", invalid="ignore"):
        variances = np.cumsum(np.square(strategy.inverse))
    if not variances[-1] <= _MOST_GROWTH**2 * variances[0]:
        raise InputError(
            f"{name}: the noise of round {num_rounds} would be more than {_MOST_GROWTH:g} times "
            "that of the first, as the inverse of this matrix grows; must be the first column of "
            "C, not of its inverse"
        )
    return strategy


# The mechanism.


def _aggregator(
    table: MatrixFactorisation, expected_cohort: float, num_rounds: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    from fl_audit.mechanisms.tff_aggregators import MatrixSumQuery, MeanOverExpectedCohort

    clip_norm, stream = table.clip_norm, stream_of(table, num_rounds)
    return MeanOverExpectedCohort(
        lambda specs: MatrixSumQuery(clip_norm, table.multiplier * clip_norm, stream, specs),
        expected_cohort,
    )


def _noise_words(table: MatrixFactorisation, record: RunRecord) -> str:
    multiplier = record.release.noise.noise_multiplier
    return (
        f"; Gaussian noise with noise multiplier {multiplier:g}, correlated over rounds by "
        f"{_strategy_words(table)}, is added to their sum"
    )


def _strategy_words(table: MatrixFactorisation) -> str:
    match table.strategy:
        case "sqrt":
            return "the inverse square root of the prefix-sum matrix"
        case "banded_sqrt":
            return f"the inverse of a square root of {count(table.bands or 1, 'band')}"
        case "banded_inverse_sqrt":
            return f"an inverse square root of {count(table.bands or 1, 'band')}"
        case "blt":
            return f"a buffered linear Toeplitz matrix of {count(table.buffers or 1, 'buffer')}"
        case "file":
            return "the inverse of a Toeplitz matrix from a file"
        case _:
            typing.assert_never(table.strategy)


MATRIX_FACTORISATION = MechanismKind(
    table=MatrixFactorisation,
    make_aggregator=_aggregator,
    noise_distribution=MATRIX,
    round_noise=by_multiplier(MATRIX),
    divides_by="expected_cohort",
    correlation=strategy_of,
    noise_words=_noise_words,
    noise_stream=_own_stream,
)
