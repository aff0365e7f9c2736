"""Released libraries under replay: those that the environment of the tests has."""

import dataclasses
import importlib
import math
import random

import numpy as np
import pytest

from experiments.in_the_wild.feature import pin_randomness, replayed
from experiments.in_the_wild.run import EXPECTED

_MODULES = {"flower": "flwr", "fedml": "fedml", "jax_privacy": "jax_privacy", "optax": "optax"}


@pytest.mark.slow
@pytest.mark.tff
@pytest.mark.parametrize("library", EXPECTED)
def test_libraries_do_as_expected(library):
    """Those that the environment has; the others are skipped."""
    pytest.importorskip(_MODULES.get(library, library))
    features = importlib.import_module(f"experiments.in_the_wild.{library}").FEATURES
    outcomes = [replayed(feature) for feature in features]
    assert tuple(outcome.word for outcome in outcomes) == EXPECTED[library]
    if library == "tensorflow_privacy":
        assert {outcome.open for outcome in outcomes} == {("not_finite",)}


@pytest.mark.tff
def test_a_smaller_stated_sensitivity_is_a_violation():
    """The sum query, of which half the clip norm is stated."""
    pytest.importorskip("tensorflow_privacy")
    from experiments.in_the_wild.tensorflow_privacy import FEATURES

    feature = FEATURES[0]
    promise = dataclasses.replace(feature.promise, clip_norm=feature.promise.clip_norm / 2)
    outcome = replayed(dataclasses.replace(feature, promise=promise))
    assert outcome.word == "violated"
    assert {"one_client", "clip", "every_client"} <= set(outcome.violated)


def test_all_global_randomness_is_pinned():
    drawn = []
    for _ in range(2):
        seed = pin_randomness(np.random.default_rng(5))
        drawn.append((seed, random.random(), np.random.random()))
    assert drawn[0] == drawn[1]
    assert not math.isclose(drawn[0][1], drawn[0][2])
