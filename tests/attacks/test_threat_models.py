"""Statistics and threat models from outside the package, and what is refused before round 1."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.attacks.all_iterates import MAX
from fl_audit.attacks.log_scores import score_log
from fl_audit.attacks.logs import read_log
from fl_audit.attacks.statistics import RunFacts
from fl_audit.attacks.threat_models import (
    STATISTICS,
    Knowledge,
    check_rounds,
    check_scored,
    check_threat_models,
    register_statistic,
    statistics_of,
    threat_models_of,
)
from fl_audit.canaries.families import GaussianFamily
from fl_audit.config import Audit, Canaries, Config, ExampleCanaries
from fl_audit.config.file import parse_config
from fl_audit.errors import InputError
from fl_audit.report.headline import strongest_first
from tests.attacks.attacked import attacked, scores_of_rounds
from tests.attacks.toys import (
    FIRST_ROUND,
    SMALLEST,
    SmallestAttacker,
    registered_attacker,
    registered_threat_model,
)

FAMILY = GaussianFamily(seed=3, num_canaries=12, dim=300)
AGGREGATES = np.random.default_rng(1).normal(size=(4, FAMILY.dim)).astype(np.float32)
COSINES = np.array([FAMILY.cosines(aggregate) for aggregate in AGGREGATES])
EXAMPLES = ExampleCanaries(source="mislabelled", count=12)


def scores(folder, **audit) -> dict:
    return scores_of_rounds(attacked(folder, FAMILY, len(AGGREGATES), **audit), AGGREGATES)


def test_a_new_statistic_of_a_threat_model_that_is_there(tmp_path):
    with registered_attacker(SmallestAttacker):
        found = scores(tmp_path, threat_models=("all_iterates",))
    assert list(found) == ["max", "sum", "smallest"]
    np.testing.assert_allclose(found["smallest"], COSINES.min(axis=0), rtol=1e-6)
    assert SMALLEST.name not in STATISTICS


def test_a_log_is_scored_by_the_new_statistic_too(tmp_path):
    pool = CanaryPool(seed=1, count=12, dim=300, family="gaussian")
    scorer = RoundScorer.create(tmp_path / "audit", pool, num_rounds=4)
    rows = [scorer.score_round(number, row) for number, row in enumerate(AGGREGATES, start=1)]
    with registered_attacker(SmallestAttacker):
        assert set(scorer.finish()) == {"max", "sum", "smallest"}
        scored = score_log(read_log(scorer.folder, iter)).scores["smallest"].score
    np.testing.assert_allclose(scored, np.min(rows, axis=0), rtol=1e-6)
    assert set(scorer.finish()) == {"max", "sum"}


def test_a_new_threat_model(tmp_path):
    audit = {"threat_models": ("first_round", "all_iterates"), "window_last_round": 7}
    with registered_threat_model(FIRST_ROUND):
        found = scores(tmp_path, **audit)
        with pytest.raises(InputError, match="threat model 'first_round' needs window_last_round"):
            check_threat_models(Audit(threat_models=("first_round",)), "run.toml")
        with pytest.raises(InputError, match=r"^run\.toml: key `audit\.threat_models`: 'first_rou"):
            check_rounds(Audit(**audit), 1, "run.toml")
        with pytest.raises(InputError, match=r"'first_round' is for canaries\.kind 'vectors'"):
            check_scored(EXAMPLES, Audit(**audit))
        check_scored(Canaries(count=12), Audit(**audit))
    assert list(found) == ["max", "sum", "first"]
    np.testing.assert_allclose(found["first"], COSINES[0], rtol=1e-6)
    with pytest.raises(InputError, match="unknown 'first_round'; did you mean 'secret_rounds'"):
        check_threat_models(Audit(**audit), "run.toml")


@pytest.mark.parametrize(
    ("knows", "order"),
    [
        (Knowledge.OWN_UPLOADS, ["first", "max", "final"]),
        (Knowledge.SOME_ROUNDS, ["max", "first", "final"]),
    ],
)
def test_the_headline_ranks_a_new_threat_model_by_what_it_knows(knows, order):
    models = {"final": "final", "max": "all_iterates", "first": "first_round"}
    statistics = {
        name: SimpleNamespace(threat_model=model, knows=None) for name, model in models.items()
    }
    with registered_threat_model(dataclasses.replace(FIRST_ROUND, knows=knows)):
        assert strongest_first(statistics) == order


def test_a_statistic_without_an_attacker_is_refused_before_round_1(tmp_path):
    lonely = dataclasses.replace(SMALLEST, name="lonely")
    register_statistic(lonely)
    try:
        with pytest.raises(InputError) as caught:
            scores(tmp_path, threat_models=("all_iterates",))
    finally:
        STATISTICS.remove("lonely")
    assert str(caught.value) == (
        "audit.threat_models: exactly one registered attacker must fill the statistic 'lonely' of "
        "'all_iterates'; none does"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_statistic_with_two_attackers_is_refused_before_round_1(tmp_path):
    class Another(SmallestAttacker):
        statistics = (MAX,)

    message = "'max' of 'all_iterates'; AllIteratesAttacker and Another do"
    with registered_attacker(Another), pytest.raises(InputError, match=message):
        scores(tmp_path, threat_models=("all_iterates",))
    assert STATISTICS.get("max") is MAX
    assert list(tmp_path.iterdir()) == []


# Which statistics a run has under which threat models.


EVERY = {
    "threat_models": ["final", "final_and_initial", "all_iterates", "checkpoints", "window"],
    "release_every": 5,
    "window_first_round": 3,
    "window_last_round": 9,
}


def config(rounds: int = 20, **audit: object) -> Config:
    table = {
        "task": {"kind": "digits"},
        "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 0.5, "clip_norm": 1.0},
        "participation": {"kind": "every_round", "rounds": rounds},
        "canaries": {"count": 20},
        "audit": audit,
    }
    return parse_config(table, "run.toml")


def logged(**audit: object):
    made = config(**audit)
    return statistics_of(made.canaries, made.audit)


def names(**audit: object) -> list[str]:
    return [statistic.name for statistic in logged(**audit)]


def test_each_threat_model_has_its_statistics():
    assert names(**EVERY) == [
        *("final", "final_minus_initial", "max", "sum"),
        *("checkpoints_max", "checkpoints_sum", "window_max", "window_sum"),
    ]
    assert names(threat_models=["all_iterates", "final"]) == ["final", "max", "sum"]
    assert names(threat_models=["checkpoints"], release_every=1) == [
        "checkpoints_max",
        "checkpoints_sum",
    ]


@pytest.mark.parametrize(("last", "null"), [(3, "closed_form"), (4, "empirical")])
def test_the_null_of_one_round_is_known_and_that_of_two_is_not(last, null):
    window = {"threat_models": ["window"], "window_first_round": 3, "window_last_round": last}
    facts = RunFacts(config(**window).audit, dim=100)
    assert {statistic.null(facts).kind for statistic in logged(**window)} == {null}
    without_dim = RunFacts(facts.audit, dim=None)
    assert {statistic.null(without_dim).kind for statistic in logged(**window)} == {"empirical"}


def test_threat_models_say_what_the_attacker_sees():
    audit = config(**EVERY).audit
    sees = {model.name: model.sees(audit) for model in threat_models_of(audit)}
    assert list(sees) == EVERY["threat_models"]
    assert (
        sees["checkpoints"] == "the initial model, the one after every 5 rounds and the final one"
    )
    assert sees["window"] == "the noised updates of rounds 3 to 9 alone"
    one = config(threat_models=["window"], window_first_round=3, window_last_round=3).audit
    assert threat_models_of(one)[0].sees(one) == "the noised update of round 3 alone"
    every = config(threat_models=["checkpoints"], release_every=1).audit
    assert (
        threat_models_of(every)[0]
        .sees(every)
        .startswith("the initial model, the one after every round")
    )
