"""The attackers who see noised aggregates: of every round, or of a window of rounds."""

import dataclasses

import numpy as np
import pytest

from fl_audit.attacks.threat_models import make_attackers, statistics_for
from fl_audit.canaries.families import GaussianFamily
from fl_audit.errors import InputError
from tests.attacks.attacked import attacked, scores_of_rounds

ROUNDS = 3
FAMILY = GaussianFamily(seed=3, num_canaries=12, dim=300)


@pytest.fixture(scope="module")
def aggregates() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(ROUNDS, FAMILY.dim)).astype(np.float32)


@pytest.fixture(scope="module")
def cosines(aggregates: np.ndarray) -> np.ndarray:
    return np.stack([FAMILY.cosines(aggregate) for aggregate in aggregates])


def test_every_round_and_a_window_share_a_log(tmp_path, aggregates, cosines):
    window = {"window_first_round": 2, "window_last_round": 3}
    threat_models = ("all_iterates", "window")
    found = scores_of_rounds(
        attacked(tmp_path, FAMILY, ROUNDS, threat_models=threat_models, **window), aggregates
    )
    assert list(found) == ["max", "sum", "window_max", "window_sum"]
    np.testing.assert_allclose(found["max"], cosines.max(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found["sum"], cosines.sum(axis=0), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(found["window_max"], cosines[1:].max(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found["window_sum"], cosines[1:].sum(axis=0), rtol=1e-5, atol=1e-8)


def test_a_round_is_scored_once_however_many_attackers_see_it(tmp_path, aggregates):
    class Counting:
        asked = 0

        def cosines(self, target):
            self.asked += 1
            return FAMILY.cosines(target)

    context = attacked(
        tmp_path, FAMILY, ROUNDS,
        threat_models=("all_iterates", "window"), window_first_round=1, window_last_round=3,
    )  # fmt: skip
    counting = Counting()
    scores_of_rounds(dataclasses.replace(context, canaries=counting), aggregates)
    assert counting.asked == ROUNDS


def test_an_interrupted_run_goes_on_with_its_log(tmp_path, aggregates):
    whole = scores_of_rounds(
        attacked(tmp_path, FAMILY, ROUNDS, threat_models=("all_iterates",)), aggregates
    )
    context = attacked(tmp_path, FAMILY, ROUNDS, 2, threat_models=("all_iterates",))
    (attacker,) = make_attackers(context, statistics_for("vectors", context.audit))
    again = attacker.scores(None)
    np.testing.assert_array_equal(again["max"], whole["max"])
    elsewhere = attacked(tmp_path / "elsewhere", FAMILY, ROUNDS, 2)
    with pytest.raises(InputError, match="round_cosines"):
        make_attackers(elsewhere, statistics_for("vectors", elsewhere.audit))
