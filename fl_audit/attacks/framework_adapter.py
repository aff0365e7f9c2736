"""The common part of the adapters for frameworks (`fl_audit.flower`, `nvflare`, `opacus`, `pfl`).

An error of the audit never stops another system's training. It is logged and noted in the audit's
folder, so that a later verdict takes it into account, and the audit continues without the failed
step. Lost canaries stop the training only at the user's choice (`lost_canaries`).
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.attacks.arrays import unflatten
from fl_audit.attacks.logs import read_listed, read_vector
from fl_audit.attacks.scorer import RoundScorer
from fl_audit.canaries.pool import CanaryPool
from fl_audit.checks.canary_watch import CanariesLostError
from fl_audit.config_tables.audit import LostCanaries
from fl_audit.errors import InputError, one_line
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.participation_files import Participation
from fl_audit.formats.text_files import atomic_writer, write_text
from fl_audit.participation.placement import poisson_sampled, spread
from fl_audit.participation.schedule import ParticipationTable

_LOG = logging.getLogger("fl_audit")

TIMES_CLIP_NORM = 100.0
"""The norm of a canary's update before it is clipped, in clip norms."""


@dataclass
class Outcome:
    """How a block of `AdapterAudit.errors_logged` ended, once it has."""

    failed: bool = False


class AdapterAudit:
    """The state of an adapter apart from its scorer: its folder, and names of audited arrays."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = LogFolder(Path(folder))
        self._names: tuple[str, ...] | None = None

    @contextlib.contextmanager
    def errors_logged(self, what: str) -> Iterator[Outcome]:
        """Logs the errors of a block and notes them in the audit's folder instead of raising them.

        `what` names the block in the message; the folder may not exist yet. CanariesLostError is
        still raised. What relies on the block must ask the outcome whether it failed.
        """
        outcome = Outcome()
        try:
            yield outcome
        except CanariesLostError:
            raise
        except Exception as error:  # an error of the audit never ends the training
            outcome.failed = True
            message = (
                str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            )
            line = one_line(f"{what}: {message}")
            _LOG.warning("the audit is incomplete, training goes on: %s", line)
            with contextlib.suppress(OSError), self._folder.faults.open("a") as file:
                file.write(f"{line}\n")

    def audited_arrays(self, arrays: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the floating-point arrays in the first model passed, which all rounds use.

        Other arrays, such as a normalisation's count of batches, are not trained.
        """
        if self._names is None:
            self._names = tuple(name for name, part in arrays.items() if is_floating(part))
            left_out = [f"{n} ({a.dtype})" for n, a in arrays.items() if n not in self._names]
            if left_out:
                _LOG.warning(
                    "these arrays are not floating-point, so neither the audit nor its canaries "
                    "use them: %s; the pool's dim is the number of the other values, %d",
                    one_line(", ".join(left_out)),
                    sum(arrays[name].size for name in self._names),
                )
        return self._names


def is_floating(array: Any) -> bool:
    return bool(array.dtype.kind == "f")


def widened(array: Any) -> Any:
    """The array as float32 or wider, for a scorer."""
    return array.astype(np.result_type(array.dtype, np.float32), copy=False)


