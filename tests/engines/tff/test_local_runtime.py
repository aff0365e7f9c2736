"""The local runtime on processes small enough to see through."""

import functools
import threading
import weakref

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.engines.tff.compiled import LocalContext, NotCompilableError, local_runtime

pytestmark = pytest.mark.tff

_NUMBERS = tff.SequenceType(np.float32)


@tff.tensorflow.computation(np.float32, _NUMBERS)
def _work(state, numbers):
    total = numbers.reduce(0.0, tf.add)
    return state + tf.debugging.check_numerics(total, "a client is not finite")


def _next_with(aggregate):
    @tff.federated_computation(
        tff.FederatedType(np.float32, tff.SERVER), tff.FederatedType(_NUMBERS, tff.CLIENTS)
    )
    def next_fn(state, clients):
        worked = tff.federated_map(_work, (tff.federated_broadcast(state), clients))
        total = aggregate(worked)
        return total, total

    return next_fn


_next = _next_with(tff.federated_sum)


def _data_set(*numbers):
    return tf.data.Dataset.from_tensor_slices(np.array(numbers, np.float32))


_context = functools.cache(LocalContext)  # a context compiles a process once


def _round(clients, num_threads=1, state=0.0):
    with local_runtime(_context(num_threads)):
        return _next(state, clients)


def test_a_round_sums_what_the_clients_make_of_the_state():
    assert _round([_data_set(1, 2), _data_set(3), _data_set()], state=10.0) == (36, 36)


def test_an_empty_cohort_sums_to_zero():
    assert _round([], state=10.0) == (0, 0)


@pytest.mark.parametrize("num_threads", [1, 3])
def test_clients_are_added_in_their_order_whatever_the_threads(num_threads):
    random = np.random.default_rng(0)
    # Of magnitudes that make every order of addition another float32 sum.
    numbers = (random.standard_normal(40) * 10.0 ** random.integers(0, 8, 40)).astype(np.float32)
    expected = np.float32(0)
    for number in numbers:
        expected += number
    assert expected != numbers[::-1].cumsum(dtype=np.float32)[-1]
    assert _round((_data_set(n) for n in numbers), num_threads)[0] == expected


@pytest.mark.parametrize("num_threads", [1, 3])
def test_the_cohort_is_never_held_at_once(num_threads):
    references, most_alive = [], 0

    def participants():
        nonlocal most_alive
        for number in range(30):
            data_set = _data_set(number)
            references.append(weakref.ref(data_set))
            alive = sum(reference() is not None for reference in references)
            most_alive = max(most_alive, alive)
            yield data_set
            del data_set

    assert _round(participants(), num_threads)[0] == sum(range(30))
    assert 1 <= most_alive <= num_threads + 2


@pytest.mark.parametrize("num_threads", [1, 3])
def test_what_a_client_raises_is_raised(num_threads):
    made = []

    def participants():
        for number in [1.0, 2.0, float("nan"), *range(20)]:
            made.append(number)
            yield _data_set(number)

    with pytest.raises(tf.errors.InvalidArgumentError, match="a client is not finite"):
        _round(participants(), num_threads)
    assert len(made) <= 3 + num_threads
    assert not [t for t in threading.enumerate() if t.name.startswith("prefetch")]


def test_a_process_is_compiled_once(monkeypatch):
    form_of = tff.backends.mapreduce.get_map_reduce_form_for_computation
    compiled = []

    def counted(computation):
        compiled.append(computation)
        return form_of(computation)

    monkeypatch.setattr(tff.backends.mapreduce, "get_map_reduce_form_for_computation", counted)
    context = LocalContext()
    with local_runtime(context):
        for _ in range(3):
            _next(0.0, [_data_set(1)])
    context.compile(_next)
    assert len(compiled) == 1


def _total_of_clients():
    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
    def total(clients):
        return tff.federated_sum(clients)

    return total


def _secure_aggregator():
    factory = tff.aggregators.SecureSumFactory(upper_bound_threshold=1.0)
    aggregator = factory.create(tff.TensorType(np.float32))

    @tff.federated_computation(
        tff.FederatedType(np.float32, tff.SERVER), tff.FederatedType(np.float32, tff.CLIENTS)
    )
    def next_fn(state, clients):
        output = aggregator.next(aggregator.initialize(), clients)
        return state, output.result

    return next_fn


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_secure_aggregator, "^the aggregation asks for secure sums.*WithPlainSums"),
        (_total_of_clients, "^TFF cannot compile it to a MapReduceForm: Expected"),
        (
            lambda: tff.federated_computation(lambda x: x, np.int32),
            "must be a TensorFlow computation",
        ),
    ],
)
def test_what_cannot_be_compiled_is_refused_in_one_line(make, message):
    with pytest.raises(NotCompilableError, match=message):
        LocalContext().compile(make())
