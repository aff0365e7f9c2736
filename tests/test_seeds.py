"""Random streams: functions of (seed, purpose, index), independent of each other."""

import itertools

import numpy as np
import pytest

from fl_audit.seeds import Stream, generator, sequence

# A stream's number is part of a run's identity: a run resumed by a later version must meet the
# same coins, so these never change (new ones may be added).
NUMBERS = {
    "INCLUSION": 0,
    "CANARY_VECTOR": 1,
    "CANARY_ROUNDS": 2,
    "CLIENT_ROUNDS": 3,
    "LOCAL_ORDER": 4,
    "INITIAL_WEIGHTS": 5,
    "PARTITION": 6,
    "RELEASE_TRIAL": 7,
}


def test_stream_numbers_never_change():
    assert {name: int(Stream[name]) for name in NUMBERS} == NUMBERS


def test_no_two_streams_share_a_number():
    assert len(set(map(int, Stream.__members__.values()))) == len(Stream.__members__)


@pytest.mark.parametrize("index", [(), (0,), (3, 4)])
def test_a_stream_is_a_function_of_its_arguments(index):
    first = generator(5, Stream.INCLUSION, *index).random(10)
    np.testing.assert_array_equal(first, generator(5, Stream.INCLUSION, *index).random(10))


def test_streams_differ_in_seed_purpose_and_index():
    indices = [(), (0,), (1,), (2,), (0, 0), (0, 1), (1, 0)]
    keys = itertools.product([0, 1, 2, 2**32, 2**64 + 1], Stream, indices)
    states = [tuple(sequence(s, stream, *i).generate_state(4)) for s, stream, i in keys]
    assert len(set(states)) == len(states) == 5 * len(Stream) * 7


def test_a_stream_is_numpys_spawned_child():
    # NumPy documents a child as the parent's entropy with the child's number in the spawn key.
    child = np.random.SeedSequence(9).spawn(4)[3].spawn(8)[7]
    expected = np.random.default_rng(child).random(5)
    np.testing.assert_array_equal(generator(9, Stream(3), 7).random(5), expected)


def test_neighbouring_streams_are_uncorrelated():
    # Correlation of independent uniforms has standard error 1/sqrt(n); 6 of them, for 45 pairs:
    # failure below 45 * 2e-9 = 9e-8.
    n = 20_000
    draws = np.array([generator(1, Stream.LOCAL_ORDER, r, 0).random(n) for r in range(10)])
    correlations = np.corrcoef(draws)[np.triu_indices(10, 1)]
    assert np.abs(correlations).max() < 6 / np.sqrt(n)
