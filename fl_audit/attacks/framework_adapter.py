"""What the adapters for training frameworks share (`fl_audit.flower`, `fl_audit.nvflare`).

An audit inside another system's training never ends that training: an error is logged and noted in
the audit's folder, so that a later verdict knows of it, and the audit goes on with what it has.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.attacks.arrays import unflatten
from fl_audit.errors import InputError, one_line
from fl_audit.formats.folders import LogFolder

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
            told = (
                str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            )
            line = one_line(f"{what}: {told}")
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
    found = {}
    for name, old, part in zip(names, wide, unflatten(vector, wide), strict=True):
        moved = old + part
        with np.errstate(over="ignore"):  # refused below
            found[name] = moved.astype(arrays[name].dtype)
        if (np.isinf(found[name]) & np.isfinite(moved)).any():
            raise InputError(
                f"norm: a canary of length {np.linalg.norm(vector):.4g} leaves the range of "
                f"{found[name].dtype}; take a shorter one, above every clip norm"
            )
    return found
