"""A TFF runtime in this Python process, on the device that TensorFlow sees.

TFF's C++ runtime is built for CPUs and reads each client's data through a socket. Here a process is
compiled to a MapReduceForm, whose parts are plain TensorFlow: prepare, work, zero, accumulate,
report, update. It is the same process, compiled by TFF; only the caller of the parts differs.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow_federated as tff

from fl_audit.training.data.prefetch import prefetched
from fl_audit.training.runtimes.imported_computation import ImportedComputation, flatten, unflatten


class NotLocalError(Exception):
    """The local runtime cannot run a computation; the text says why."""


class LocalContext(tff.framework.SyncContext):
    """A context that runs clients one by one, so that memory does not grow with the cohort."""

    def __init__(self, num_threads: int = 1) -> None:
        """Starts without any compiled computation.

        Args:
          num_threads: The number of clients that work at the same time, at least 1. The order in
            which their updates are added does not depend on it.
        """
        self._num_threads = num_threads
        # Keyed by identity, as hashing a computation hashes its serialised form of megabytes.
        self._compiled: dict[int, tuple[Any, Callable[[Any], Any]]] = {}

    def compile(self, computation: tff.Computation) -> Callable[[Any], Any]:
        """Makes a computation ready to run; each computation is compiled once.

        Args:
          computation: The computation `initialize` or `next` of a learning process, or plain
            TensorFlow.

        Returns:
          A function of the argument; the argument is `None` for a computation without one.

        Raises:
          NotLocalError: The computation is none of these.
        """
        if id(computation) not in self._compiled:
            self._compiled[id(computation)] = (
                computation,
                _compile(computation, self._num_threads),
            )
        return self._compiled[id(computation)][1]

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        """Runs a computation, as TFF asks its contexts to."""
        return self.compile(comp)(arg)


@contextlib.contextmanager
def local_runtime(context: LocalContext) -> Iterator[None]:
    """Makes the local runtime the default context inside the `with` block."""
    with tff.framework.get_context_stack().install(context):
        yield


def _compile(computation: tff.Computation, num_threads: int) -> Callable[[Any], Any]:
    signature = computation.type_signature
    with _refusals():
        if not tff.types.contains(signature, _is_federated):
            return _Function(ImportedComputation(computation), signature)
        if signature.parameter is None:
            initialize = tff.backends.mapreduce.get_state_initialization_computation(computation)
            return _Function(ImportedComputation(initialize), signature)
        form = _form(computation)
        return _Round(lambda name: ImportedComputation(getattr(form, name)), signature, num_threads)


def _form(computation: tff.Computation) -> Any:
    with _refusals():
        return tff.backends.mapreduce.get_map_reduce_form_for_computation(computation)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Makes what TFF's compiler raises a `NotLocalError`."""
    try:
        yield
    except (TypeError, ValueError, NotImplementedError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise NotLocalError(f"TFF cannot compile it to a MapReduceForm: {reason[0]}") from error


class SeededRounds:
    """Rounds of a process whose randomness a seed holds fixed, for a replay."""

    def __init__(self, computation: tff.Computation) -> None:
        """Compiles the process.

        Args:
          computation: The computation `next` of a learning process.

        Raises:
          NotLocalError: The local runtime cannot run it.
        """
        self._signature = computation.type_signature
        self._form = _form(computation)
        self._without_randomness: dict[str, ImportedComputation] = {}

    def run(self, state: Any, client_data: Any, seed: int) -> Any:
        """A round; its random operations begin anew, so that one seed gives one result on a CPU.

        Args:
          state: The state of the process.
          client_data: The data of each participant.
          seed: The seed, positive.

        Raises:
          NotLocalError: The process asks for secure sums.
        """
        seeded = _Round(lambda name: self._part(name, seed), self._signature, 1)
        return seeded((state, client_data))

    def _part(self, name: str, seed: int) -> ImportedComputation:
        """A part, imported anew where it is random: only so does its randomness begin anew."""
        if name in self._without_randomness:
            return self._without_randomness[name]
        part = ImportedComputation(getattr(self._form, name), seed)
        if not part.is_random:
            self._without_randomness[name] = part
        return part


class _Function:
    """A compiled computation without clients."""

    def __init__(self, imported: ImportedComputation, signature: tff.FunctionType) -> None:
        self._imported = imported
        self._signature = signature

    def __call__(self, arg: Any) -> Any:
        parameter = self._signature.parameter
        leaves = flatten(arg, parameter) if parameter is not None else []
        return _as_result(self._imported(leaves), self._signature.result)


class _Round:
    """A compiled round of a learning process."""

    def __init__(
        self,
        import_part: Callable[[str], ImportedComputation],
        signature: tff.FunctionType,
        num_threads: int,
    ) -> None:
        self._prepare = import_part("prepare")
        self._work = import_part("work")
        self._zero = import_part("zero")
        self._accumulate = import_part("accumulate")
        self._report = import_part("report")
        self._update = import_part("update")
        self._state_type, self._data_type = (
            kind.member for _, kind in tff.structure.iter_elements(signature.parameter)
        )
        self._result_type = signature.result
        # A Keras model's variables belong to this process, so its clients train one by one.
        self._num_threads = 1 if self._work.has_variables else num_threads
        result = self._work.type_signature.result
        if any(tff.types.count(result[i], _is_tensor) for i in range(1, len(result))):
            raise NotLocalError("its aggregation asks for secure sums")

    def __call__(self, arg: Any) -> Any:
        state_value, client_data = arg
        state = flatten(state_value, self._state_type)
        prepared = self._prepare(state)
        total = self._zero([])

        def work(data: Any) -> list[Any]:
            return self._work([*flatten(data, self._data_type), *prepared])

        with prefetched(work, client_data, self._num_threads) as updates:
            for update in updates:
                total = self._accumulate([*total, *update])
        return _as_result(self._update([*state, *self._report(total)]), self._result_type)


def _is_federated(kind: tff.Type) -> bool:
    return isinstance(kind, tff.FederatedType)


def _is_tensor(kind: tff.Type) -> bool:
    return isinstance(kind, tff.TensorType)


def _as_result(leaves: list[Any], result_type: tff.Type) -> Any:
    arrays = [leaf.numpy() for leaf in leaves]
    return unflatten([a[()] if isinstance(a, np.ndarray) else a for a in arrays], result_type)
