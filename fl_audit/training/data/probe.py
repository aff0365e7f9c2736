"""A round before training that shows what becomes of canaries in a process."""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow_federated as tff

from fl_audit.canaries.pool import CanaryPool
from fl_audit.errors import InputError
from fl_audit.inner_products import euclidean_norm, inner_product
from fl_audit.training.algorithm.audited_process import canary_dim, released_aggregate
from fl_audit.training.algorithm.clip_state import norm_to_clip, read_clip
from fl_audit.training.data.canary_clients import canary_client_data

_COPIES = 32
"""Canaries in a probe, all alike, so that noise counts for so much less."""

_TOLERATED, _CLEAR = 0.05, 0.5
"""The deviation from a client's length that is no fault, and the one that noise may not reach."""

_ZEROED = 0.25
"""The share of the last length below which a longer canary was zeroed, and not clipped."""

_ERRORS = 5.0
"""Standard errors of noise beyond which a deviation is none of chance (6e-7)."""

_SMALLEST, _DOUBLINGS = 1e-3, 40
"""The lengths that are tried where the clip norm is not known: the smallest, and how many."""

_GROWN = 1.5
"""The ratio of what arrives of doubled lengths from which on nothing clips them."""

_LONGER = 6
"""Doublings of a norm that is given, to see whether a client may be longer: to 128 times."""


@dataclass(frozen=True)
class ProbedCanary:
    """What became of a canary in a round that was run to see it.

    Attributes:
      norm: The length of its update before zeroing, clipping, compression and weighting.
      arrived: The length at which it is in the aggregate, along its own direction.
      promised: The length that clip norm and denominator allow a client; without a denominator, in
        a mean of canaries all alike, the clip norm. Where the state shows no clip norm, it is the
        length at which the longest canary that was tried arrives.
      error: The standard error of `arrived`, from the noise on the aggregate.
      zeroed: How many of the probe's canaries TFF counted as zeroed; None where it does not count.
    """

    norm: float
    arrived: float
    promised: float
    error: float
    zeroed: int | None

    @property
    def ratio(self) -> float:
        """The share of a client's length that arrives."""
        return self.arrived / self.promised

    @property
    def state(self) -> str:
        """The state "arrived", "not_arrived" or "cannot_tell", as of a whole audit."""
        away, error = abs(self.ratio - 1), self.error / self.promised
        if away > _TOLERATED + _ERRORS * error:
            return "not_arrived"
        return "arrived" if away + _ERRORS * error <= _CLEAR else "cannot_tell"

    def __str__(self) -> str:
        """A sentence on what became of it."""
        counted = "" if not self.zeroed else f"; {self.zeroed} of {_COPIES} were zeroed"
        return (
            f"{self.state}: a canary of length {self.norm:.3g} is in the aggregate at "
            f"{self.ratio:.3g} ± {self.error / self.promised:.2g} of the length that a client may "
            f"have{counted}"
        )


def probe(
    process: tff.learning.templates.LearningProcess, norm: float | None = None, state: Any = None
) -> ProbedCanary:
    """Says whether a canary passes zeroing, clipping, compression and weighting, in one round.

    The round has 32 canaries that are all alike and nobody else; its state is thrown away. Where
    the aggregator's state shows no clip norm, lengths are doubled, a round each, until one does not
    arrive longer than the one before: that is the longest that is not clipped. A norm that is given
    is compared with that one too.

    Args:
      process: A process of `compose_audited_process`.
      norm: The length of a canary's update; None for the one that `CanaryClients` takes.
      state: The state that the round starts from; by default the initial one.

    Raises:
      InputError: The norm is not positive, or nothing clips, so that no length can be found.
    """
    start = process.initialize() if state is None else state
    if norm is not None:
        if not 0 < norm < math.inf:
            raise InputError(f"norm: must be positive and finite, got {norm}")
        found = _probed(process, start, norm)
        if read_clip(start).norm is not None:
            return found
        return dataclasses.replace(found, promised=_longest(process, start, found))
    if read_clip(start).norm is not None:
        return _probed(process, start, norm_to_clip(start))
    return _saturating(process, start)


def _longest(
    process: tff.learning.templates.LearningProcess, start: Any, found: ProbedCanary
) -> float:
    """The length at which the longest client arrives; the canary's own where nothing limits it."""
    arrived = [one.arrived for one in _doubled(process, start, 2 * found.norm, _LONGER)]
    is_limited = arrived[-1] < _GROWN * arrived[-2] or arrived[-1] < _GROWN * found.arrived
    return max(found.arrived, *arrived) if is_limited else found.promised


def _saturating(process: tff.learning.templates.LearningProcess, start: Any) -> ProbedCanary:
    """The first of doubled lengths that arrives clipped, and not zeroed."""
    last: ProbedCanary | None = None
    for found in _doubled(process, start, _SMALLEST, _DOUBLINGS):
        if last is not None and found.arrived < _GROWN * last.arrived and last.state == "arrived":
            is_zeroed = found.arrived < _ZEROED * last.arrived
            return last if is_zeroed else dataclasses.replace(found, promised=last.arrived)
        last = found
    raise InputError(
        "norm: must be given, the length of a typical update: nothing clips or zeroes updates up "
        f"to length {_SMALLEST * 2.0**_DOUBLINGS:.0e}"
    )


def _doubled(
    process: tff.learning.templates.LearningProcess, start: Any, norm: float, doublings: int
) -> Iterator[ProbedCanary]:
    return (_probed(process, start, norm * 2.0**power) for power in range(doublings + 1))


def _probed(
    process: tff.learning.templates.LearningProcess, start: Any, norm: float
) -> ProbedCanary:
    """One round of canaries of a length, all along one vector."""
    vector = CanaryPool(seed=0, count=2, dim=canary_dim(process)).vector(0)
    data = [canary_client_data(process, norm * vector) for _ in range(_COPIES)]
    metrics = process.next(start, data).metrics
    aggregate = np.concatenate([np.ravel(part) for part in released_aggregate(metrics)])
    along = inner_product(aggregate, vector)
    across = euclidean_norm(aggregate - along * vector) / math.sqrt(len(vector))
    clip = read_clip(start)
    promised = norm if clip.norm is None else clip.norm
    # A mean over these canaries alone is as long as one of them.
    counted = 1.0 if clip.denominator is None else _COPIES / clip.denominator
    one = 1.0 if clip.denominator is None else float(_COPIES)
    return ProbedCanary(
        norm=norm,
        arrived=along / one,
        promised=promised * counted / one,
        error=across / one,
        zeroed=_count(metrics, "zeroed_count"),
    )


def _count(metrics: Any, name: str) -> int | None:
    found = metrics.get("aggregator") if hasattr(metrics, "get") else None
    value = found.get(name) if hasattr(found, "get") else None
    return None if value is None else int(value)
