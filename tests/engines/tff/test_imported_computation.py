"""TFF computations called as TensorFlow functions: order of the parts, names of functions."""

import collections
import gc
import weakref

import attrs
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.engines.tff.compiled import (
    ImportedComputation,
    LocalContext,
    flatten,
    local_runtime,
    unflatten,
)

pytestmark = pytest.mark.tff


def _round_trip(value, type_spec):
    return unflatten([leaf.numpy() for leaf in flatten(value, type_spec)], type_spec)


@attrs.define
class _Pair:
    second: object
    first: object


_NESTED = collections.OrderedDict(
    z=(np.float32(1), [np.int32(2), np.int32(3)]),
    a=collections.OrderedDict(y=np.zeros((2, 3), np.float32), b=()),
    m=_Pair(second=b"\x00\xff", first=True),
    empty=(),
)
_NESTED_TYPE = tff.to_type(
    collections.OrderedDict(
        z=(np.float32, [np.int32, np.int32]),
        a=collections.OrderedDict(y=tff.TensorType(np.float32, [2, 3]), b=()),
        m=tff.types.StructWithPythonType([("second", np.str_), ("first", np.bool_)], _Pair),
        empty=(),
    )
)


def test_parts_come_in_the_order_of_definition():
    leaves = flatten(_NESTED, _NESTED_TYPE)
    # tf.nest would begin with `a`, and in `m` with `first`.
    kinds = [tf.float32, tf.int32, tf.int32, tf.float32, tf.string, tf.bool]
    assert [leaf.dtype for leaf in leaves] == kinds
    assert [int(leaf) for leaf in leaves[:3]] == [1, 2, 3]


def test_a_value_survives_the_way_there_and_back():
    back = _round_trip(_NESTED, _NESTED_TYPE)
    assert list(back) == list(_NESTED)
    assert list(back["a"]) == ["y", "b"]
    assert isinstance(back["z"], tuple)
    assert isinstance(back["z"][1], list)
    assert isinstance(back["m"], _Pair)
    assert (back["z"][0], back["z"][1]) == (1, [2, 3])
    np.testing.assert_array_equal(back["a"]["y"], _NESTED["a"]["y"])
    assert back["m"].second == b"\x00\xff"
    assert back["m"].first
    assert len(back["empty"]) == len(back["a"]["b"]) == 0


def test_a_sequence_is_one_part_and_its_elements_keep_their_order():
    element = collections.OrderedDict(
        z=tff.TensorType(np.int32, [None]), a=tff.TensorType(np.float32, [None])
    )

    @tff.tensorflow.computation(tff.SequenceType(tff.to_type(element)))
    def sums(data):
        return data.reduce(
            collections.OrderedDict(z=0, a=0.0),
            lambda total, e: collections.OrderedDict(
                z=total["z"] + tf.reduce_sum(e["z"]), a=total["a"] + tf.reduce_sum(e["a"])
            ),
        )

    arrays = collections.OrderedDict(
        z=np.array([1, 2, 3], np.int32), a=np.array([10.0, 20.0, 30.0], np.float32)
    )
    data = tf.data.Dataset.from_tensor_slices(arrays).batch(2)
    imported = ImportedComputation(sums)
    leaves = flatten(data, imported.type_signature.parameter)
    assert [leaf.dtype for leaf in leaves] == [tf.variant]
    result = unflatten([leaf.numpy() for leaf in imported(leaves)], imported.type_signature.result)
    assert dict(result) == {"z": 6, "a": 60.0}


def _with_constant(computation, constant):
    """The same computation with a constant changed and every name kept, as a compiler may."""
    proto = tff.framework.serialize_computation(computation)
    graph_def = tf.compat.v1.GraphDef()
    proto.tensorflow.graph_def.Unpack(graph_def)
    for function in graph_def.library.function:
        for node in function.node_def:
            if node.op == "Const" and node.attr["value"].tensor.float_val:
                node.attr["value"].tensor.float_val[:] = [constant]
    proto.tensorflow.graph_def.Pack(graph_def)
    return tff.framework.deserialize_computation(proto)


def test_a_body_that_a_compiler_changed_under_its_name_is_the_one_that_runs():
    @tf.function
    def doubled(x):
        return x * 2.0

    @tff.tensorflow.computation(np.float32)
    def original(x):
        return doubled(x)

    changed = _with_constant(original, 7.0)
    assert float(ImportedComputation(original)([tf.constant(3.0)])[0]) == 6
    assert float(ImportedComputation(changed)([tf.constant(3.0)])[0]) == 21
    assert float(ImportedComputation(original)([tf.constant(3.0)])[0]) == 6


def test_variables_start_anew_at_each_call():
    @tff.tensorflow.computation(np.float32)
    def counted(x):
        counter = tf.Variable(1.0)
        with tf.control_dependencies([counter.assign_add(x)]):
            return counter.read_value()

    imported = ImportedComputation(counted)
    assert imported.has_variables
    assert [float(imported([tf.constant(5.0)])[0]) for _ in range(3)] == [6.0, 6.0, 6.0]


def test_variables_of_one_name_are_each_computations_own():
    """As of two Keras models whose metrics count in whole numbers and in others."""

    def counted(dtype):
        @tff.tensorflow.computation(tf.as_dtype(dtype).as_numpy_dtype)
        def add(x):
            counter = tf.Variable(tf.ones([], dtype), name="counter")
            with tf.control_dependencies([counter.assign_add(x)]):
                return counter.read_value()

        return ImportedComputation(add)

    whole, other = counted(tf.int64), counted(tf.float32)
    for _ in range(2):
        assert int(whole([tf.constant(5, tf.int64)])[0]) == 6
        assert float(other([tf.constant(0.5)])[0]) == 1.5


def test_a_computation_that_is_not_tensorflow_is_refused():
    @tff.federated_computation(np.int32)
    def identity(x):
        return x

    with pytest.raises(TypeError, match=r"must be a TensorFlow computation: \(.*int32"):
        ImportedComputation(identity)


def test_a_state_is_handed_on_without_a_copy():
    vector = tff.TensorType(np.float32, [3])

    @tff.tensorflow.computation(vector)
    def doubled(value):
        return 2 * value

    with local_runtime(LocalContext()):
        array = doubled(np.ones(3, np.float32))
        again = doubled(array)
    np.testing.assert_array_equal(again, [4, 4, 4])
    tensor = flatten(array, vector)[0]
    assert flatten(array, vector)[0] is tensor  # the one that it is a view of
    assert flatten(array.copy(), vector)[0] is not tensor
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0
    forgotten = weakref.ref(tensor)
    del tensor, array
    gc.collect()
    assert forgotten() is None
