"""Costs, accuracy and power against closed forms and the verdict itself."""

import dataclasses
import json
import math
import types

import numpy as np
import pytest
from planned_runs import facts, planned, small_config

from fl_audit.cli import main
from fl_audit.errors import InputError
from fl_audit.json_records import to_json
from fl_audit.number_words import significant
from fl_audit.planning.cost import Calibration, accuracy_cost, measure_cost
from fl_audit.planning.planned_power import claim_power, curve_power
from fl_audit.planning.predicted_background import MIDDLE, predicted_background
from fl_audit.planning.prediction import changes, predicted_statistics, simulated_audits
from fl_audit.planning.text import _claim
from fl_audit.tasks.facts import NumberedClients
from fl_audit.verdict import ClaimTests
from tests.accounting.releases import release
from tests.planning.test_plan_command import CONFIG


def _released(run, client=2, canary=1):
    """The run with another number of rounds of clients and canaries for accounting."""
    changed = dataclasses.replace(run)
    noise = run.noise.noise_multiplier
    vars(changed)["release"] = release(noise, client, canary, rounds=run.num_rounds)
    return changed


@pytest.mark.parametrize("family", ["gaussian", "hadamard"])
def test_what_scoring_costs_is_measured(family):
    run = planned(small_config({"canaries": {"family": family}}))
    cost = measure_cost(run)
    assert cost.scoring_seconds > 0
    assert cost.canaries_timed == 40
    assert cost.log_bytes == 4 * 12 * 40
    assert cost.update_bytes == round(4 * 600 * run.schedule.expected_canaries)
    assert cost.total_scoring_seconds == 12 * cost.scoring_seconds
    assert cost.store_bytes == 0
    json.dumps(to_json(cost), allow_nan=False)


def test_a_store_on_disk_is_not_made(tmp_path):
    store = tmp_path / "pool"
    run = planned(small_config({"canaries": {"store": "disk", "store_path": str(store)}}))
    assert measure_cost(run).store_bytes == 2 * 40 * 600
    assert not store.exists()


@pytest.mark.parametrize(("memory", "timed"), [(4 * 600 * 5, 5), (4 * 600, 40)])
def test_as_many_stored_canaries_are_timed_as_half_of_the_memory_holds(
    tmp_path, monkeypatch, memory, timed
):
    for module in ("fl_audit.planning.cost", "fl_audit.canaries.store"):
        monkeypatch.setattr(f"{module}.available_memory", lambda: memory)
    monkeypatch.setattr("fl_audit.planning.cost.num_cores", lambda: 16)
    disk = {"store": "disk", "store_path": str(tmp_path / "pool")}
    cost = measure_cost(planned(small_config({"canaries": disk})))
    assert cost.canaries_timed == timed  # all of them, redrawn, if not even two fit
    assert cost.scoring_seconds > 0


def test_dilution_and_noise():
    run = planned(small_config({"participation": {"canary_repeats": 3}}))
    found = accuracy_cost(run)
    n, m = run.schedule.expected_clients, run.schedule.expected_canaries
    assert m == pytest.approx(3 * run.included.sum() / 12)
    assert found.dilution == pytest.approx(n / (n + m))
    assert found.canary_noise == pytest.approx(math.sqrt(m / 600))
    assert found.canary_noise_of_run == pytest.approx(math.sqrt(3 * m / 600))
    assert found.total_noise == pytest.approx(math.sqrt(0.04 + 3 * m / 600))
    assert found.unclipped_quantile is None
    assert to_json(found) == {
        "dilution": found.dilution,
        "noise_multiplier": 0.2,
        "canary_noise": found.canary_noise,
        "canary_noise_of_run": found.canary_noise_of_run,
        "unclipped_quantile": None,
        "total_noise": found.total_noise,
    }


def test_an_adaptive_clip_has_to_leave_room_for_canaries():
    adaptive = {"kind": "gaussian_adaptive", "noise_multiplier": 0.0, "target_quantile": 0.4}
    run = planned(small_config({"mechanism": adaptive}))
    n, m = run.schedule.expected_clients, run.schedule.expected_canaries
    assert accuracy_cost(run).unclipped_quantile == pytest.approx(0.4 * (n + m) / n)


