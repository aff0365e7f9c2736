"""The error counts of one attack per challenge base."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import IntArray
from fl_audit.errors import InputError


@dataclass(frozen=True, eq=False)
class ChallengeCounts:
    """False positives and false negatives of attacks, one entry per challenge base.

    A challenge base is a data set D with a point z outside it; the attack tells models trained on
    D from models trained on D and z. Yıldırım et al. (2025), Definitions 2 and 3, section 2.1.

    Attributes:
      fp: False positives X, int64 of shape (n,): models trained on D that the attack took for ones
        trained on D and z.
      n0: Numbers N0 of models trained on D, at least 0, int64 of shape (n,).
      fn: False negatives Y, int64 of shape (n,): models trained on D and z that it took for ones
        trained on D.
      n1: Numbers N1 of models trained on D and z, at least 0, int64 of shape (n,).

    Raises:
      InputError: If there is no base, the lengths differ, a count is negative or no whole
        number, or there are more errors than challenges.

    >>> ChallengeCounts(fp=[1, 0], n0=[100, 100], fn=[20, 30], n1=[100, 100]).num_bases
    2
    """

    fp: IntArray
    n0: IntArray
    fn: IntArray
    n1: IntArray

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        for name in ("fp", "n0", "fn", "n1"):
            object.__setattr__(self, name, _frozen_counts(name, getattr(self, name)))
        lengths = {len(self.fp), len(self.n0), len(self.fn), len(self.n1)}
        if lengths == {0}:
            raise InputError("counts must hold at least one challenge base, got none")
        if len(lengths) > 1:
            raise InputError(
                "fp, n0, fn and n1 must have one entry per challenge base, got "
                f"{len(self.fp)}, {len(self.n0)}, {len(self.fn)} and {len(self.n1)}"
            )
        for errors, trials in (("fp", "n0"), ("fn", "n1")):
            bad = np.flatnonzero(getattr(self, errors) > getattr(self, trials))
            if len(bad):
                at = int(bad[0])
                raise InputError(
                    f"challenge base {at}: {errors} must be at most {trials}, got "
                    f"{getattr(self, errors)[at]} of {getattr(self, trials)[at]}"
                )

    @property
    def num_bases(self) -> int:
        """Number of challenge bases, n."""
        return len(self.fp)


def _frozen_counts(name: str, values: npt.ArrayLike) -> IntArray:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {array.shape}")
    if len(array) == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} must hold whole numbers, got {array.dtype}")
    bad = np.flatnonzero(~((array >= 0) & (array < 2**53) & (array == np.floor(array))))
    if len(bad):
        raise InputError(
            f"challenge base {bad[0]}: {name} must be a whole number of at least 0, "
            f"got {array[bad[0]]}"
        )
    counts = np.array(array, dtype=np.int64)
    counts.flags.writeable = False
    return counts
