"""The pool: the same coins and vectors as a run's, from the few numbers of pool.json."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool
from fl_audit.canaries.families import FAMILIES, make_family
from fl_audit.canaries.inclusion import flip_coins
from fl_audit.canaries.pool import read_pool, write_pool
from fl_audit.config import Canaries
from fl_audit.errors import InputError

POOL = CanaryPool(seed=7, count=50, dim=300)
FIELDS = {"format_version": 2, "family": "rademacher", "seed": 7, "count": 50, "dim": 300}


@pytest.mark.parametrize("name", FAMILIES)
def test_coins_vectors_and_cosines_are_those_of_a_run(name):
    pool = CanaryPool(7, 50, 300, name)
    family = make_family(Canaries(count=50, family=name), seed=7, dim=300)
    target = np.random.default_rng(0).normal(size=300).astype(np.float32)
    np.testing.assert_array_equal(pool.included, flip_coins(7, 50))
    np.testing.assert_array_equal(pool.vector(49), family.vector(49))
    np.testing.assert_array_equal(pool.cosines(target), family.cosines(target))


def test_another_process_makes_the_same_vector_from_the_few_numbers(tmp_path):
    write_pool(tmp_path / "pool.json", POOL)
    assert json.loads((tmp_path / "pool.json").read_text()) == FIELDS
    program = (
        "import sys, pathlib; from fl_audit.canaries.pool import read_pool; "
        "sys.stdout.buffer.write(read_pool(pathlib.Path(sys.argv[1])).vector(3).tobytes())"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "pool.json")]
    there = subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout
    assert there == POOL.vector(3).tobytes()
    assert pickle.loads(pickle.dumps(POOL)) == POOL


@pytest.mark.parametrize("family", ["gaussian", "rademacher"])
def test_older_pools_of_families_that_stayed_as_they_were_are_read(tmp_path, family):
    path = tmp_path / "pool.json"
    path.write_text(json.dumps(FIELDS | {"format_version": 1, "family": family}))
    assert read_pool(path) == CanaryPool(7, 50, 300, family)


def test_a_pool_of_which_a_half_takes_part(tmp_path):
    half = CanaryPool(7, 50, 300, inclusion="fixed_half")
    assert half.included.sum() == 25
    write_pool(tmp_path / "pool.json", half)
    assert json.loads((tmp_path / "pool.json").read_text()) == FIELDS | {"inclusion": "fixed_half"}
    assert read_pool(tmp_path / "pool.json") == half


def test_numpys_whole_numbers_will_do(tmp_path):
    pool = CanaryPool(np.int64(7), np.int32(50), np.sum([100, 200]))
    assert pool == POOL
    write_pool(tmp_path / "pool.json", pool)
    assert read_pool(tmp_path / "pool.json") == POOL


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seed": -1}, "seed: must be a whole number from 0 to 18446744073709551615, got -1"),
        ({"seed": 1.5}, "seed: must be a whole number from 0 to 18446744073709551615, got 1.5"),
        ({"count": 1}, "count: must be a whole number from 2 to 10000000, got 1"),
        ({"count": True}, "count: must be a whole number from 2 to 10000000, got True"),
        ({"dim": "300"}, "dim: must be a whole number from 2 to 100000000000, got '300'"),
        ({"family": "gausian"}, "unknown family 'gausian': did you mean 'gaussian'?"),
        ({"family": "hadamard", "count": 1 << 18}, "there are 131,072 hadamard canaries"),
        ({"format_version": 3}, "format_version is 3, must be 2"),
        (
            {"format_version": 1, "family": "hadamard"},
            "format_version 1 had other hadamard vectors, which are not made any more",
        ),
        ({"inclusion": "half"}, "inclusion: unknown 'half': did you mean 'fixed_half'?"),
        ({"sed": 3}, "unknown key 'sed': did you mean 'seed'?"),
    ],
)
def test_a_bad_pool_file_is_one_clear_line(tmp_path, fields, message):
    path = tmp_path / "pool.json"
    path.write_text(json.dumps(FIELDS | fields))
    with pytest.raises(InputError) as refused:
        read_pool(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[1]", "must be an object with the keys format_version, family, seed, count, dim"),
        (json.dumps({k: v for k, v in FIELDS.items() if k != "dim"}), "has no key 'dim'"),
    ],
)
def test_what_is_no_pool_file_is_refused(tmp_path, text, message):
    path = tmp_path / "pool.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_pool(path)


@pytest.mark.parametrize("canary", [-1, 50])
def test_a_canary_that_is_not_there(canary):
    with pytest.raises(InputError, match=f"canary: must be in 0 to 49, got {canary}"):
        POOL.vector(canary)