def test_power_is_that_of_the_verdict():
    """Trial by trial the same words as by the verdict's own bounds, all four of them."""
    claim = {"claimed_epsilon": 1.5, "claimed_delta": 1e-3, "threat_models": ["all_iterates"]}
    config = small_config(
        {"audit": claim, "canaries": {"count": 200}, "mechanism": {"noise_multiplier": 0.05}}
    )
    run = _released(planned(config, facts(dim=5_000)))
    power = claim_power(run, 3)
    contradicted = 0
    background = predicted_background(run, MIDDLE)
    audits = [simulated_audits(run, background, s, 3) for s in predicted_statistics(config)]
    for statistics in zip(*audits, strict=True):
        contradicted += ClaimTests(statistics, 0.95).bounds(1e-3)[0].estimate.epsilon > 1.5
    configured, half, none = power.faults
    assert contradicted > 0
    assert configured.contradicted == contradicted / 3
    assert configured.lowest <= configured.contradicted <= configured.highest
    assert half.contradicted >= configured.contradicted
    assert (half.noise_factor, none.noise_factor) == (0.5, 0.0)
    assert power.num_tests == 4
    assert power.unfit is None
    json.dumps(power.to_json(), allow_nan=False)


def test_without_a_claim_there_is_no_power():
    run = planned(small_config())
    assert claim_power(run, 3) is None


def test_a_plan_says_how_much_less_noise_would_be_noticed_and_by_how_many_canaries():
    run = planned(small_config(), facts(dim=10**6))
    found = curve_power(_released(run))
    noise = found.to_json()["noise_multiplier"]
    assert 0 < noise < run.noise.noise_multiplier
    assert f"a noise multiplier of {significant(noise)} or less in 80 %" in found.words
    twice, tenth, twentieth = found.needed
    assert (twice.noise_factor, tenth.noise_factor, twentieth.noise_factor) == (None, 0.9, 0.95)
    assert twice.epsilon == pytest.approx(2 * found.claim.epsilon)
    assert 1 < twice.canaries < tenth.canaries
    # A shift of half the size takes four times as many.
    assert twentieth.canaries == pytest.approx(4 * tenth.canaries, rel=0.2)
    assert f"{tenth.canaries:,} for 10 % less noise" in found.words
    as_many = planned(small_config({"canaries": {"count": tenth.canaries}}), facts(dim=10**6))
    made = curve_power(_released(as_many)).to_json()
    # Coins include half of them, by and large.
    assert made["noise_multiplier"] == pytest.approx(0.9 * run.noise.noise_multiplier, rel=0.03)


def test_canaries_of_several_rounds_have_a_plan():
    run = planned(small_config({"audit": {"claimed_mu": 2.0}}), facts(dim=10**6))
    several = planned(
        small_config({"audit": {"claimed_mu": 2.0}, "participation": {"canary_repeats": 3}}),
        facts(dim=10**6),
    )
    # A client is in two rounds, so that a canary of one is better protected than the claim says.
    once, thrice = (curve_power(_released(one)) for one in (run, several))
    assert once.needed[0].canaries > thrice.needed[0].canaries
    assert once.claim.kind == "gdp" and once.to_json()["mu"] > 2.0


@pytest.mark.parametrize("audit", [{"claim": "none"}, {"claimed_epsilon": 2.0}])
def test_where_no_curve_is_tested_a_plan_says_nothing_of_one(audit):
    run = planned(small_config({"audit": audit}))
    assert curve_power(_released(run)) is None


def test_a_claim_that_the_canaries_do_not_bear_on_and_do_not_contradict():
    """40 canaries prove far less than 100, whatever leaks."""
    run = planned(small_config({"audit": {"claimed_epsilon": 100.0}}))
    power = claim_power(_released(run, client=1, canary=3), 3)
    assert "an included canary participated in up to 3 rounds" in power.unfit
    assert power.faults[0].highest == 0
    assert power.ideal_epsilon == 200


@pytest.mark.parametrize(
    ("claim", "canary_rounds", "gives"),
    [
        ({"claimed_mu": 0.5}, 1, "1.00"),
        ({"claimed_rho": 0.1}, 3, "0.500"),  # whatever canaries show, of clients too or not
        ({"claimed_profile": [[1.0, 1e-3]]}, 1, "ε = 3.14 at δ = 0.001, where the claim allows"),
        ({"claimed_epsilon": 1.0}, 3, "3.14"),
        ({"claimed_mu": 1.0}, 1, None),
    ],
)
def test_a_plan_says_that_accounting_contradicts_any_claim(claim, canary_rounds, gives):
    mechanism = {"kind": "gaussian_fixed", "noise_multiplier": 1.0, "clip_norm": 1.0}
    run = planned(small_config({"mechanism": mechanism, "audit": claim}))
    run = _released(run, client=1, canary=canary_rounds)
    plan = types.SimpleNamespace(power=claim_power(run, 1), detectable=curve_power(run))
    printed = " ".join(" ".join(_claim(plan)).split())
    by_accounting = "contradicted by accounting, whatever canaries show: the configured noise gives"
    assert (by_accounting in printed) == (gives is not None)
    assert gives is None or f"{by_accounting} {gives}" in printed
    if plan.detectable is not None:
        given = plan.detectable.to_json().get("accounting")
        assert given is gives or given.startswith(gives)


