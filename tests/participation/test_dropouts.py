"""Dropouts, report goals and cool-downs: who reports, and what accounting counts."""

import math

import numpy as np
import pytest

from fl_audit.accounting import account, epsilon_at_least
from fl_audit.config.design import design_run
from fl_audit.config.file import parse_config
from fl_audit.errors import InputError
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.participation import Dropouts

CLIENTS = [f"client-{index}" for index in range(120)]


def designed(dropouts=None, kind="shuffle", mechanism="gaussian_fixed", canaries=60, **keys):
    table = {
        "task": {"kind": "digits"},
        "mechanism": {"kind": mechanism, "noise_multiplier": 2.0, "clip_norm": 0.5},
        "participation": {"kind": kind, "rounds": 40, **keys},
        "canaries": {"count": canaries, "family": "gaussian"},
        "audit": {"delta": 1e-3},
    }
    if kind != "every_round":
        table["participation"]["clients_per_round"] = 30
    if dropouts is not None:
        table["dropouts"] = dropouts
    config = parse_config(table, "small")
    return design_run(config, CLIENTS, canaries)


def sizes(design):
    return [len(design.schedule.clients(t)) for t in range(design.num_rounds)]


def test_a_share_of_those_sampled_drops_out():
    """1,200 coins of 0.3: 5 standard deviations are 79."""
    everybody, some = designed(), designed({"share": 0.3})
    for t in range(40):
        assert set(some.schedule.clients(t)) <= set(everybody.schedule.clients(t))
        assert set(some.schedule.canaries(t)) <= set(everybody.schedule.canaries(t))
    assert sum(sizes(everybody)) == 1200
    assert abs(sum(sizes(some)) - 840) < 80
    assert some.schedule.expected_clients == pytest.approx(0.7 * 30)
    assert designed({"share": 0.0}).own_rounds.most == everybody.own_rounds.most


def most_reports(design):
    return np.bincount(np.concatenate([design.schedule.clients(t) for t in range(40)])).max()


def test_a_round_ends_with_the_goal():
    design = designed({"share": 0.1, "report_goal": 20}, canaries=0)
    assert set(sizes(design)) == {20}
    assert design.schedule.expected_cohort == pytest.approx(20)


def test_devices_report_in_their_hours():
    """10 of 24 rounds: each device is in the same hours of every day, others in other ones."""
    hours = {"available_share": 10 / 24, "rounds_per_day": 24}
    design = designed(hours, kind="every_round", canaries=0)
    present = np.zeros((40, 120), bool)
    for t in range(40):
        present[t, design.schedule.clients(t)] = True
    assert (present[24:] == present[:16]).all()
    assert set(present[:24].sum(axis=0)) == {10}
    assert 25 < min(sizes(design)) < max(sizes(design)) < 75
    assert design.schedule.expected_clients == pytest.approx(50)
    assert design.release.client.participations == present.sum(axis=0).max()


def test_coins_of_canaries_change_no_other_rounds():
    """Excluded canaries take a place, too, so that rounds do not depend on coins."""
    config = designed({"share": 0.2, "report_goal": 20})
    rounds = [config.schedule.clients(t).tolist() for t in range(40)]
    own = [own.tolist() for own in config.own_rounds.of_canary]
    config.included[:] = ~config.included
    assert [config.schedule.clients(t).tolist() for t in range(40)] == rounds
    assert [own.tolist() for own in config.own_rounds.of_canary] == own


@pytest.mark.parametrize("mechanism", ["gaussian_fixed", "tree_aggregation"])
def test_accounting_counts_the_rounds_in_which_a_client_reports(mechanism):
    """With nine of ten dropping out, no client reports ten times."""
    everybody = designed(mechanism=mechanism, canaries=0).release
    some = designed({"share": 0.9}, mechanism=mechanism, canaries=0)
    assert some.release.client.participations == most_reports(some) < 10
    fewer, all_rounds = (account(release, 1e-5).client for release in (some.release, everybody))
    assert fewer.epsilon < all_rounds.epsilon
    if mechanism == "gaussian_fixed":
        shift = math.sqrt(most_reports(some)) / 2.0
        assert fewer.epsilon == pytest.approx(epsilon_of_mu(shift, 1e-5))
        assert epsilon_at_least(
            some.release, some.release.client, 1e-5, knows_rounds=True
        ) == pytest.approx(fewer.epsilon)


def test_missing_shares_of_noise_are_accounted():
    """Of a round of 14 where 21 are expected, noise has 14 / 21 of its variance."""
    design = designed({"share": 0.3}, mechanism="distributed", canaries=0)
    assert design.release.fewest == min(sizes(design)) < design.schedule.expected_cohort
    goal = designed({"share": 0.1, "report_goal": 20}, mechanism="distributed", canaries=0)
    few, all_of_them = (account(d.release, 1e-5).client.epsilon for d in (design, goal))
    assert few > all_of_them


@pytest.mark.parametrize("kind", ["bernoulli", "uniform", "random_allocation"])
def test_patterns_whose_sampling_counts_are_refused(kind):
    with pytest.raises(InputError, match="dropouts: is only for patterns whose rounds"):
        designed({"share": 0.3}, kind=kind)


@pytest.mark.parametrize(
    ("keys", "separation"),
    [
        ({"cool_down_hours": 48, "round_hours": 16}, 3),
        ({"cool_down_hours": 49, "round_hours": 16}, 4),
        ({"cool_down_hours": 0.3, "round_hours": 0.1}, 3),
        ({"cool_down_hours": 48, "round_hours": 16, "separation": 3}, 3),
    ],
)
def test_a_cool_down_in_hours_is_a_separation_in_rounds(keys, separation):
    design = designed(kind="min_separation", canaries=0, **keys)
    assert design.release.client.sampling.separation == separation


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "separation is missing"),
        ({"round_hours": 16}, "must both be set, or neither"),
        ({"cool_down_hours": 48, "round_hours": 16, "separation": 4}, "is 4, but the hours give 3"),
    ],
)
def test_a_separation_has_to_be_known_once(keys, words):
    with pytest.raises(InputError, match=words):
        designed(kind="min_separation", canaries=0, **keys)


def test_a_sentence_says_who_reports():
    assert Dropouts().words == ""
    assert Dropouts(report_goal=9).words == "A round uses 9 reports at most."
    both = Dropouts(share=0.25, report_goal=1).words
    assert both == "25 % of those sampled drop out, and a round uses 1 report at most."
    hours = Dropouts(share=0.25, available_share=0.4, rounds_per_day=24, report_goal=1).words
    assert hours == (
        "25 % of those sampled drop out, each is available in 40 % of each 24 rounds, and a round "
        "uses 1 report at most."
    )
