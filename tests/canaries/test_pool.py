"""The pool: the same coins and vectors as a run's, from the few numbers of pool.json."""

import itertools
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool
from fl_audit.canaries.families import FAMILIES
from fl_audit.canaries.pool import (
    draw_half,
    draw_included,
    draw_of_pairs,
    flip_coins,
    pair_names,
    read_pool,
    write_pool,
)
from fl_audit.canaries.store import make_family
from fl_audit.config import Canaries
from fl_audit.errors import InputError
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores

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


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seed": -1}, "seed: must be a whole number from 0 to 18446744073709551615, got -1"),
        ({"seed": 1.5}, "key `seed`: must be a whole number, got a number"),
        ({"count": 1}, "count: must be a whole number from 2 to 10000000, got 1"),
        ({"count": True}, "key `count`: must be a whole number, got true or false"),
        ({"dim": "300"}, "key `dim`: must be a whole number, got text"),
        ({"family": {}}, "key `family`: must be text, got a table"),
        ({"family": "gausian"}, "unknown family 'gausian': did you mean 'gaussian'?"),
        ({"family": "hadamard", "count": 1 << 18}, "there are only 131,072 hadamard canaries"),
        ({"family": "hadamard", "dim": (1 << 32) + 1}, "of at most 4,294,967,296 parameters, got"),
        ({"format_version": 1}, "format_version is 1, must be 2"),
        ({"inclusion": "half"}, "inclusion: unknown 'half': did you mean 'fixed_half'?"),
        ({"sed": 3}, "unknown key `sed`; did you mean 'seed'?"),
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
        ("{", "is not a pool of canaries: "),
        ("[1]", "must be a table, got a list"),
        (json.dumps({k: v for k, v in FIELDS.items() if k != "dim"}), "lacks the key `dim`"),
    ],
)
def test_what_is_no_pool_file_is_refused(tmp_path, text, message):
    path = tmp_path / "pool.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_pool(path)


# The coins that include canaries, and the half that is drawn.


def test_coins_are_a_function_of_the_seed():
    coins = flip_coins(3, 500)
    assert (coins.dtype, coins.shape) == (np.bool_, (500,))
    np.testing.assert_array_equal(coins, flip_coins(3, 500))
    assert (coins != flip_coins(4, 500)).any()


def test_a_canarys_coin_does_not_depend_on_the_pool():
    np.testing.assert_array_equal(flip_coins(3, 5000)[:500], flip_coins(3, 500))


def test_each_coin_is_fair_over_seeds_and_independent_of_its_neighbour():
    coins = np.stack([flip_coins(seed, 64) for seed in range(2000)])
    # A sum of n fair signs is beyond 6.5 sqrt(n) with probability 2 exp(-6.5^2 / 2) = 1.3e-9 at
    # most (Hoeffding); 64 + 63 sums: 2e-7.
    signs = np.where(coins, 1, -1)
    assert np.abs(signs.sum(axis=0)).max() < 6.5 * 2000**0.5
    assert np.abs((signs[:, 1:] * signs[:, :-1]).sum(axis=0)).max() < 6.5 * 2000**0.5


def test_coins_that_fell_alike_are_refused():
    said = []
    for seed in range(60):  # no pair alike on one side: 2 * 0.75^60 = 6e-8
        try:
            coins = flip_coins(seed, 2)
        except InputError as error:
            said.append(str(error))
        else:
            assert coins.sum() == 1
    assert any("the coins of all 2 canaries fell on included; " in line for line in said)
    assert any("the coins of all 2 canaries fell on excluded; " in line for line in said)
    assert all("canaries.count" in line and "\n" not in line for line in said)


@pytest.mark.parametrize("probability", [6.8e-7, 1e-17, 1e-30, 1 - 6.8e-7])
def test_coins_too_unequal_for_every_pool_are_refused_without_a_search(probability):
    """All of 10,000,000 coins are equal with probability 0.001 at 6.9e-7."""
    with pytest.raises(InputError, match=r"canaries\.inclusion_probability: .* of 10,000,000, the"):
        flip_coins(0, 10, probability)


@pytest.mark.parametrize(("probability", "least"), [(0.1, 66), (0.01, 688), (0.8, 31)])
def test_unequal_coins_that_may_all_be_equal_are_refused_whatever_fell(probability, least):
    with pytest.raises(InputError, match=rf"canaries\.count: .* must be at least {least}, got"):
        flip_coins(0, least - 1, probability)
    assert flip_coins(0, least, probability).shape == (least,)
    assert probability**least + (1 - probability) ** least <= 1e-3
    assert probability ** (least - 1) + (1 - probability) ** (least - 1) > 1e-3


@pytest.mark.parametrize("count", range(2, 11))
def test_few_fair_coins_that_are_not_all_equal_still_fit_the_level(count):
    """Over all such coins, with scores that say nothing of them."""
    coins = [np.array(each) for each in itertools.product([False, True], repeat=count)]
    scores, found = np.arange(count, dtype=float), []
    for included in coins[1:-1]:
        setting = AuditSetting(CanaryScores(scores[included], scores[~included]), 1e-5, 0.95)
        found.append(METHODS["one_run_valid"].epsilons([setting])[0] or 0.0)
    assert np.mean(np.array(found) > 0) <= 0.05


def test_a_half_is_a_half_and_a_function_of_the_seed():
    half = draw_half(3, 500)
    assert (half.dtype, half.shape, half.sum()) == (np.bool_, (500,), 250)
    np.testing.assert_array_equal(half, draw_included("fixed_half", 3, 500))
    np.testing.assert_array_equal(flip_coins(3, 500), draw_included("coins", 3, 500))
    assert (half != draw_half(4, 500)).any()


@pytest.mark.parametrize("count", [0, 1, 7])
def test_an_odd_pool_has_no_half(count):
    with pytest.raises(InputError, match=f"'fixed_half' needs an even number .*, got {count}$"):
        draw_half(1, count)


def test_one_of_each_pair_is_included():
    included = draw_included("pairs", 3, 2000)
    np.testing.assert_array_equal(included, draw_of_pairs(3, 2000))
    np.testing.assert_array_equal(included[::2], ~included[1::2])
    assert abs(included[::2].sum() - 500) < 80  # five deviations of 1,000 fair coins
    assert pair_names("pairs", 5) == ("0", "0", "1", "1", "2")
    assert pair_names("coins", 5) == ()


@pytest.mark.parametrize("count", [1, 2, 7])
def test_pairs_need_an_even_pool_of_two_at_least(count):
    with pytest.raises(
        InputError, match=f"'pairs' needs an even number .* at least 4, got {count}"
    ):
        draw_included("pairs", 1, count)


def test_unequal_coins_have_their_probability():
    included = draw_included("unequal_coins", 3, 40_000, 0.2)
    assert abs(included.sum() - 8_000) < 400  # five deviations
