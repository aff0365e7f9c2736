"""What a verdict tests: attackers who know rounds have no say where a claim counts on sampling."""

import pytest

from fl_audit.config.design import design_run
from fl_audit.config.file import parse_config
from fl_audit.errors import InputError
from fl_audit.verdict import chosen_tests
from fl_audit.verdict.chosen_tests import check_claim

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


@pytest.mark.parametrize(
    ("claim", "noise", "message"),
    [
        ({"claimed_profile": [[1.0, 1e-3]]}, 0.5, "claimed profile must .* and allows inf"),
        ({"claimed_mu": 50.0}, 0.5, "claimed mu must allow .* and allows 1462.29"),
        ({"claim": "configured"}, 0.0, "audit.claim: accounting gives no curve with a finite"),
    ],
)
def test_a_claim_that_no_report_can_test_is_refused(claim, noise, message):
    def check(**audit):
        mechanism = TABLE["mechanism"] | {"noise_multiplier": noise}
        table = {**TABLE, "mechanism": mechanism, "audit": {"delta": 1e-5, **audit}}
        design = design_run(parse_config(table, "config"), [f"c{i}" for i in range(100)], 20)
        check_claim(design)

    check()  # of a claim that nobody states
    with pytest.raises(InputError, match=message):
        check(**claim)
