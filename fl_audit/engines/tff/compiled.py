"""A TFF process compiled to plain TensorFlow, which runs in this Python process.

TFF's C++ runtime is built for CPUs and reads each client's data through a socket. Here a process is
compiled by TFF to a MapReduceForm, whose parts are plain TensorFlow: prepare, work, zero,
accumulate, merge, report, update. It is the same process, on any device that TensorFlow sees; only
the caller of the parts differs.

TFF serialises each part as a GraphDef and a binding, which maps tensors to parts of the argument
and of the result. The graph is imported and called on flat lists of tensors, in TFF's own order of
the parts (the order of definition; `tf.nest` would sort the keys of dictionaries). A sequence is
one tensor, the data set as a variant.
"""

import contextlib
import itertools
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.engines import CannotRunError
from fl_audit.engines.cohort import prefetched
from fl_audit.formats.text_files import write_text
from fl_audit.mechanisms.tff_aggregators import NO_SECURE_SUMS
from fl_audit.mechanisms.tff_noise import ENTROPY_BYTES, ENTROPY_FILE

_import_numbers = itertools.count()


class ImportedComputation:
    """A TFF computation whose body is TensorFlow, as a function of flat lists of tensors."""

    def __init__(self, computation: tff.Computation, seed: int | None = None) -> None:
        """Imports the graph; with a positive seed, successive calls are reproducible on a CPU."""
        proto = tff.framework.serialize_computation(computation)
        if proto.WhichOneof("computation") != "tensorflow":
            raise TypeError(f"must be a TensorFlow computation: {computation.type_signature}")
        self.type_signature = computation.type_signature
        graph_def = tf.compat.v1.GraphDef()
        proto.tensorflow.graph_def.Unpack(graph_def)
        prefix = f"tff_{next(_import_numbers)}_"
        _rename_functions(graph_def, prefix)
        _rename_resources(graph_def, prefix)
        readers = _readers_of_entropy(graph_def)
        self.is_random = bool(readers) or any(map(_is_random, _nodes(graph_def)))
        self._tape = None
        if seed is not None:
            _seed(graph_def, seed)
            self._tape = _Tape(readers, seed)
        wrapped = tf.compat.v1.wrap_function(
            lambda: tf.graph_util.import_graph_def(graph_def, name=""), []
        )
        graph = wrapped.graph
        feeds = [graph.as_graph_element(name) for name in _names(proto.tensorflow.parameter)]
        fetches = [graph.as_graph_element(name) for name in _names(proto.tensorflow.result)]
        specs = tuple(tf.TensorSpec(feed.shape, feed.dtype) for feed in feeds)
        self._call = wrapped.prune(feeds, fetches, input_signature=(specs, {}))
        self._initialize = None
        if proto.tensorflow.initialize_op:
            operation = graph.as_graph_element(proto.tensorflow.initialize_op)
            self._initialize = wrapped.prune([], [operation])

    @property
    def has_variables(self) -> bool:
        """Whether a call uses variables, which all calls share."""
        return self._initialize is not None

    def __call__(self, arguments: Sequence[Any]) -> list[tf.Tensor]:
        """Runs the graph on values in TFF's order; a Keras model's variables start anew."""
        if self._initialize:
            self._initialize()
        if self._tape:
            self._tape.move_on()
        return list(self._call(*map(tf.convert_to_tensor, arguments)))


def _names(binding: Any) -> Iterator[str]:
    """The names of the tensors of a binding, in order."""
    match binding.WhichOneof("binding"):
        case "tensor":
            yield binding.tensor.tensor_name
        case "sequence":
            yield binding.sequence.variant_tensor_name
        case "struct":
            for element in binding.struct.element:
                yield from _names(element)


