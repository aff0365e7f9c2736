"""Logs with a row per round."""

import re

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.formats.mapped_log import create_log, open_log


def test_a_new_log_is_empty_and_keeps_what_is_written(tmp_path):
    path = tmp_path / "log.npy"
    log = create_log(path, np.float32, (3, 2))
    assert np.isnan(log).all()
    log[1] = (4, 5)
    del log
    rows = open_log(path, "r", np.float32, ("rounds", 2), "something")
    np.testing.assert_array_equal(rows[1], [4, 5])
    assert np.isnan(rows[[0, 2]]).all()
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 0


@pytest.mark.parametrize(
    ("dtype", "shape", "asked"),
    [
        (np.float64, (3, 2), "float64 of shape (3, 2)"),
        (np.float32, (3, 1), "float32 of shape (3, 1)"),
        (np.float32, ("rounds", 4), "float32 of shape (rounds, 4)"),
        (np.float32, (3, 2, 2), "float32 of shape (3, 2, 2)"),
    ],
)
def test_another_log_is_refused(tmp_path, dtype, shape, asked):
    path = tmp_path / "log.npy"
    np.save(path, np.zeros((3, 2), np.float32))
    message = f"{path}: holds float32 of shape (3, 2), must be {asked}"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        open_log(path, "r+", dtype, shape, "something")


@pytest.mark.parametrize("content", [None, b"", b"no array", b"\x93NUMPY\x01"])
def test_what_is_no_log_is_refused(tmp_path, content):
    path = tmp_path / "log.npy"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="is not a log of something: ") as caught:
        open_log(path, "r", np.float32, (3, 2), "something")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", [-1, -4, 1])
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_log_of_another_length_is_refused_and_not_filled_up(tmp_path, change, mode):
    path = tmp_path / "log.npy"
    create_log(path, np.float32, (3, 2))
    content = path.read_bytes() + b"x"
    path.write_bytes(content[: len(content) - 1 + change])
    size = path.stat().st_size
    with pytest.raises(InputError, match=f"asks for 24 bytes, the file has {24 + change}$"):
        open_log(path, mode, np.float32, (3, 2), "something")
    assert path.stat().st_size == size


def test_a_log_that_outgrows_the_disk_is_refused_before_it_is_mapped(tmp_path):
    path = tmp_path / "log.npy"
    with pytest.raises(InputError, match=r"a log of shape .* takes 4,611,"):
        create_log(path, np.float32, (1, 2**60))
    assert not path.exists()
