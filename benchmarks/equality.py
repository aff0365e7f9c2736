"""The check that stands before every race."""

import numpy as np
import numpy.typing as npt


def check(ours: npt.ArrayLike, peer: npt.ArrayLike, tolerance: float) -> None:
    """Refuse to time what does not give the same result.

    Args:
      ours: number or array.
      peer: of the same shape.
      tolerance: largest absolute difference.

    Raises:
      SystemExit: they differ by more, or one of them is not a number.
    """
    ours, peer = np.asarray(ours, np.float64), np.asarray(peer, np.float64)
    if ours.shape != peer.shape:
        raise SystemExit(f"results of shapes {ours.shape} and {peer.shape}")
    difference = np.max(np.abs(ours - peer), initial=0.0)
    if not difference <= tolerance:
        raise SystemExit(f"results differ by {difference:.3g}, more than {tolerance}")
