"""What the adapters for training frameworks share (`fl_audit.flower`, `nvflare`, `opacus`, `pfl`).

An audit inside another system's training never ends that training: an error is logged and noted in
the audit's folder, so that a later verdict knows of it, and the audit goes on with what it has.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.attacks.arrays import unflatten
from fl_audit.attacks.logs import read_vector
from fl_audit.attacks.scorer import RoundScorer
from fl_audit.canaries.pool import CanaryPool
from fl_audit.errors import InputError, one_line
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.participation_files import Participation
from fl_audit.formats.text_files import atomic_writer, write_text
from fl_audit.participation.placement import poisson_sampled, spread
from fl_audit.participation.schedule import ParticipationTable

_LOG = logging.getLogger("fl_audit")


class AdapterAudit:
    """What an adapter keeps of an audit beside its scorer: the names of the audited arrays."""

    def __init__(self) -> None:
        """Starts without having seen a model."""
        self._names: tuple[str, ...] | None = None

    @contextlib.contextmanager
    def errors_logged(self, what: str, folder: Path | str) -> Iterator[None]:
        """A block whose errors are logged and noted in the audit's folder, and end there.

        Args:
          what: What the block does, for the message.
          folder: The folder of the audit, which may not be there yet.
        """
        try:
            yield
        except Exception as error:  # whatever it is, somebody's training goes on
            message = (
                str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            )
            line = one_line(f"{what}: {message}")
            _LOG.warning("the audit is incomplete, training goes on: %s", line)
            with contextlib.suppress(OSError), LogFolder(Path(folder)).faults.open("a") as file:
                file.write(f"{line}\n")

    def audited_arrays(self, arrays: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the arrays that the audit is about, the same in every round.

        Those are the ones of floating-point numbers in the first model that is seen. Others, such
        as the number of batches that a normalisation has seen, are no trained parameters.

        Args:
          arrays: The arrays of a model or an update, by name, in its order.
        """
        if self._names is None:
            self._names = tuple(name for name, part in arrays.items() if is_floating(part))
            left_out = [f"{n} ({a.dtype})" for n, a in arrays.items() if n not in self._names]
            if left_out:
                _LOG.warning(
                    "the audit leaves out arrays without floating-point numbers, of canary clients "
                    "too: %s; the pool's dim is the number of the other values, %d",
                    one_line(", ".join(left_out)),
                    sum(arrays[name].size for name in self._names),
                )
        return self._names


def is_floating(array: Any) -> bool:
    """Whether an array's numbers are floating-point ones, of any size."""
    return bool(array.dtype.kind == "f")


def widened(array: Any) -> Any:
    """An array whose numbers are float32 or wider, as a scorer takes them."""
    return array.astype(np.result_type(array.dtype, np.float32), copy=False)


