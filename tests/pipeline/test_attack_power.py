"""How much attacks on digits prove: all of it without noise, no more than guaranteed with it."""

import msgspec
import numpy as np
import pytest

from fl_audit.config.attack_tables import Attack, AttackConfig
from fl_audit.engines.shadow_recipe import accounted_epsilon, with_epsilon
from fl_audit.pipeline.attack_targets import recipe_of, start_attack
from fl_audit.tasks.task_kinds import DigitsTask

pytestmark = [pytest.mark.tff, pytest.mark.slow]

PRIVATE = Attack(
    num_shadow=20,
    num_base_shadow=32,
    num_challenges=256,
    epochs=2,
    batch_size=100,
    learning_rate=0.5,
    momentum=0.0,
    clip_norm=1.0,
    noise_multiplier=0.0,
    models_per_block=256,
)
"""DP-SGD on 898 of the digits whose noise is chosen for epsilon 1 in the tests."""


def attacked(attack, hidden, seed, folder):
    config = AttackConfig(DigitsTask(hidden=hidden), attack, seed)
    return start_attack(config, folder, lambda models, trained: None)


def lower(report, statistic, method):
    (found,) = (e for e in report.results[statistic].estimates if e.method == method)
    return found.lower


def test_models_without_noise_are_told_apart_without_an_error(tmp_path):
    """256 + 256 challenges on average; Jeffreys' prior then puts the lower end above 5."""
    report = attacked(Attack(num_shadow=40), (32,), 1, tmp_path / "attack")
    scores = report.scores["lira"]
    assert min(len(scores.included), len(scores.excluded)) > 200
    assert np.min(scores.included) > np.max(scores.excluded)
    assert lower(report, "lira", "bayes") > 5
    assert lower(report, "lira", "threshold_valid") > 4.5
    assert report.upper_bound.epsilon == np.inf


def test_at_epsilon_1_hardly_any_bound_is_above_it(tmp_path):
    """20 repetitions: by chance a bound at 90 % would be above in two, and attacks lose more."""
    recipe = with_epsilon(recipe_of(PRIVATE, 898), 1.0, PRIVATE.delta)
    assert 0.999 < accounted_epsilon(recipe, PRIVATE.delta) <= 1
    attack = msgspec.structs.replace(PRIVATE, noise_multiplier=recipe.privacy.noise_multiplier)
    credible, lower_bound = [], []
    for seed in range(20):
        report = attacked(attack, (), seed, tmp_path / str(seed))
        credible.append(lower(report, "lira", "bayes"))
        lower_bound.append(max(lower(report, name, "threshold_valid") for name in report.results))
    assert np.sum(np.array(credible) < 1) >= 18
    assert np.sum(np.array(lower_bound) > 1) <= 1


def test_more_noise_lowers_what_is_proven(tmp_path):
    """Noise on trained weights, of 3 times their own scale, leaves nothing to see."""
    plain = Attack(num_shadow=20, num_challenges=100, epochs=20, models_per_block=64)
    noised = msgspec.structs.replace(plain, output_noise=0.5)
    of_plain, of_noised = (
        attacked(attack, (32,), 3, tmp_path / str(number))
        for number, attack in enumerate((plain, noised))
    )
    assert lower(of_plain, "lira", "bayes") > lower(of_noised, "lira", "bayes") + 1
