import numpy as np
import pytest

from fl_audit.attacks import flatten, unflatten
from fl_audit.errors import InputError

WEIGHTS = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(6.0), np.array([7.0, 8.0])]


def test_arrays_go_in_order_row_by_row_and_come_back():
    vector = flatten(WEIGHTS, 9, "weights")
    assert vector.dtype == np.float32
    np.testing.assert_array_equal(vector, np.arange(9))
    back = unflatten(vector, WEIGHTS)
    assert [(part.shape, part.dtype) for part in back] == [(p.shape, p.dtype) for p in WEIGHTS]
    for part, original in zip(back, WEIGHTS, strict=True):
        np.testing.assert_array_equal(part, original)


def test_one_float32_vector_is_not_copied():
    vector = np.ones(5, np.float32)
    assert np.shares_memory(flatten(vector, 5, "vector"), vector)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (np.ones(8), "aggregate: must have 9 numbers \\(dim\\), got 8"),
        ([], "aggregate: must have 9 numbers \\(dim\\), got 0"),
        (np.ones(9, np.int64), "aggregate: must be float32 or float64, got int64"),
        (np.ones(9, np.float16), "aggregate: must be float32 or float64, got float16"),
        ([np.ones(8), np.array([np.nan])], "aggregate: must be finite in float32, has nan at .* 8"),
        (np.full(9, 1e39), "aggregate: must be finite in float32, has inf at position 0"),
    ],
)
def test_what_cannot_be_scored_is_refused(arrays, message):
    with pytest.raises(InputError, match=message):
        flatten(arrays, 9, "aggregate")
