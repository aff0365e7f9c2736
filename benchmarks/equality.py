"""The check for equal results that is made before every race."""

import numpy as np
import numpy.typing as npt


def check(ours: npt.ArrayLike, peer: npt.ArrayLike, tolerance: float) -> None:
    """Checks that ours and the peer give the same result.

    Args:
      ours: Our result, a number or an array.
      peer: The peer's result, of the same shape.
      tolerance: The largest absolute difference that is allowed.

    Raises:
      SystemExit: The results differ by more or in shape, or one of them is NaN.
    """
    ours, peer = np.asarray(ours, np.float64), np.asarray(peer, np.float64)
    if ours.shape != peer.shape:
        raise SystemExit(f"results of shapes {ours.shape} and {peer.shape}")
    difference = np.max(np.abs(ours - peer), initial=0.0)
    if not difference <= tolerance:
        raise SystemExit(f"results differ by {difference:.3g}, more than {tolerance}")
