"""What a verdict tests: attackers who know rounds have no say where a claim counts on sampling."""

import pytest

from fl_audit.config.file import parse_config
from fl_audit.verdict import chosen_tests

TABLE = {
    "task": {"kind": "digits"},
    "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 0.5, "clip_norm": 1.0},
    "participation": {"kind": "bernoulli", "rounds": 20, "clients_per_round": 10},
    "canaries": {"count": 20},
}


def names_of(participations: int | None, **audit: object) -> list[str]:
    config = parse_config({**TABLE, "audit": {"claimed_epsilon": 1.0, **audit}}, "config")
    return [statistic.name for statistic in chosen_tests(config, participations).statistics]


def test_who_knows_rounds_is_tested_where_the_rounds_are_no_secret():
    assert names_of(4) == ["final", "final_minus_initial", "max", "sum", "own_rounds"]


def test_who_knows_rounds_is_left_out_under_sampling():
    assert names_of(None) == ["final", "final_minus_initial", "max", "sum"]


@pytest.mark.parametrize("participations", [None, 4])
def test_unless_nobody_else_is_asked_for(participations):
    assert names_of(participations, verdict_statistic="own_rounds") == ["own_rounds"]
    assert names_of(participations, threat_models=["known_rounds"]) == ["own_rounds"]
