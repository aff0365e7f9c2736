"""What is measured of an aggregate, and its log."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.mechanism_checks import AggregateLog, measure, read_aggregate_log

SIZES = (5, 1_500_000, 1)


def test_measures_every_variable_in_float64():
    random = np.random.default_rng(1)
    vector, last = random.normal(size=(2, sum(SIZES))).astype(np.float32)
    found = measure(vector, last, SIZES)
    parts = np.split(vector.astype(np.float64), np.cumsum(SIZES)[:-1])
    others = np.split(last.astype(np.float64), np.cumsum(SIZES)[:-1])
    for row, part, other in zip(found, parts, others, strict=True):
        np.testing.assert_allclose(row, [np.sum(part * part), np.sum(part * other)], rtol=1e-10)


def test_the_first_round_has_nothing_to_be_compared_with():
    found = measure(np.ones(sum(SIZES), np.float32), None, SIZES)
    np.testing.assert_array_equal(found[:, 0], SIZES)
    assert np.isnan(found[:, 1]).all()


def test_a_log_goes_on_where_it_was(tmp_path):
    path = tmp_path / "aggregates.npy"
    first = AggregateLog.at_round(0, path, 3, 2)
    first.write_round(0, np.array([[1.0, np.nan], [2.0, np.nan]]))
    first.flush()
    second = AggregateLog.at_round(1, path, 3, 2)
    second.write_round(1, np.array([[3.0, 4.0], [5.0, 6.0]]))
    second.flush()
    rows = read_aggregate_log(path, 3, 2)
    np.testing.assert_array_equal(rows[:2, :, 0], [[1, 2], [3, 5]])
    assert np.isnan(rows[2]).all()


@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 1, 2), (3, 2)])
def test_a_log_of_another_run_is_refused(tmp_path, shape):
    path = tmp_path / "aggregates.npy"
    np.save(path, np.zeros(shape))
    with pytest.raises(InputError, match=r"aggregates.npy: holds float64 of shape .*, must be"):
        AggregateLog.at_round(1, path, 3, 2)


def test_what_is_no_log_is_refused(tmp_path):
    path = tmp_path / "aggregates.npy"
    with pytest.raises(InputError, match=r"aggregates.npy: is not a log of aggregates"):
        read_aggregate_log(path, 3, 2)
    path.write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(InputError, match=r"aggregates.npy: is not a log of aggregates"):
        read_aggregate_log(path, 3, 2)