@pytest.mark.parametrize(("models", "gives"), [(["known_rounds"], None), (["one_upload"], "4.38")])
def test_a_claim_is_about_uploads_if_they_alone_are_tested(models, gives):
    """An upload has noise multiplier 1 (ε = 4.38), and the sum of a round has far more noise."""
    changes = {
        "mechanism": {"kind": "client_gaussian", "noise_multiplier": 1.0, "clip_norm": 1.0},
        "participation": {"rounds": 7},
        "audit": {"delta": 1e-5, "claimed_epsilon": 2.0, "threat_models": models},
    }
    power = claim_power(planned(small_config(changes)), 3)
    assert power.accounting == gives
    assert (power.faults[0].lowest == 1.0) == (gives is not None)


def test_a_verdict_on_a_statistic_that_is_not_simulated():
    audit = {
        "claimed_epsilon": 1.0,
        "threat_models": ["final", "checkpoints"],
        "release_every": 4,
        "verdict_statistic": "checkpoints_max",
    }
    run = planned(small_config({"audit": audit}))
    with pytest.raises(InputError, match=r"audit.verdict_statistic: a plan does not cover"):
        claim_power(run, 3)


def test_one_key_is_changed_at_a_time():
    run = planned(small_config())
    shown = [(c.key, c.value, c.is_planned) for c in changes(run)]
    assert [value for key, value, _ in shown if key == "canaries.count"] == [10, 20, 40, 80, 160]
    assert [value for key, value, _ in shown if "repeats" in key] == [1, 2, 4, 8]
    assert [value for key, value, _ in shown if "noise" in key] == [0, 0.1, 0.2, 0.4]
    assert sum(is_planned for *_, is_planned in shown) == 4
    (clip, *_) = (c for c in changes(run) if c.key == "mechanism.clip_norm")
    assert [s.name for s in clip.statistics] == ["final"]
    assert clip.applied_to(run.config).mechanism.clip_norm == clip.value


def test_without_repeats_in_the_pattern_none_are_shown():
    run = planned(small_config({"participation": {"kind": "every_round", "rounds": 3}}))
    assert not [c for c in changes(run) if "repeats" in c.key]


# Hours from a calibration, and plans from numbers alone.


pytestmark = pytest.mark.tff

NUMBERS = "task={kind='numbers', num_clients=60, dim=1210}"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.replace("claimed_epsilon = 20.0", ""))
    return str(path)


def test_runs_go_to_the_next_free_machine():
    measured = Calibration(start_seconds=40.0, round_seconds=2.0, rounds_timed=9, rounds=101)
    assert measured.seconds() == 240
    assert measured.seconds(runs=10, machines=4) == 3 * 240
    assert measured.seconds(runs=2, machines=4) == 240


@pytest.mark.slow
def test_a_calibration_trains_the_first_rounds(config, capsys):
    asked = ["plan", config, "--trials", "3", "--json", "--calibrate", "0.01"]
    assert main([*asked, "--runs", "12", "--machines", "4"]) == 0
    hours = json.loads(capsys.readouterr().out)["hours"]
    assert (hours["runs"], hours["machines"], hours["rounds_timed"]) == (12, 4, 3)
    one = hours["start_seconds"] + 5 * hours["round_seconds"]
    assert hours["hours"] == pytest.approx(3 * one / 3600)


@pytest.mark.slow
def test_numbers_alone_plan_as_the_task_does(config, capsys):
    def plan(*sets):
        changed = [part for entry in sets for part in ("--set", entry)]
        assert main(["plan", config, "--trials", "3", "--json", *changed]) == 0
        return json.loads(capsys.readouterr().out)

    loaded, stated = plan(), plan(NUMBERS)
    assert (stated["dim"], stated["num_clients"]) == (loaded["dim"], loaded["num_clients"])
    assert stated["not_predicted"] == ["final"]
    for name, predicted in stated["statistics"].items():
        assert predicted == loaded["statistics"][name]


def test_numbers_alone_are_not_trained(config, tmp_path, capsys):
    assert main(["run", config, "--out", str(tmp_path / "out"), "--set", NUMBERS]) == 2
    assert "'numbers' has no data to train on" in capsys.readouterr().err


def test_clients_are_numbered():
    clients = NumberedClients(342_477)
    assert (len(clients), clients[342_476], clients[2:4]) == (342_477, "342476", ["2", "3"])
    assert np.isin("7", clients[:10])