def _rename_functions(graph_def: tf.compat.v1.GraphDef, prefix: str) -> None:
    """Gives the graph's functions names that are new in this process.

    Functions are global to a process. TFF's compiler changes their bodies but not their names,
    which would clash with the original functions.
    """
    renamed = {f.signature.name: prefix + f.signature.name for f in graph_def.library.function}
    for function in graph_def.library.function:
        function.signature.name = renamed[function.signature.name]
        _rename_references(function.attr.values(), renamed)
        _rename_calls(function.node_def, renamed)
    for gradient in graph_def.library.gradient:
        gradient.function_name = renamed[gradient.function_name]
        gradient.gradient_func = renamed.get(gradient.gradient_func, gradient.gradient_func)
    _rename_calls(graph_def.node, renamed)


def _rename_calls(nodes: Iterable[Any], renamed: Mapping[str, str]) -> None:
    for node in nodes:
        node.op = renamed.get(node.op, node.op)
        _rename_references(node.attr.values(), renamed)


def _rename_references(attributes: Iterable[Any], renamed: Mapping[str, str]) -> None:
    for attribute in attributes:
        match attribute.WhichOneof("value"):
            case "func":
                attribute.func.name = renamed.get(attribute.func.name, attribute.func.name)
            case "list":
                for function in attribute.list.func:
                    function.name = renamed.get(function.name, function.name)
            case "s" if attribute.s.decode("utf-8", "replace") in renamed:
                attribute.s = renamed[attribute.s.decode()].encode()  # backward_function_name


def _rename_resources(graph_def: tf.compat.v1.GraphDef, prefix: str) -> None:
    """Gives the graph's variables and tables names that are new in this process.

    TensorFlow looks both up by name in the whole process: two Keras models would share variables of
    layers or metrics with equal names, even of different types or shapes.
    """
    for node in _nodes(graph_def):
        if "shared_name" in node.attr and node.attr["shared_name"].s:
            node.attr["shared_name"].s = prefix.encode() + node.attr["shared_name"].s


def _nodes(graph_def: Any) -> Iterator[Any]:
    """The operations of a graph and of its functions."""
    functions = (function.node_def for function in graph_def.library.function)
    return itertools.chain(graph_def.node, *functions)


def _is_random(node: Any) -> bool:
    return {"seed", "seed2"} <= set(node.attr)


def _seed(graph_def: Any, seed: int) -> None:
    """Gives every unseeded random operation this seed and, as second seed, its own number."""
    for number, node in enumerate(filter(_is_random, _nodes(graph_def)), start=1):
        if not (node.attr["seed"].i or node.attr["seed2"].i):
            node.attr["seed"].i, node.attr["seed2"].i = seed, number


def _readers_of_entropy(graph_def: Any) -> list[Any]:
    """The constants with the name of the system's entropy file."""
    name = [ENTROPY_FILE.encode()]
    constants = (node for node in _nodes(graph_def) if node.op == "Const")
    return [node for node in constants if list(node.attr["value"].tensor.string_val) == name]


class _Tape:
    """Files of seeded bytes instead of the system's entropy, with different bytes at every call."""

    def __init__(self, readers: Sequence[Any], seed: int) -> None:
        """Gives each constant with the name of the entropy file its own file."""
        self._random = np.random.default_rng(seed)
        self._folder = tempfile.TemporaryDirectory()
        self._paths = [Path(self._folder.name, str(number)) for number in range(len(readers))]
        for node, path in zip(readers, self._paths, strict=True):
            node.attr["value"].tensor.string_val[:] = [bytes(path)]

    def move_on(self) -> None:
        """Writes the bytes of the next call."""
        for path in self._paths:
            write_text(path, self._random.bytes(ENTROPY_BYTES).hex() + "\n" * (ENTROPY_BYTES + 1))


def flatten(value: Any, type_spec: tff.Type) -> list[tf.Tensor]:
    """The parts of containers, arrays and data sets as tensors, in the order of the TFF type."""
    if isinstance(type_spec, tff.StructType):
        parts = list(tff.structure.from_container(value)) if value is not None else []
        types = [kind for _, kind in tff.structure.iter_elements(type_spec)]
        pairs = zip(parts, types, strict=True)
        return [leaf for part, kind in pairs for leaf in flatten(part, kind)]
    if isinstance(type_spec, tff.SequenceType):
        return [tf.data.experimental.to_variant(value)]
    tensor = _VIEWED.tensor_of(value)
    if tensor is not None and tensor.dtype == tf.as_dtype(type_spec.dtype):
        return [tensor]
    return [tf.convert_to_tensor(value, tf.as_dtype(type_spec.dtype))]


