"""The key stop_when_contradicted, and the level that it costs the tests at the end."""

import pytest

from fl_audit.attacks.audit_table import Audit
from fl_audit.config import (
    Bernoulli,
    Canaries,
    Config,
    DigitsTask,
    EveryRound,
    GaussianFixed,
)
from fl_audit.config.design import design_run
from fl_audit.errors import InputError
from fl_audit.verdict.live import shared_confidence


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "needs claimed_epsilon"),
        ({"claimed_epsilon": 2.0, "threat_models": ("final",)}, "needs 'known_rounds'"),
        (
            {
                "claimed_epsilon": 2.0,
                "threat_models": ("known_rounds", "window"),
                "window_first_round": 1,
                "window_last_round": 2,
            },
            "before 'window' has seen",
        ),
        ({"claimed_epsilon": 2.0, "verdict_statistic": "max"}, "'max' leaves out"),
        ({"claimed_epsilon": 2.0, "verdict_method": "one_run_valid"}, "'one_run_valid' leaves out"),
    ],
)
def test_what_the_live_verdict_needs(keys, message):
    with pytest.raises(ValueError, match=message):
        Audit(stop_when_contradicted=True, **keys)


def test_live_test_and_final_tests_share_the_level():
    assert shared_confidence(Audit(claimed_epsilon=2.0)) == pytest.approx(0.95)
    live = Audit(claimed_epsilon=2.0, stop_when_contradicted=True, confidence=0.9)
    assert shared_confidence(live) == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("participation", "family", "message"),
    [
        (Bernoulli(rounds=12, clients_per_round=5), "gaussian", "clients are sampled"),
        (EveryRound(rounds=12), "gaussian", "up to 12 rounds"),
    ],
)
def test_what_cannot_be_tested_round_by_round_is_refused(participation, family, message):
    config = Config(
        task=DigitsTask(num_clients=60),
        mechanism=GaussianFixed(noise_multiplier=1.0, clip_norm=1.0),
        participation=participation,
        canaries=Canaries(count=40, family=family),
        audit=Audit(claimed_epsilon=2.0, stop_when_contradicted=True),
    )
    with pytest.raises(InputError, match=message):
        design_run(config, [str(client) for client in range(60)], 40)
