"""Logs with a row per round."""

import contextlib
import re
import resource
import signal

import numpy as np
import pytest

from fl_audit.attacks.all_iterates import over_rounds
from fl_audit.errors import InputError
from fl_audit.formats.round_logs import (
    ConcentrationLog,
    CosineLog,
    DirectionLog,
    LoggedTotal,
    create_log,
    open_log,
    unnamed_log,
)


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
    with pytest.raises(OSError, match=r"a log of shape .* takes 4,611,"):
        create_log(path, np.float32, (1, 2**60))
    assert not path.exists()


@contextlib.contextmanager
def full_disk(most_bytes: int):
    """A file may hold so many bytes and no more; the system answers as it does for a full disk."""
    earlier = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, earlier[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, earlier)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: create_log(folder / "log.npy", np.float32, (1_000, 1_000)),
        lambda folder: DirectionLog.opened("w+", folder / "log.npy", 1_000, 1_000),
        lambda folder: unnamed_log((1_000, 1_000)),
    ],
)
def test_all_of_a_log_has_room_on_the_disk_or_none_of_it(tmp_path, make):
    """Without the room, writing to the mapped file would end this process by SIGBUS."""
    with (
        full_disk(1 << 20),
        pytest.raises(OSError, match=r"of shape \(1000, 1000\) takes 4,000,000 bytes: File"),
    ):
        make(tmp_path)
    assert not list(tmp_path.iterdir())


def test_rounds_that_are_not_written_whole_do_not_count(tmp_path):
    log = CosineLog.opened("w+", tmp_path / "cosines.npy", 4, 3)
    assert not log.written().any()
    log.write_round(1, np.array([-0.5, -0.25, -1.0]))
    log.write_round(2, np.array([np.nan, 1.0, 1.0]))  # as a crash may leave it
    np.testing.assert_array_equal(log.written(), [False, True, False, False])
    read = CosineLog.read(tmp_path / "cosines.npy", 3)
    assert read.num_rounds == 4
    assert len(list(read.rows())) == 1
    over = over_rounds(read.rows(), read.num_canaries)
    np.testing.assert_array_equal(over.maximum, [-0.5, -0.25, -1.0])
    np.testing.assert_array_equal(over.total, [-0.5, -0.25, -1.0])


def test_a_log_of_another_run_is_refused(tmp_path):
    path = tmp_path / "cosines.npy"
    CosineLog.opened("w+", path, 3, 4)
    with pytest.raises(InputError, match=r"must be float32 of shape \(3, 5\)"):
        CosineLog.opened("r+", path, 3, 5)
    with pytest.raises(InputError, match=r"must be float32 of shape \(rounds, 5\)"):
        CosineLog.read(path, 5)
    np.save(path, np.float32(1))
    with pytest.raises(InputError, match=r"of shape \(\), must be float32 of shape \(rounds, 5\)"):
        CosineLog.read(path, 5)
    path.write_bytes(b"no array")
    with pytest.raises(InputError, match="is not a log of cosines"):
        CosineLog.opened("r+", path, 3, 4)


def test_a_flipped_bit_of_a_sum_is_seen(tmp_path):
    path = tmp_path / "direction_sum.npy"
    LoggedTotal.create(path)
    total = LoggedTotal(path, 50)
    total.add(3, lambda found: found.__iadd__(np.arange(50.0)))
    written = path.read_bytes()
    assert LoggedTotal(path, 50).rounds == {3}
    damaged = bytearray(written)
    damaged[len(written) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(InputError, match=r"direction_sum\.npy: is damaged: its checksum"):
        LoggedTotal(path, 50)


@pytest.mark.parametrize("cubes", [np.inf, -1.0, 0.0, 1.5, 0.2, 0.6])
def test_sums_that_no_vector_has_are_refused_with_their_round(tmp_path, cubes):
    path = tmp_path / "concentrations.npy"
    log = ConcentrationLog.opened("w+", path, 4)
    for index, row in enumerate([[0.5, 0.25], [0.0, 0.0], [1.0, 1.0]]):
        log.write_round(index, np.array(row))
    assert len(ConcentrationLog.opened("r", path, 4).values()) == 4  # the last one is not known
    log.write_round(2, np.array([cubes, 0.25]))
    log.flush()
    message = f"{path}: round 3 has the sums {cubes:g} and 0.25, must be those of a vector"
    with pytest.raises(InputError, match=re.escape(message)):
        ConcentrationLog.opened("r", path, 4)
