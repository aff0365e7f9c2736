"""Stored canaries against the exact ones, and the file that they are kept in."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from fl_audit.canaries import store
from fl_audit.canaries.families import GaussianFamily
from fl_audit.canaries.store import StoredGaussianFamily, make_family
from fl_audit.config import Canaries
from fl_audit.errors import InputError

COUNT, DIM = 7, 1000
TARGET = np.random.default_rng(1).normal(1.0, 2.0, DIM).astype(np.float32)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "canaries.store"


def stored(path: Path | None, seed: int = 3, count: int = COUNT, dim: int = DIM):
    return StoredGaussianFamily(seed, count, dim, path)


def test_memory_and_disk_hold_the_same(path):
    in_memory, on_disk = stored(None), stored(path)
    np.testing.assert_array_equal(in_memory.cosines(TARGET), on_disk.cosines(TARGET))
    for canary in range(COUNT):
        np.testing.assert_array_equal(in_memory.vector(canary), on_disk.vector(canary))


@pytest.mark.parametrize("dim", [2, 50, 200_000])
def test_vectors_are_as_near_to_the_exact_ones_as_said(dim):
    exact = GaussianFamily(3, COUNT, dim)
    family = stored(None, dim=dim)
    for canary in range(COUNT):
        vector = exact.vector(canary).astype(np.float64)
        apart = np.linalg.norm(family.vector(canary) - vector)
        error = 0.5 * dim**0.5  # in steps, at most; the row's norm is within it of the exact one
        assert apart <= error / (family._pool.norms[canary] - error) + 3e-7
    if dim > 1000:
        # 5.87e-5 as the docstring says: a mean of 200,000 squares is within 3%.
        assert apart == pytest.approx(5.87e-5, rel=0.03)


def test_cosines_move_by_little_of_the_nulls_deviation():
    dim, count = 20_000, 400
    target = np.random.default_rng(4).normal(size=dim).astype(np.float32)
    moved = stored(None, 3, count, dim).cosines(target) - GaussianFamily(3, count, dim).cosines(
        target
    )
    # 400 nearly normal numbers: their root mean square is within 20% of 5.87e-5 (5.7 sd).
    assert np.sqrt(np.mean(moved**2) * dim) == pytest.approx(5.87e-5, rel=0.2)


def test_a_file_is_made_once(path, monkeypatch):
    first = stored(path).cosines(TARGET)
    written = path.stat().st_mtime_ns
    monkeypatch.setattr(store, "write_pool", None)
    np.testing.assert_array_equal(stored(path).cosines(TARGET), first)
    assert path.stat().st_mtime_ns == written
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_size == 4096 + 2 * COUNT * DIM + 8 * COUNT


@pytest.mark.parametrize("other", [{"seed": 4}, {"count": 8}, {"dim": 999}])
def test_a_file_of_another_pool_is_refused_and_left_alone(path, other):
    stored(path).vector(0)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"must start with .*, starts with ") as refusal:
        stored(path, **other).vector(0)
    assert str(path) in str(refusal.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("contents", [b"", b"someone's notes", b"\xff" * 5000])
def test_a_file_that_is_no_store_is_refused_and_left_alone(path, contents):
    path.write_bytes(contents)
    with pytest.raises(InputError, match="must start with") as refusal:
        stored(path).vector(0)
    assert "\n" not in str(refusal.value)
    assert path.read_bytes() == contents


@pytest.mark.parametrize("change", [-2, -1, 1])
def test_a_file_of_another_length_is_refused(path, change):
    stored(path).vector(0)
    contents = path.read_bytes()
    path.write_bytes(contents[:change] if change < 0 else contents + b"\0")
    with pytest.raises(InputError, match=r"has 18,\d+ bytes, must have 18,152; delete it"):
        stored(path).vector(0)


@pytest.mark.parametrize("canary", [0, COUNT - 1])
def test_a_damaged_first_or_last_canary_is_refused(path, canary):
    stored(path).vector(0)
    with path.open("r+b") as file:
        file.seek(4096 + 2 * DIM * canary + 501)
        file.write(b"\x7f")
    with pytest.raises(InputError, match=f"canary {canary} is not the one that seed 3 gives"):
        stored(path).vector(1)


def test_a_pool_that_could_not_be_made_leaves_no_file(path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    family = stored(path)
    monkeypatch.setattr(StoredGaussianFamily, "_rounded_pieces", fail)
    with pytest.raises(InputError, match=r"canaries.store: cannot be written: No space left"):
        family.vector(0)
    assert not list(path.parent.iterdir())


def test_what_does_not_fit_is_refused_before_anything_is_written(path, monkeypatch):
    with pytest.raises(InputError, match=r"takes 2,000,000,000,000,000 bytes .* memory has "):
        stored(None, count=10**6, dim=10**9)
    usage = shutil.disk_usage(path.parent)._replace(free=13_999)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(InputError, match=r"takes 14,000 bytes .* has 13,999 free; use fewer"):
        stored(path)
    with pytest.raises(InputError, match="is not a folder"):
        stored(path.parent / "missing" / "file")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"store": "disk"}, "store_path must name a file"),
        ({"store": "memory", "store_path": "x"}, "store_path must name a file"),
        ({"store_path": "x"}, "store_path must name a file"),
        ({"store": "memory", "family": "hadamard"}, "must be 'none' for hadamard canaries"),
        ({"store": "memory", "family": "rademacher"}, "must be 'none' for rademacher canaries"),
    ],
)
def test_keys_that_do_not_fit_together(keys, message):
    with pytest.raises(InputError, match=message):
        make_family(Canaries(**{"count": COUNT, "family": "gaussian", **keys}), 3, DIM)
