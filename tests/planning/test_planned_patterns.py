"""How many canaries tell patterns apart: the plan's numbers do so in 80 % of simulated audits."""

import numpy as np
import pytest

from benchmarks.secret_rounds import scores
from fl_audit.attacks.likelihood_null import KnownPattern
from fl_audit.attacks.secret_rounds import whitening
from fl_audit.cli import main
from fl_audit.errors import InputError
from fl_audit.participation.arms import read_arm
from fl_audit.planning.planned_patterns import _patterns_of, pattern_pairs
from fl_audit.planning.predicted_background import (
    MIDDLE,
    predicted_background,
    predicted_products,
)
from fl_audit.report.patterns import Detection, PatternAttacker, area, differences
from tests.planning.planned_runs import facts, planned, small_config

ARMS = ("repeats:3", "min_separation:4")
SEEN = ["secret_rounds", "known_rounds"]


def config_of(noise=1.0, **canaries):
    return small_config(
        {
            "mechanism": {"noise_multiplier": noise},
            "canaries": {"count": 200, **canaries},
            "audit": {"delta": 1e-3, "threat_models": SEEN},
        }
    )


def test_so_many_canaries_tell_arms_apart_in_80_percent_of_audits():
    run = planned(config_of(arms=ARMS), facts(dim=10**6))
    secret, known = pattern_pairs(run, ())
    # Three rounds each, so that nothing differs to one who knows them.
    assert known.attacker == "with the schedule" and known.canaries is None
    assert (secret.least, secret.more) == ("repeats:3", "min_separation:4")
    assert secret.share == pytest.approx(secret.canaries / 100)
    apart, audits = 0, 200
    patterns = [KnownPattern(read_arm(arm).sampling(12), 1.0, 12) for arm in ARMS]
    for seed in range(audits):
        random = np.random.default_rng([5, seed])
        made = tuple(
            Detection(
                "", None, None, *area(scores(pattern, secret.canaries, random)["likelihood_ratio"])
            )
            for pattern in patterns
        )
        (found,) = differences([PatternAttacker("", "", made)], 1 - 0.05 / 2)[0]
        apart += found.lower > 0
    # The plan's own simulation moves the number by some 10 %, which moves 80 % by 4 points; and
    # five deviations of 200 audits are 14.
    assert abs(apart / audits - 0.8) < 0.18


def test_aggregates_share_canaries_and_the_common_part_of_clients():
    """The inner products of simulated aggregates, regressed on the predicted ones."""
    run = planned(config_of(0.3, arms=ARMS), facts(dim=2_000))
    expected = predicted_products(run, MIDDLE, predicted_background(run, MIDDLE))
    assert whitening(expected) is not None
    random, present = np.random.default_rng(6), np.zeros((12, 200))
    present[run.round, run.canary] = 1
    real = np.full((12, 1), 3.0)  # six orthogonal updates with a tenth in common: 3 clip norms
    found = np.zeros((12, 12))
    for _ in range(20):
        vectors = random.standard_normal((200, 2_000)) / np.sqrt(2_000)
        common, other = (random.standard_normal((n, 2_000)) / np.sqrt(2_000) for n in (1, 12))
        clients = real * (np.sqrt(0.1) * common + np.sqrt(0.9) * other)
        rows = present @ vectors + clients + 0.3 * random.standard_normal((12, 2_000))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        found += rows @ rows.T / 20
    off = ~np.eye(12, dtype=bool)
    slope = (found * expected)[off].sum() / (expected[off] ** 2).sum()
    # An entry has a deviation of 0.005, the slope one of 0.005 / 0.4; 0.1 is for clients' lengths.
    assert abs(slope - 1) < 0.1


def test_the_command_compares_a_config_with_another_pattern(tmp_path, capsys):
    path = tmp_path / "config.toml"
    path.write_text(
        'seed = 1\ntask = {kind = "digits", num_clients = 60, hidden = [16]}\n'
        'mechanism = {kind = "gaussian_fixed", noise_multiplier = 0.5, clip_norm = 1.0}\n'
        'participation = {kind = "shuffle", rounds = 12, clients_per_round = 10, '
        'canaries = "like_clients", canary_mean_repeats = 3}\n'
        'canaries = {count = 100, family = "gaussian"}\n'
        'audit = {delta = 1e-2, threat_models = ["secret_rounds", "known_rounds"]}\n'
    )
    other = ["participation.kind=balls_in_bins", "participation.canary_mean_repeats=3"]
    assert main(["plan", str(path), "--trials", "3", "--against", *other]) == 0
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if line.strip().startswith("balls_in_bins, 3")][:1]
    assert "Canaries needed to distinguish patterns from the one that leaks least" in lines
    assert float(row.split()[2]) > 0.5
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("coin", [0.5, 0.1, 0.8])
def test_the_coin_gives_the_share_of_included_canaries_that_are_simulated(coin):
    unequal = {"inclusion": "unequal_coins", "inclusion_probability": coin} if coin != 0.5 else {}
    run = planned(config_of(arms=ARMS, **unequal), facts(dim=10**6))
    pattern = _patterns_of("", run)[0]
    for found in (pattern._simulated("own_rounds"), pattern._likelihood_ratios()):
        number = found.num_included + found.num_excluded
        assert number > 20_000
        assert found.num_included / number == pytest.approx(coin, abs=1e-3)


def test_an_arm_without_an_included_canary_is_named_before_any_simulation():
    arms = ("once", *(f"repeats:{parts}" for parts in range(2, 12)))
    run = planned(config_of(arms=arms, count=22))
    with pytest.raises(InputError, match=r"no canary of arm 'once'; .*canaries\.count"):
        pattern_pairs(run, ())
