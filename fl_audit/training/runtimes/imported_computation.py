"""TFF's plain-TensorFlow computations as TensorFlow functions of this Python process.

TFF serialises a computation as a GraphDef and a binding, which says which tensor holds which part
of the argument and of the result. Here the graph is imported and called on flat lists of tensors,
in TFF's own order of the parts (the order of definition; `tf.nest` would sort the keys of
dictionaries). A sequence is one tensor, the data set as a variant.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

_import_numbers = itertools.count()


class ImportedComputation:
    """A TFF computation whose body is TensorFlow, as a function of flat lists of tensors.

    Attributes:
      is_random: Whether it has random operations that take their seed from the operation.
    """

    def __init__(self, computation: tff.Computation, seed: int | None = None) -> None:
        """Imports the computation's graph.

        Args:
          computation: A computation whose body is TensorFlow.
          seed: The seed of the random operations that have none of their own, positive; None for
            one that differs at each import. The same calls in the same order after two imports with
            one seed give the same on a CPU.

        Raises:
          TypeError: The body is not TensorFlow.
        """
        proto = tff.framework.serialize_computation(computation)
        if proto.WhichOneof("computation") != "tensorflow":
            raise TypeError(f"must be a TensorFlow computation: {computation.type_signature}")
        self.type_signature = computation.type_signature
        graph_def = tf.compat.v1.GraphDef()
        proto.tensorflow.graph_def.Unpack(graph_def)
        _rename_functions(graph_def, f"tff_{next(_import_numbers)}_")
        self.is_random = any(map(_is_random, _nodes(graph_def)))
        if seed is not None:
            _seed(graph_def, seed)
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

    def __call__(self, arguments: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Runs the graph; the variables of a Keras model are initialised anew at each call.

        Args:
          arguments: The parts of the argument, in TFF's order.

        Returns:
          The parts of the result, in TFF's order.
        """
        if self._initialize:
            self._initialize()
        return list(self._call(*arguments))


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
    """Gives the graph's functions names that this process does not know yet.

    Functions are global to a process. TFF's compiler changes their bodies but not their names, so
    that under the old names they would clash with those that the process was built from.
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


def _nodes(graph_def: Any) -> Iterator[Any]:
    """The operations of a graph and of its functions."""
    functions = (function.node_def for function in graph_def.library.function)
    return itertools.chain(graph_def.node, *functions)


def _is_random(node: Any) -> bool:
    return {"seed", "seed2"} <= set(node.attr)


def _seed(graph_def: Any, seed: int) -> None:
    """Gives every random operation without a seed this one and a number of its own."""
    for number, node in enumerate(filter(_is_random, _nodes(graph_def)), start=1):
        if not (node.attr["seed"].i or node.attr["seed2"].i):
            node.attr["seed"].i, node.attr["seed2"].i = seed, number


def flatten(value: Any, type_spec: tff.Type) -> list[tf.Tensor]:
    """The parts of a Python value as tensors, in TFF's order.

    Args:
      value: A value of containers, arrays and data sets, as TFF takes them.
      type_spec: The TFF type of the value.
    """
    if isinstance(type_spec, tff.StructType):
        parts = list(tff.structure.from_container(value)) if value is not None else []
        types = [kind for _, kind in tff.structure.iter_elements(type_spec)]
        pairs = zip(parts, types, strict=True)
        return [leaf for part, kind in pairs for leaf in flatten(part, kind)]
    if isinstance(type_spec, tff.SequenceType):
        return [tf.data.experimental.to_variant(value)]
    return [tf.convert_to_tensor(value, tf.as_dtype(type_spec.dtype))]


def unflatten(leaves: Iterable[Any], type_spec: tff.Type) -> Any:
    """Parts in TFF's order as the Python containers that the type remembers."""
    return _unflatten(iter(leaves), type_spec)


def _unflatten(leaves: Iterator[Any], type_spec: tff.Type) -> Any:
    if isinstance(type_spec, tff.FederatedType):
        return _unflatten(leaves, type_spec.member)
    if not isinstance(type_spec, tff.StructType):
        return next(leaves)
    elements = tff.structure.iter_elements(type_spec)
    struct = tff.structure.Struct([(name, _unflatten(leaves, kind)) for name, kind in elements])
    return tff.types.type_to_py_container(struct, type_spec)
