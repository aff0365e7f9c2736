"""The noise that is found for `mechanism.epsilon`, against dp-accounting's own calibration."""

import math

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

from fl_audit.accounting import account
from fl_audit.config.design import design_run
from fl_audit.errors import InputError
from tests.planning.planned_runs import small_config

CLIENTS = [f"client-{i}" for i in range(40)]
DELTA, EPSILON = 1e-3, 3.0


def designed(mechanism=(), participation=(), clients=CLIENTS):
    """A design of 12 rounds with 6 of 40 clients, at epsilon 3."""
    noise = {"kind": "gaussian_fixed", "epsilon": EPSILON, "clip_norm": 1.0}
    pattern = {"kind": "shuffle", "rounds": 12, "clients_per_round": 6}
    changed = {"mechanism": noise | dict(mechanism), "participation": pattern | dict(participation)}
    return design_run(small_config(changed), clients, 40)


def by_dp_accounting(event_of):
    """The noise multiplier that dp-accounting finds for epsilon 3."""
    return dp_accounting.calibrate_dp_mechanism(
        lambda: PLDAccountant(value_discretization_interval=1e-3), event_of, EPSILON, DELTA
    )


def composed(rounds):
    return lambda z: dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(z), rounds)


@pytest.mark.parametrize(
    ("participation", "rounds"),
    [
        ({}, 2),  # 12 rounds of 6 are two passes over 40 clients
        ({"kind": "min_separation", "separation": 3}, 4),
    ],
)
def test_clients_of_known_rounds(participation, rounds):
    design = designed(participation=participation)
    found = design.config.mechanism.multiplier
    assert found == pytest.approx(by_dp_accounting(composed(rounds)), rel=1e-3)
    accounting = account(design.release, design.delta)
    assert EPSILON * (1 - 1e-4) < accounting.client.epsilon <= EPSILON
    assert accounting.canary.epsilon <= EPSILON
    assert design.config.mechanism.epsilon is None


def test_one_client_has_no_delta_by_default():
    with pytest.raises(
        InputError, match=r"^audit\.delta: .* for 1 client; set audit\.delta, such as 1e-3$"
    ):
        design_run(small_config({"audit": {"delta": None}}), CLIENTS[:1], 40)


def test_every_round():
    design = design_run(
        small_config(
            {
                "mechanism": {"kind": "gaussian_fixed", "epsilon": EPSILON, "clip_norm": 1.0},
                "participation": {"kind": "every_round", "rounds": 12},
            }
        ),
        CLIENTS,
        40,
    )
    found = design.noise.noise_multiplier
    assert found == pytest.approx(by_dp_accounting(composed(12)), rel=1e-3)


def test_a_tree():
    design = designed({"kind": "tree_aggregation", "restart_every": 6}, {"clients_per_round": 7})

    # Two trees of six rounds, and a client once in each.
    def event(z):
        tree = dp_accounting.SingleEpochTreeAggregationDpEvent(z, 6)
        return dp_accounting.SelfComposedDpEvent(tree, 2)

    # A client moves three nodes of each tree by a clip norm: two trees are one Gaussian of 6.
    exact = by_dp_accounting(composed(6))
    assert design.noise.noise_multiplier == pytest.approx(exact, rel=1e-3)
    by_rdp = dp_accounting.calibrate_dp_mechanism(
        lambda: dp_accounting.rdp.RdpAccountant(
            neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_SPECIAL
        ),
        event,
        EPSILON,
        DELTA,
    )
    assert exact < by_rdp < 1.3 * exact


@pytest.mark.slow
def test_poisson_samples():
    design = designed(participation={"kind": "bernoulli"})

    def event(z):
        sampled = dp_accounting.PoissonSampledDpEvent(0.15, dp_accounting.GaussianDpEvent(z))
        return dp_accounting.SelfComposedDpEvent(sampled, 12)

    found = design.noise.noise_multiplier
    assert found == pytest.approx(by_dp_accounting(event), rel=2e-3)


@pytest.mark.slow
def test_samples_of_fixed_size():
    design = designed(participation={"kind": "uniform"})
    epsilon = account(design.release, design.delta).client.epsilon
    assert EPSILON * (1 - 1e-3) < epsilon <= EPSILON


@pytest.mark.parametrize(
    ("mechanism", "participation", "words"),
    [
        ({"noise_multiplier": 1.0}, {}, "both determine the noise"),
        ({"epsilon": math.inf}, {}, "must be finite"),
        ({"epsilon": 0.0}, {}, "must be a number above 0, got 0.0"),
        ({"epsilon": 1e14}, {}, r"mechanism\.epsilon: 1e\+14: .*must be 0, for no noise, or from"),
        ({"kind": "tree_aggregation"}, {"kind": "bernoulli"}, "no analytical epsilon is known"),
        ({"zeroing": {"kind": "adaptive"}}, {}, "one client can decide"),
        ({"kind": "distributed", "bits": 3}, {}, r"3: mechanism\.bits: 3 bits cannot hold"),
        ({"kind": "distributed", "clip_norm": None}, {}, "3: .* the clip norm is adaptive"),
    ],
)
def test_what_cannot_be_found_is_refused(mechanism, participation, words):
    with pytest.raises(InputError, match=words):
        designed(mechanism, participation)


@pytest.mark.slow
def test_what_the_clip_s_count_does_not_allow_is_refused():
    with pytest.raises(InputError, match=r"epsilon: 0\.1: .* for noise_multiplier 24\.6"):
        designed({"kind": "gaussian_adaptive", "epsilon": 0.1})
