"""How coarse the numbers of a vector are: in half precision, or on a grid."""

import numpy as np

from fl_audit.array_types import FloatArray


def half_precision(numbers: FloatArray) -> float:
    """The relative error of numbers that are all float16, or else all bfloat16; 0 for others."""
    with np.errstate(over="ignore"):
        if np.array_equal(numbers, numbers.astype(np.float16)):
            return 2.0**-10
        single = numbers.astype(np.float32)
    cut = (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return 2.0**-7 if np.array_equal(numbers, cut) else 0.0


def grid_step(vector: FloatArray, error: float) -> float | None:
    """The step of the grid on which all numbers of a vector lie; None where there is none.

    Args:
      vector: The numbers, of shape (dim,).
      error: The error of a number.
    """
    values = np.unique(np.append(np.abs(vector), 0.0))
    gaps = np.diff(values)
    gaps = gaps[gaps > 8 * error]
    if len(vector) < 8 or not len(gaps):
        return None
    step = float(gaps.min())
    if step < 64 * error or values[-1] > 1e9 * step:
        return None
    multiples = np.rint(values / step)
    step = float(values @ multiples / (multiples @ multiples))
    off = np.abs(values - np.rint(values / step) * step)
    return step if off.max() <= max(8 * error, 1e-6 * step) else None