class _ViewedTensors:
    """Maps arrays to the tensors of which they are views, while the arrays live.

    A state passes through Python between rounds, and TensorFlow copies an array to make a tensor of
    it. For correlated noise with 32 bands and four million parameters such a copy would have half a
    gigabyte.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[Any, tf.Tensor]] = {}

    def view(self, tensor: tf.Tensor) -> npt.NDArray[Any]:
        """A tensor as a read-only array; on a CPU it is not copied."""
        array: npt.NDArray[Any] = np.asarray(tensor)
        array.flags.writeable = False
        key = id(array)
        forget = weakref.ref(array, lambda _: self._by_id.pop(key, None))
        self._by_id[key] = (forget, tensor)
        return array

    def tensor_of(self, value: Any) -> tf.Tensor | None:
        """The tensor that an array is a view of; None for any other value."""
        known = self._by_id.get(id(value))
        return known[1] if known is not None and known[0]() is value else None


_VIEWED = _ViewedTensors()


def unflatten(leaves: Iterable[Any], type_spec: tff.Type) -> Any:
    """Parts in TFF's order as the type's Python containers."""
    left = iter(leaves)
    if isinstance(type_spec, tff.FederatedType):
        return unflatten(left, type_spec.member)
    if not isinstance(type_spec, tff.StructType):
        return next(left)
    elements = tff.structure.iter_elements(type_spec)
    struct = tff.structure.Struct([(name, unflatten(left, kind)) for name, kind in elements])
    return tff.types.type_to_py_container(struct, type_spec)


# The runtime: a TFF context that runs the parts.


ImportPart = Callable[[str], ImportedComputation]
"""Imports a part of a MapReduceForm by its name."""

ClientSum = Callable[[Sequence[tf.Tensor], Any], list[tf.Tensor]]
"""A function from a round's broadcast and its participants to the sum of their results.

Broadcast and sum are lists of tensors in TFF's order.
"""


SeeWork = Callable[[int, Sequence[tf.Tensor]], None]
"""A callback for a client's position in the cohort, and the parts of the client's result."""


def _unseen(place: int, work: Sequence[tf.Tensor]) -> None:
    """Ignores a client's work."""


class NotCompilableError(CannotRunError):
    """TFF cannot compile a computation to run outside its own runtime; the text says why."""


