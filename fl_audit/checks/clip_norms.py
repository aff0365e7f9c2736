"""The check of adaptive clip norms: whether the count that moves them is noised as configured.

Successive clip norms reveal each round's noised count of unclipped updates
(`mechanisms.adaptive_clip.AdaptiveClip`). The count without noise is a whole number, so the
remainder of the noised count is the noise modulo one client, whatever the count: a wrapped normal
variable (Mardia and Jupp, Directional Statistics, section 3.5.7).
"""

import json
import math
from dataclasses import asdict, dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.checks.check import Check
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.round_logs import LengthLog
from fl_audit.formats.text_files import read_json, write_text
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip

NAME = "count_noise"

_UNIFORM = 2.0
"""At or above this standard deviation, the remainder is uniform to within 1e-34."""


def check_clip_norms(
    clip_norms: FloatArray, participants: FloatArray, promise: AdaptiveClip
) -> Check:
    """Tests the noise of the counts that move a sequence of clip norms.

    Given the past, three p-values of a round are uniform under the promised noise, whatever the
    clients: for a remainder this near 0, this near the previous remainder, or this far from 0.
    Fisher's method combines each of the three over rounds; the smallest combined p-value is
    multiplied by three. A count at a limit of its range is not tested.

    Args:
      clip_norms: The clip norms of consecutive rounds, positive, of shape (rounds,).
      participants: The number of participants of each round, of shape (rounds,).
      promise: The update rule of the clip norm.

    Returns:
      The check `count_noise`; its ratio is the counts' mean distance from whole numbers over the
      expected one. It has no tests if no noise is promised, if counts cannot be determined, or with
      fewer than two clip norms.

    Raises:
      InputError: The arrays differ in length, or a clip norm is not positive.
    """
    norms, cohorts = np.asarray(clip_norms, np.float64), np.asarray(participants, np.float64)
    if norms.shape != cohorts.shape or norms.ndim != 1:
        raise InputError(
            f"clip_norms: must be as many as participants, got {norms.shape} and {cohorts.shape}"
        )
    if not (np.isfinite(norms).all() and (norms > 0).all()):
        raise InputError("clip_norms: must be positive")
    nothing = Check(NAME, 0.0, 0, None, None, 1.0)
    if len(norms) < 2 or promise.count_stddev == 0 or not promise.determines_counts:
        return nothing
    counts = promise.count(norms[:-1], norms[1:])
    tells = ~promise.is_limited(counts)
    whole = counts + cohorts[:-1] / 2
    distribution, remainders = _Remainder(promise.count_stddev), whole - np.round(whole)
    near = distribution.within(np.zeros_like(remainders), np.abs(remainders) + promise.rounding)
    far = 1 - distribution.within(np.zeros_like(remainders), np.abs(remainders) - promise.rounding)
    steps = np.diff(remainders)
    steps = np.abs(steps - np.round(steps)) + promise.rounding
    again = distribution.within(remainders[:-1], steps)
    log_p = min(
        _product(np.where(tells, near, 1.0)),
        _product(np.where(tells, far, 1.0)),
        _product(np.where(tells[1:], again, 1.0)),
    )
    ratio = float(np.abs(remainders[tells]).mean() / distribution.mean) if tells.any() else 1.0
    return Check(NAME, min(0.0, log_p + math.log(3)), int(tells.sum()), None, None, ratio)


def write_adaptive_clip(folder: LogFolder, promise: AdaptiveClip) -> None:
    """Writes `adaptive_clip.json`."""
    write_text(folder.adaptive_clip, json.dumps(asdict(promise)) + "\n")


def check_logged_clip_norms(folder: LogFolder, norm_bound: FloatArray) -> Check | None:
    """The check of a log; None if the log does not state how the clip norm moves.

    `norm_bound` is the largest norm of each noiseless aggregate, of shape (rounds,). The longest
    sequence of rounds with known norms is checked. In each round of this sequence `norm_bound` must
    be a whole multiple of a client's norm; otherwise nothing is tested.
    """
    if not folder.adaptive_clip.exists():
        return None
    try:
        promise = read_json(folder.adaptive_clip, AdaptiveClip, "how the clip norm moves")
    except InputError as error:
        text = str(error)
        where = "" if text.startswith(str(folder.adaptive_clip)) else f"{folder.adaptive_clip}: "
        raise InputError(f"{where}{text}") from error
    lengths = np.zeros((0, 2))
    if folder.round_lengths.exists():
        lengths = LengthLog.opened("r", folder.round_lengths, "rounds").values()
    num_rounds = min(len(lengths), len(norm_bound))
    norms, bounds = lengths[:num_rounds, 1], norm_bound[:num_rounds]
    is_known = np.append(np.isfinite(norms) & np.isfinite(bounds), False)
    ends = np.flatnonzero(~is_known)
    starts = np.append(0, ends[:-1] + 1)
    longest = int(np.argmax(ends - starts))
    known = slice(starts[longest], ends[longest])
    cohorts = np.asarray(bounds[known] / norms[known], np.float64)
    whole = np.asarray(np.round(cohorts), np.float64)
    if (np.abs(cohorts - whole) > _WHOLE * np.maximum(cohorts, 1)).any():
        return Check(NAME, 0.0, 0, None, None, 1.0)
    return check_clip_norms(norms[known], whole, promise)


_WHOLE = 1e-4
"""The largest distance of a number of participants from an integer, relative to that number."""


def _product(p_values: FloatArray) -> float:
    """The log p-value of the product of independent p-values (Fisher)."""
    from scipy import stats  # imported here: it takes half a second

    if not len(p_values):
        return 0.0
    smallest = np.finfo(np.float64).tiny
    total = -np.log(np.maximum(p_values, smallest)).sum()
    return float(stats.gamma.logsf(total, len(p_values)))


@dataclass(frozen=True)
class _Remainder:
    """Distribution of Gaussian noise modulo 1, in [-1/2, 1/2]."""

    stddev: float

    def within(self, centre: FloatArray, distance: FloatArray) -> FloatArray:
        """The probability of lying within `distance` of `centre` on the circle."""
        half = np.clip(distance, 0.0, 0.5)
        if self.stddev >= _UNIFORM:
            return 2 * half
        wraps = math.ceil(9 * self.stddev) + 1
        turns = np.arange(-wraps, wraps + 1)[:, None] + centre
        parts = special.ndtr((turns + half) / self.stddev)
        parts = parts - special.ndtr((turns - half) / self.stddev)
        return np.asarray(np.clip(parts.sum(axis=0), 0.0, 1.0))

    @property
    def mean(self) -> float:
        """The mean distance from 0."""
        distances = (np.arange(500) + 0.5) / 1000
        return float((1 - self.within(np.zeros(500), distances)).mean() / 2)
