"""A TFF runtime in this Python process, on the device that TensorFlow sees.

TFF's C++ runtime is built for CPUs and reads each client's data through a socket. Here a process is
compiled to a MapReduceForm, whose parts are plain TensorFlow: prepare, work, zero, accumulate,
report, update. It is the same process, compiled by TFF; only the caller of the parts differs.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.training.data.prefetch import prefetched
from fl_audit.training.runtimes.imported_computation import ImportedComputation, flatten, unflatten

ImportPart = Callable[[str], ImportedComputation]
"""A function from the name of a part of a MapReduceForm to the part."""

ClientSum = Callable[[Sequence[tf.Tensor], Any], list[tf.Tensor]]
"""A function from what a round sends to its clients, and from the participants, to the sum of what
the participants return; both as parts in TFF's order."""


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
            self._compiled[id(computation)] = (computation, self._compile(computation))
        return self._compiled[id(computation)][1]

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        """Runs a computation, as TFF asks its contexts to."""
        return self.compile(comp)(arg)

    def client_sum(self, form: Any) -> ClientSum:
        """How this context does the clients' work of a round and adds it.

        Args:
          form: The MapReduceForm of the process.
        """
        return LocalSum(importer(form), self._num_threads)

    def _compile(self, computation: tff.Computation) -> Callable[[Any], Any]:
        signature = computation.type_signature
        with _refusals():
            if not tff.types.contains(signature, _is_federated):
                return _Function(ImportedComputation(computation), signature)
            if signature.parameter is None:
                initialize = tff.backends.mapreduce.get_state_initialization_computation(
                    computation
                )
                return _Function(ImportedComputation(initialize), signature)
        form = _form(computation)
        return _Round(importer(form), signature, self.client_sum(form))


@contextlib.contextmanager
def local_runtime(context: LocalContext) -> Iterator[None]:
    """Makes the local runtime the default context inside the `with` block."""
    with tff.framework.get_context_stack().install(context):
        yield


def importer(form: Any) -> ImportPart:
    """A function that imports a part of a MapReduceForm by its name."""
    return lambda name: ImportedComputation(getattr(form, name))


def _form(computation: tff.Computation) -> Any:
    with _refusals():
        form = tff.backends.mapreduce.get_map_reduce_form_for_computation(computation)
    if form.securely_aggregates_tensors:
        raise NotLocalError("its aggregation asks for secure sums")
    return form


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Makes what TFF's compiler raises a `NotLocalError`."""
    try:
        yield
    except (TypeError, ValueError, NotImplementedError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise NotLocalError(f"TFF cannot compile it to a MapReduceForm: {reason[0]}") from error


class SeededRounds:
    """Rounds of a process whose randomness a seed holds fixed."""

    def __init__(self, computation: tff.Computation, num_threads: int = 1) -> None:
        """Compiles the process.

        Args:
          computation: The computation `next` of a learning process.
          num_threads: The number of clients that work at the same time, at least 1.

        Raises:
          NotLocalError: The local runtime cannot run it, or it asks for secure sums.
        """
        self._signature = computation.type_signature
        self._form = _form(computation)
        self._num_threads = num_threads
        self._without_randomness: dict[str, ImportedComputation] = {}

    def begun(self, seed: int) -> Callable[[Any, Any], Any]:
        """Rounds to run one after another, whose random operations begin anew.

        Args:
          seed: The seed, positive; one seed gives the same rounds on a CPU.

        Returns:
          A function of the state and the data of each participant, that gives what `next` does.
        """

        def part(name: str) -> ImportedComputation:
            return self._part(name, seed)

        one_round = _Round(part, self._signature, LocalSum(part, self._num_threads))
        return lambda state, client_data: one_round((state, client_data))

    def run(self, state: Any, client_data: Any, seed: int) -> Any:
        """A round; its random operations begin anew, so that one seed gives one result on a CPU.

        Args:
          state: The state of the process.
          client_data: The data of each participant.
          seed: The seed, positive.
        """
        return self.begun(seed)(state, client_data)

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


class LocalSum:
    """The clients' work of a round in this process, added in the order of the cohort."""

    def __init__(self, import_part: ImportPart, num_threads: int) -> None:
        """Imports the parts that are clients' work.

        Args:
          import_part: A function that imports a part.
          num_threads: The number of clients that work at the same time, at least 1.
        """
        self._work = import_part("work")
        self._zero = import_part("zero")
        self._accumulate = import_part("accumulate")
        self._data_type = self._work.type_signature.parameter[0]
        # A Keras model's variables belong to this process, so its clients train one by one.
        self._num_threads = 1 if self._work.has_variables else num_threads

    def __call__(self, sent: Sequence[tf.Tensor], client_data: Any) -> list[tf.Tensor]:
        """The sum of what the participants return.

        Args:
          sent: What the round sends to its clients.
          client_data: The data of each participant.
        """
        total = self._zero([])

        def work(data: Any) -> list[Any]:
            return self._work([*flatten(data, self._data_type), *sent])

        with prefetched(work, client_data, self._num_threads) as updates:
            for update in updates:
                total = self._accumulate([*total, *update])
        return total


class _Round:
    """A compiled round of a learning process."""

    def __init__(
        self, import_part: ImportPart, signature: tff.FunctionType, client_sum: ClientSum
    ) -> None:
        self._prepare = import_part("prepare")
        self._report = import_part("report")
        self._update = import_part("update")
        self._state_type = signature.parameter[0].member
        self._result_type = signature.result
        self._client_sum = client_sum

    def __call__(self, arg: Any) -> Any:
        state_value, client_data = arg
        state = flatten(state_value, self._state_type)
        total = self._client_sum(self._prepare(state), client_data)
        return _as_result(self._update([*state, *self._report(total)]), self._result_type)


def _is_federated(kind: tff.Type) -> bool:
    return isinstance(kind, tff.FederatedType)


def _as_result(leaves: list[Any], result_type: tff.Type) -> Any:
    arrays = [leaf.numpy() for leaf in leaves]
    return unflatten([a[()] if isinstance(a, np.ndarray) else a for a in arrays], result_type)
