"""The runs that a sweep's file makes, their names, and what is refused before anything starts."""

import pytest

from fl_audit.config.file import config_to_toml, load_config
from fl_audit.errors import InputError
from fl_audit.sweeps import read_grid

FULL = """
seeds = [1, 2]
[grid]
"mechanism.noise_multiplier" = [0.0, 0.25]
[[variant]]
name = "once"
[[variant]]
name = "four_times"
set = {"participation.canary_repeats" = 4}
"""


def test_all_combinations_are_run_by_variant_then_grid_then_seed(grid):
    runs = read_grid(grid(FULL))
    assert [run.name for run in runs] == [
        f"{variant}-noise_multiplier_{noise}-seed_{seed}"
        for variant in ("once", "four_times")
        for noise in ("0", "0.25")
        for seed in (1, 2)
    ]
    assert runs[-1].settings == {
        "participation.canary_repeats": 4,
        "mechanism.noise_multiplier": 0.25,
        "seed": 2,
    }


def test_a_run_has_the_config_that_set_gives(grid):
    path = grid(FULL)
    for run in read_grid(path):
        overrides = [f"{key}={value}" for key, value in run.settings.items()]
        expected = load_config(path.parent / "base.toml", overrides)
        assert config_to_toml(run.config) == config_to_toml(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "describes only one run; must have `seeds`, [grid] or [[variant]]"),
        (
            '[grid]\n"runtime" = ["local", "ray"]',
            "run runtime_ray: key `runtime`: must not be 'ray'",
        ),
        ("seed = [1]", "unknown key `seed`; did you mean 'seeds'?"),
        ("seeds = [1, 1]", "2 runs would be named 'seed_1'"),
        ("seeds = [-1]", "must be a whole number of at least 0"),
        ('[grid]\n"mechanism.noise_multiplier" = []', "must have a value, got an empty list"),
        (
            '[grid]\n"mechanism.noise_multiplier" = [-1.0]',
            "run noise_multiplier_-1: key `mechanism",
        ),
        (
            '[grid]\n"mechanism.noise" = [1.0]',
            "unknown key `mechanism.noise`; did you mean 'noise_mult",
        ),
        ('[grid]\n"mechanism.kind.x" = [1]', "is a value"),
        (
            '[grid]\n"seed.x" = [1]\n[[variant]]\nname = "a"\nset = {seed = 1}',
            "key `seed` contains key `seed.x`; set one or the other",
        ),
        (
            '[grid]\nmechanism = [{kind = "none"}]\n"mechanism.noise_multiplier" = [2.0]',
            "key `mechanism` contains key `mechanism.noise_multiplier`",
        ),
        ('seeds = [1]\n[grid]\n"seed" = [2]', "keys `seed` and `seeds` exclude each other"),
        ('[[variant]]\nname = "../x"', "must be letters, digits"),
        ('[[variant]]\nname = ".."', "must be letters, digits"),
        ('[[variant]]\nname = "a"\nsets = {}', "unknown key `sets`; did you mean 'set'?"),
        (
            '[grid]\n"log.evaluate_every" = [1]\n[[variant]]\nname = "a"\n'
            'set = {"log.evaluate_every" = 2}',
            "key `log.evaluate_every` is in [grid] and in 'a'",
        ),
    ],
)
def test_mistakes_are_named(grid, text, message):
    with pytest.raises(InputError) as error:
        read_grid(grid(text))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_config_of_a_run_is_told_what_a_sweep_wants(grid):
    path = grid(FULL).parent / "base.toml"
    with pytest.raises(
        InputError, match=r'config of one run; the file of a sweep has `base = "base'
    ):
        read_grid(path)
