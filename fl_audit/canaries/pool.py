"""A pool of canaries: a few values, from which all parts of an audit draw its coins and vectors.

>>> pool = CanaryPool(seed=7, count=6, dim=1000)
>>> pool.included.tolist()
[False, True, False, False, False, True]
>>> pool.vector(0).shape
(1000,)
"""

import functools
import itertools
import json
import math
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import numpy.typing as npt

from fl_audit.canaries.families import FAMILIES, CanaryFamily
from fl_audit.errors import InputError, nearest
from fl_audit.estimators.scores import Inclusion
from fl_audit.formats.text_files import check_format_version, read_json, write_text
from fl_audit.seeds import Stream, generator

FORMAT_VERSION = 2

_RANGE = {"seed": (0, 2**64 - 1), "count": (2, 10**7), "dim": (2, 10**11)}
"""The allowed range of each field; larger pools would take too much time or memory."""


@dataclass(frozen=True)
class CanaryPool:
    """A pool of canaries, whose coins and vectors are functions of these attributes.

    Equal attributes give the same coins and vectors here, in `fl-audit run`, in every process and
    on every machine (`gaussian` up to the last bit of NumPy's `cos`, `sin` and `log`,
    docs/canaries.md).

    Attributes:
      seed: The seed of coins and vectors, at least 0; every audit needs a new seed.
      count: The size of the pool, included and excluded together, at least 2.
      dim: The number of trainable parameters, at least 2.
      family: The distribution of the vectors: "gaussian", "rademacher", "hadamard" or "dirac"
        (docs/canaries.md).
      inclusion: How included canaries are chosen: "coins", "fixed_half" or "pairs".

    Raises:
      InputError: A field is out of its range, or the family has fewer canaries than `count`.
    """

    seed: int
    count: int
    dim: int
    family: str = "rademacher"
    inclusion: Inclusion = "coins"

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGE.items():
            value = getattr(self, name)
            is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not is_whole or not least <= value <= most:
                raise InputError(
                    f"{name}: must be a whole number from {least} to {most}, got {value!r}"
                )
            object.__setattr__(self, name, int(value))  # NumPy integers are not JSON
        if not isinstance(self.family, str) or self.family not in FAMILIES:
            hint = nearest(str(self.family), FAMILIES)
            raise InputError(f"family: unknown family {self.family!r}: {hint}")
        if self.inclusion not in get_args(Inclusion):
            hint = nearest(str(self.inclusion), get_args(Inclusion))
            raise InputError(f"inclusion: unknown {self.inclusion!r}: {hint}")
        if self.inclusion == "unequal_coins":
            raise InputError("inclusion: 'unequal_coins' is only for fl-audit's runs; use 'coins'")
        self._family()  # refuses more canaries than the family has

    def _family(self) -> CanaryFamily:
        return _family(self.family, self.seed, self.count, self.dim)

    @property
    def included(self) -> npt.NDArray[np.bool_]:
        """Whether each canary is included in training, bool of shape (count,).

        Raises:
          InputError: All coins are equal, or `count` does not suit `inclusion`.
        """
        return draw_included(self.inclusion, self.seed, self.count)

    def vector(self, canary: int) -> npt.NDArray[np.float32]:
        """The canary's unit vector, the direction of its client's update; float32 of shape (dim,).

        A canary's client sends norm * vector(canary), signed as the model's movement. If the system
        clips, choose a norm above every clip norm: clipping then gives the canary the largest norm
        of an update. A shorter canary may leak less than a client. If the system does not clip, or
        drops long updates, take the norm of a typical update: the audit then covers clients with
        such updates, but not with longer updates.

        Raises:
          InputError: The pool has no such canary.
        """
        if not 0 <= canary < self.count:
            raise InputError(f"canary: must be in 0 to {self.count - 1}, got {canary}")
        return self._family().vector(int(canary))

    def cosines(self, target: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The cosine of every canary with a vector of shape (dim,); float64 of shape (count,)."""
        return self._family().cosines(target)


@functools.lru_cache(maxsize=2)
def _family(name: str, seed: int, count: int, dim: int) -> CanaryFamily:
    """The family, which may cache vectors; cached outside the pool, so that it can be pickled."""
    return FAMILIES[name](seed, count, dim)


class _File(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A `pool.json`, in which `inclusion` is left out if it is the default."""

    format_version: int
    family: str
    seed: int
    count: int
    dim: int
    inclusion: str = "coins"


def write_pool(path: Path, pool: CanaryPool) -> None:
    file = _File(FORMAT_VERSION, pool.family, pool.seed, pool.count, pool.dim, pool.inclusion)
    write_text(path, json.dumps(msgspec.to_builtins(file)) + "\n")


def read_pool(path: Path) -> CanaryPool:
    """Reads a `pool.json`; refuses missing and unknown keys, and values out of range."""
    file = read_json(path, _File, "a pool of canaries")
    check_format_version(path, file.format_version, FORMAT_VERSION)
    try:
        inclusion = typing.cast(Inclusion, file.inclusion)
        return CanaryPool(file.seed, file.count, file.dim, file.family, inclusion)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


# Inclusion: by a coin each, a fixed half, or one of each pair.


def draw_included(
    inclusion: Inclusion, seed: int, num_canaries: int, probability: float = 0.5
) -> npt.NDArray[np.bool_]:
    """Draws the included canaries, bool of shape (num_canaries,)."""
    if num_canaries == 0:
        return np.zeros(0, np.bool_)
    match inclusion:
        case "coins" | "unequal_coins":
            return flip_coins(seed, num_canaries, probability)
        case "fixed_half":
            return draw_half(seed, num_canaries)
        case "pairs":
            return draw_of_pairs(seed, num_canaries)


def flip_coins(seed: int, num_canaries: int, probability: float = 0.5) -> npt.NDArray[np.bool_]:
    """Flips a coin for each canary (Steinke et al. Algorithm 1, lines 1 to 3).

    The one-run test needs independent coins; the Gaussian fit and the threshold bounds allow them.
    Raises InputError if all coins are equal, or if unequal coins are likely to be.
    """
    # As equal coins are refused, all others are conditioned on being unequal, and tests may err
    # 1 / (1 - chance of equal coins) times as often. Few fair coins may be equal too, but p-values
    # of so few guesses are coarse, and at 95 % tests still err less often than their level.
    largest = _RANGE["count"][1]
    if _chance_of_equal(largest, probability) > _RARELY_EQUAL:
        raise InputError(
            f"canaries.inclusion_probability: with coins of probability {probability:g} all coins "
            f"of a pool of {largest:,}, the largest possible, may be equal; must be closer to 0.5"
        )
    if probability != 0.5 and _chance_of_equal(num_canaries, probability) > _RARELY_EQUAL:
        rarer = min(probability, 1 - probability)
        first = math.ceil(math.log(_RARELY_EQUAL) / math.log1p(-rarer))
        counts = itertools.count(first)
        least = next(k for k in counts if _chance_of_equal(k, probability) <= _RARELY_EQUAL)
        raise InputError(
            f"canaries.count: with coins of probability {probability:g} must be at least {least}, "
            f"got {num_canaries}: all coins of fewer may be equal, which biases those that are not"
        )
    included = generator(seed, Stream.INCLUSION).random(num_canaries) < probability
    if included.all() or not included.any():
        side = "included" if included.all() else "excluded"
        raise InputError(
            f"seed {seed}: the coins of all {num_canaries} canaries fell on {side}; "
            "use more canaries (canaries.count)"
        )
    return included


_RARELY_EQUAL = 1e-3
"""The largest probability with which all unequal coins may be equal."""


def _chance_of_equal(count: int, probability: float) -> float:
    rarer = min(probability, 1 - probability)
    return rarer**count + math.exp(count * math.log1p(-rarer))


def draw_half(seed: int, num_canaries: int) -> npt.NDArray[np.bool_]:
    """Draws half of the canaries, every half as likely as any other (Andrew et al. section 5).

    The coins of all other canaries determine the last canary's coin, so the one-run test, which
    assumes independent coins, does not apply.
    """
    if num_canaries < 2 or num_canaries % 2:
        raise InputError(
            "canaries.inclusion: 'fixed_half' needs an even number of canaries (canaries.count), "
            f"got {num_canaries}"
        )
    in_order = np.arange(num_canaries) < num_canaries // 2
    return generator(seed, Stream.INCLUSION).permutation(in_order)


def draw_of_pairs(seed: int, num_canaries: int) -> npt.NDArray[np.bool_]:
    """Draws one canary of each pair by a fair coin (Steinke et al. appendix A).

    Canaries 0 and 1 are a pair, canaries 2 and 3 the next, and so on.
    """
    if num_canaries < 4 or num_canaries % 2:
        raise InputError(
            "canaries.inclusion: 'pairs' needs an even number of canaries (canaries.count), at "
            f"least 4, got {num_canaries}"
        )
    takes_first = generator(seed, Stream.INCLUSION).random(num_canaries // 2) < 0.5
    included = np.empty(num_canaries, np.bool_)
    included[::2], included[1::2] = takes_first, ~takes_first
    return included


def pair_names(inclusion: Inclusion, num_canaries: int) -> tuple[str, ...]:
    """The name of each canary's pair, in the order of the pool; empty without pairs."""
    if inclusion != "pairs":
        return ()
    return tuple(str(canary // 2) for canary in range(num_canaries))