def moved_along(
    vector: Float32Array, arrays: Mapping[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    """The named arrays plus a vector of shape (dim,), each in its own dtype.

    Raises InputError if the arrays do not have dim values in total, or a sum overflows its dtype.
    """
    wide = [widened(arrays[name]) for name in names]
    moved_arrays = {}
    for name, old, part in zip(names, wide, unflatten(vector, wide), strict=True):
        moved = old + part
        with np.errstate(over="ignore"):  # an overflow is refused below
            moved_arrays[name] = moved.astype(arrays[name].dtype)
        if (np.isinf(moved_arrays[name]) & np.isfinite(moved)).any():
            raise InputError(
                f"norm: a canary of norm {np.linalg.norm(vector):.4g} overflows "
                f"{moved_arrays[name].dtype}; take a smaller norm, still above every clip norm"
            )
    return moved_arrays


@dataclass(frozen=True)
class CanaryRounds:
    """The rounds of canaries that an adapter adds to the training.

    An excluded canary has the rounds in which it would participate if included.
    """

    participations: ParticipationTable
    num_rounds: int
    participation: Participation | None = None

    @classmethod
    def draw(
        cls, seed: int, count: int, num_rounds: int, sample_rate: float | None, repeats: int
    ) -> "CanaryRounds":
        """Draws the rounds of `count` canaries, as a function of the seed.

        With a `sample_rate`, canaries are Poisson sampled like clients, and a claim relies on
        sampling. Otherwise each canary has `repeats` known rounds, one in each of `repeats` equal
        parts of the training.
        """
        if num_rounds < 1:
            raise InputError(f"number of rounds: must be at least 1, got {num_rounds!r}")
        canaries = np.arange(count)
        if sample_rate is not None:
            participation = Participation("poisson", probability=sample_rate, client_weight=1.0)
            sampled = poisson_sampled(canaries, seed, num_rounds, sample_rate)
            return cls(sampled, num_rounds, participation)
        if not 1 <= repeats <= num_rounds:
            raise InputError(f"repeats: must be in 1 to {num_rounds}, got {repeats!r}")
        known = Participation("none", client_rounds=repeats, client_weight=1.0)
        return cls(spread(canaries, seed, num_rounds, repeats), num_rounds, known)

    def included_in(self, round_index: int, pool: CanaryPool) -> list[int]:
        """The included canaries of a round, from 0."""
        sampled = self.participations.members_in(round_index)
        return [int(canary) for canary in sampled[pool.included[sampled]]]

    def scorer(
        self, folder: Path | str, pool: CanaryPool, lost_canaries: LostCanaries
    ) -> RoundScorer:
        """The scorer of a new audit, or of this audit as it was before a restart.

        Raises InputError if the folder holds something else.
        """
        if not LogFolder(Path(folder)).pool.exists():
            return RoundScorer.create(
                folder,
                pool,
                self.num_rounds,
                self.participations.by_member(pool.count),
                participation=self.participation,
                lost_canaries=lost_canaries,
            )
        scorer = RoundScorer.open(folder, lost_canaries)
        if (scorer.pool, scorer.num_rounds) != (pool, self.num_rounds):
            raise InputError(
                f"{folder}: holds the audit of {scorer.pool} in {scorer.num_rounds} rounds, "
                f"not of {pool} in {self.num_rounds}; must be a new folder, or that of this audit"
            )
        own = read_listed(scorer.folder, pool).own_rounds
        listed = [] if own is None else [(rounds + 1).tolist() for rounds in own.of_canary]
        if listed != self.participations.by_member(pool.count):
            raise InputError(
                f"{folder}: holds an audit whose canaries have other rounds (repeats, "
                "sample_rate); must be a new folder, or that of this audit"
            )
        return scorer


def keep_initial(scorer: RoundScorer, model: Float32Array) -> None:
    """Keeps the first model of a training in the audit's folder, for `finish_audit`."""
    with atomic_writer(scorer.folder.initial) as file:
        np.save(file, model)


def finish_audit(scorer: RoundScorer, model: Float32Array) -> None:
    """Writes the score files; `final_minus_initial` only if `keep_initial` kept a model."""
    path = scorer.folder.initial
    initial = read_vector(path, scorer.pool.dim) if path.exists() else None
    scorer.finish(initial=initial, final=model)


_CLAIMED_DELTAS = np.geomspace(0.3, 1e-9, 25)


def write_profile(epsilon_at: Callable[[float], float], path: Path | str) -> None:
    """Writes an accountant's privacy profile as a CSV file for `estimate --claimed-profile`.

    Raises InputError, without a file, if no epsilon is finite.
    """
    if not write_points(profile_of(epsilon_at), path):
        raise InputError(f"{path}: not written, as the accountant gives no finite epsilon")


def profile_of(epsilon_at: Callable[[float], float]) -> list[tuple[float, float]]:
    """The points (epsilon, delta) of an accountant's privacy profile."""
    return [(epsilon_at(delta), delta) for delta in _CLAIMED_DELTAS.tolist()]


def write_points(points: Iterable[tuple[float, float]], path: Path | str) -> bool:
    """Writes the points (epsilon, delta) whose epsilon is finite; no file, and False, without."""
    rows = [f"{float(e)!r},{float(delta)!r}" for e, delta in points if 0 <= e < np.inf]
    if rows:
        write_text(Path(path), "\n".join(["epsilon,delta", *rows]) + "\n")
    return bool(rows)