class LocalContext(tff.framework.SyncContext):
    """A context that runs clients as they are read; memory does not grow with the cohort."""

    def __init__(self, num_threads: int = 1) -> None:
        """`num_threads` clients work at once, and are added in the order of the cohort."""
        self._num_threads = num_threads
        self._see: SeeWork = _unseen
        # Keyed by identity, as hashing a computation hashes its serialised form of megabytes.
        self._compiled: dict[int, tuple[Any, Callable[[Any], Any]]] = {}

    def compile(self, computation: tff.Computation) -> Callable[[Any], Any]:
        """Compiles a computation, once, to a function of its argument (None without one)."""
        if id(computation) not in self._compiled:
            self._compiled[id(computation)] = (computation, self._compile(computation))
        return self._compiled[id(computation)][1]

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        """Runs a computation; TFF calls this."""
        return self.compile(comp)(arg)

    def client_sum(self, form: Any) -> ClientSum:
        """The function that trains clients and adds their results, from a round's MapReduceForm."""

        def see(place: int, work: Sequence[tf.Tensor]) -> None:
            self._see(place, work)

        return LocalSum(importer(form), self._num_threads, see)

    @contextlib.contextmanager
    def watched(self, see: "SeeWork") -> Iterator[None]:
        """Passes each client's work to `see` inside the block, in the order of the cohort."""
        self._see = see
        try:
            yield
        finally:
            self._see = _unseen

    def _compile(self, computation: tff.Computation) -> Callable[[Any], Any]:
        signature = computation.type_signature
        with _refusals():
            if not tff.types.contains(signature, lambda part: isinstance(part, tff.FederatedType)):
                return _function(computation, signature)
            if signature.parameter is None:
                initialize = tff.backends.mapreduce.get_state_initialization_computation(
                    computation
                )
                return _function(initialize, signature)
        form = _form(computation)
        return _round(importer(form), signature, self.client_sum(form))


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
        raise NotCompilableError(NO_SECURE_SUMS)
    return form


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Converts the errors of TFF's compiler to a `NotCompilableError`."""
    try:
        yield
    except (TypeError, ValueError, NotImplementedError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise NotCompilableError(
            f"TFF cannot compile it to a MapReduceForm: {reason[0]}"
        ) from error


class SeededRounds:
    """Rounds of a process whose randomness is fixed by a seed."""

    def __init__(self, computation: tff.Computation, num_threads: int = 1) -> None:
        """Compiles the computation `next` of a learning process."""
        self._signature = computation.type_signature
        self._form = _form(computation)
        self._num_threads = num_threads
        self._without_randomness: dict[str, ImportedComputation] = {}

    def begun(self, seed: int) -> Callable[[Any, Any], Any]:
        """A function like `next`, for successive rounds with randomness from a positive seed."""

        def part(name: str) -> ImportedComputation:
            return self._part(name, seed)

        one_round = _round(part, self._signature, LocalSum(part, self._num_threads))
        return lambda state, client_data: one_round((state, client_data))

    def run(self, state: Any, client_data: Any, seed: int) -> Any:
        """One round with randomness from a positive seed; reproducible on a CPU."""
        return self.begun(seed)(state, client_data)

    def _part(self, name: str, seed: int) -> ImportedComputation:
        """A part; a random part is imported anew, as only a new import resets its randomness."""
        if name in self._without_randomness:
            return self._without_randomness[name]
        part = ImportedComputation(getattr(self._form, name), seed)
        if not part.is_random:
            self._without_randomness[name] = part
        return part


def _function(computation: tff.Computation, signature: tff.FunctionType) -> Callable[[Any], Any]:
    """A compiled computation without clients, as a function of its argument."""
    imported, parameter = ImportedComputation(computation), signature.parameter

    def call(arg: Any) -> Any:
        leaves = flatten(arg, parameter) if parameter is not None else []
        return _as_result(imported(leaves), signature.result)

    return call


class LocalSum:
    """Does the clients' work of a round in this process, and adds results in the cohort's order."""

    def __init__(self, import_part: ImportPart, num_threads: int, see: SeeWork = _unseen) -> None:
        self._see = see
        self._work = import_part("work")
        self._zero = import_part("zero")
        self._accumulate = import_part("accumulate")
        self._data_type = self._work.type_signature.parameter[0]
        # A Keras model's variables are global to this process, so its clients train one by one.
        self._num_threads = 1 if self._work.has_variables else num_threads

    def __call__(self, sent: Sequence[tf.Tensor], client_data: Any) -> list[tf.Tensor]:
        """The sum of the participants' results, given the round's broadcast."""
        total = self._zero([])

        def work(data: Any) -> list[Any]:
            return self._work([*flatten(data, self._data_type), *sent])

        with prefetched(work, client_data, self._num_threads) as updates:
            for place, update in enumerate(updates):
                self._see(place, update)
                total = self._accumulate([*total, *update])
        return total


def _round(
    import_part: ImportPart, signature: tff.FunctionType, client_sum: ClientSum
) -> Callable[[Any], Any]:
    """A compiled round of a learning process, as a function of state and clients' data."""
    prepare, report, update = map(import_part, ("prepare", "report", "update"))

    def call(arg: Any) -> Any:
        state_value, client_data = arg
        state = flatten(state_value, signature.parameter[0].member)
        total = client_sum(prepare(state), client_data)
        return _as_result(update([*state, *report(total)]), signature.result)

    return call


def _as_result(leaves: list[Any], result_type: tff.Type) -> Any:
    arrays = [_VIEWED.view(leaf) if leaf.shape.rank else leaf.numpy() for leaf in leaves]
    return unflatten(arrays, result_type)
