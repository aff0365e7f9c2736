"""Which statistics a run has under which threat models."""

import pytest

from fl_audit.attacks.statistics import RunFacts
from fl_audit.attacks.threat_models import (
    STATISTICS,
    meaning_of,
    statistics_of,
    threat_models_of,
    title_of,
)
from fl_audit.config import Audit, Config
from fl_audit.config.file import parse_config

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


def test_the_default_is_what_the_contract_says():
    assert names() == ["final", "final_minus_initial", "max", "sum", "own_rounds"]


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


def test_names_and_titles_tell_statistics_apart():
    for values in (list(STATISTICS), [s.title for s in STATISTICS.values()]):
        assert len(set(values)) == len(values)
    assert (title_of("max"), title_of("of tomorrow")) == ("Largest round", "of tomorrow")
    assert meaning_of("max")
    assert meaning_of("of tomorrow") == ""


def test_threat_models_do_not_depend_on_their_order():
    assert logged(threat_models=["all_iterates", "final"]) == logged(
        threat_models=["final", "all_iterates"]
    )
    assert Audit().threat_models == (
        "final",
        "final_and_initial",
        "all_iterates",
        "known_rounds",
    )