def moved_along(
    vector: Float32Array, arrays: Mapping[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    """The named arrays moved along a vector, in their own types.

    Args:
      vector: The vector, float32 of shape (dim,).
      arrays: The arrays by name.
      names: The names of those that hold the `dim` numbers, in the vector's order.

    Raises:
      InputError: They hold more or fewer numbers, or the moved ones leave the range of their type.
    """
    wide = [widened(arrays[name]) for name in names]
    moved_arrays = {}
    for name, old, part in zip(names, wide, unflatten(vector, wide), strict=True):
        moved = old + part
        with np.errstate(over="ignore"):  # refused below
            moved_arrays[name] = moved.astype(arrays[name].dtype)
        if (np.isinf(moved_arrays[name]) & np.isfinite(moved)).any():
            raise InputError(
                f"norm: a canary of length {np.linalg.norm(vector):.4g} leaves the range of "
                f"{moved_arrays[name].dtype}; take a shorter one, above every clip norm"
            )
    return moved_arrays


@dataclass(frozen=True)
class CanaryRounds:
    """The rounds of canaries that an adapter adds to the training itself.

    Attributes:
      participations: Who participates in which round; of excluded canaries, who would.
      participation: How clients participate, and whether a claim counts on their sampling.
    """

    participations: ParticipationTable
    participation: Participation

    @classmethod
    def draw(
        cls, seed: int, count: int, num_rounds: int, sample_rate: float | None, repeats: int
    ) -> "CanaryRounds":
        """Draws the rounds of `count` canaries, as a function of the seed.

        Args:
          seed: The seed of the pool.
          count: The number of canaries.
          num_rounds: The number of rounds.
          sample_rate: The probability of a client in a round, and so of a canary, whose claim
            counts on sampling; None where canaries have known rounds.
          repeats: The number of known rounds of each canary, one in each of as many equal parts.

        Raises:
          InputError: A number is out of its range.
        """
        if num_rounds < 1:
            raise InputError(f"number of rounds: must be at least 1, got {num_rounds!r}")
        canaries = np.arange(count)
        if sample_rate is not None:
            participation = Participation("poisson", probability=sample_rate, client_weight=1.0)
            return cls(poisson_sampled(canaries, seed, num_rounds, sample_rate), participation)
        if not 1 <= repeats <= num_rounds:
            raise InputError(f"repeats: must be in 1 to {num_rounds}, got {repeats!r}")
        known = Participation("none", client_rounds=repeats, client_weight=1.0)
        return cls(spread(canaries, seed, num_rounds, repeats), known)


def open_audit(
    folder: Path | str,
    pool: CanaryPool,
    num_rounds: int,
    canary_rounds: list[list[int]],
    participation: Participation | None = None,
) -> RoundScorer:
    """The scorer of a new audit, or of this one before the program was started again.

    Args:
      folder: The folder of the audit.
      pool: The canaries.
      num_rounds: The number of rounds of the training.
      canary_rounds: The rounds of each canary, from 1.
      participation: How clients participate; None where nothing is said of it.

    Raises:
      InputError: The folder is of something else.
    """
    if not LogFolder(Path(folder)).pool.exists():
        return RoundScorer.create(
            folder, pool, num_rounds, canary_rounds, participation=participation
        )
    scorer = RoundScorer.open(folder)
    if (scorer.pool, scorer.num_rounds) != (pool, num_rounds):
        raise InputError(
            f"{folder}: holds the audit of {scorer.pool} in {scorer.num_rounds} rounds, "
            f"not of {pool} in {num_rounds}; must be a new folder, or this audit's own"
        )
    return scorer


def keep_initial(scorer: RoundScorer, model: Float32Array) -> None:
    """Keeps the first model of a training in the audit's folder, for `finish_audit`.

    Args:
      scorer: The scorer of the audit.
      model: The model's parameters, of shape (dim,).
    """
    with atomic_writer(scorer.folder.initial) as file:
        np.save(file, model)


def finish_audit(scorer: RoundScorer, model: Float32Array) -> None:
    """Writes the score files; those that compare models only where the first one was kept.

    Args:
      scorer: The scorer of the audit.
      model: The last model's parameters, of shape (dim,).

    Raises:
      InputError: A file of the audit is damaged.
    """
    path = scorer.folder.initial
    initial = read_vector(path, scorer.pool.dim) if path.exists() else None
    scorer.finish(initial=initial, final=model)


_CLAIMED_DELTAS = np.geomspace(0.3, 1e-9, 25)


def write_profile(epsilon_at: Callable[[float], float], path: Path | str) -> None:
    """Writes what an accountant guarantees as a privacy profile, for `estimate --claimed-profile`.

    Args:
      epsilon_at: The accountant's epsilon at a delta.
      path: The file to write, CSV with the columns `epsilon` and `delta`.
    """
    points = [(float(epsilon_at(delta)), delta) for delta in _CLAIMED_DELTAS.tolist()]
    rows = [f"{epsilon!r},{delta!r}" for epsilon, delta in points if 0 <= epsilon < np.inf]
    write_text(Path(path), "\n".join(["epsilon,delta", *rows]) + "\n")
