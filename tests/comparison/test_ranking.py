"""What differs beyond noise, of settings whose canaries took part equally often."""

import pytest

from fl_audit.comparison import compare
from fl_audit.comparison.as_text import comparison_lines
from fl_audit.comparison.ranking import beyond_noise, by_participations, groups_apart
from fl_audit.comparison.reported_run import ReportedRun

NOISE = "config.mechanism.noise_multiplier"
CANARY, CLIENT = "analytical.canary.epsilon", "analytical.client.participations"
HIDDEN = "analytical.attackers.does_not_know_rounds.canary.epsilon"
PATTERN, SAMPLING = "config.participation", "run.release.canary.sampling"
BERNOULLI = {"kind": "bernoulli", "rounds": 8, "clients_per_round": 10, "canaries": "repeats"}


def run_of(make_run, name, noise, epsilon, **changes):
    """A run whose fit says so much, in an interval of a tenth on each side, above its bound."""
    return make_run(
        name,
        {NOISE: noise, CANARY: 100.0, HIDDEN: 100.0, **changes},
        {"shift_fit": epsilon, "threshold_valid": epsilon / 2, "one_run_valid": 0.0},
    )


@pytest.fixture
def sampled():
    """A pattern that samples, with canaries that are drawn as clients are: 6.4 rounds of 8."""
    drawn = {"kind": "PoissonSampling", "probability": 0.8}
    return {PATTERN: BERNOULLI, SAMPLING: drawn, CLIENT: None}


def test_overlapping_intervals_are_one_group(make_run):
    runs = [
        run_of(make_run, "much", 0.1, 20.0),
        run_of(make_run, "some", 0.2, 5.2),
        run_of(make_run, "little", 0.3, 5.0),
        run_of(make_run, "again", 0.3, 6.0, **{"config.seed": 2}),
    ]
    comparison = compare(runs)
    few, many = groups_apart(comparison.settings, "max")
    assert [s.label for s in few.settings] == ["noise 0.3", "noise 0.2"]
    assert (few.lower, few.upper) == pytest.approx((4.5, 6.6))
    assert [s.label for s in many.settings] == ["noise 0.1"]
    assert beyond_noise(comparison) == (
        "With 1 round per canary, by “Largest round”, leakage increases in this order: “noise "
        "0.3” and “noise 0.2” (ε 4.50 … 6.60), then “noise 0.1” (ε 18.0 … 22.0). This audit cannot "
        "tell settings joined by “and” apart."
    )
    nothing = compare(runs[1:3])
    assert "this audit cannot tell which of “noise 0.2” and “noise 0.3” leaks more." in (
        beyond_noise(nothing)
    )


def test_settings_whose_canaries_take_part_differently_often_are_not_ordered(make_run, sampled):
    runs = [
        run_of(make_run, "shuffle", 0.3, 2.0),
        run_of(make_run, "poisson", 0.3, 8.0, **sampled),
    ]
    comparison = compare(runs)
    assert [len(group) for group in by_participations(comparison.settings)] == [1, 1]
    said = beyond_noise(comparison)
    assert said.startswith(
        "Not compared, because canaries participate in different numbers of rounds: 1 round per "
        "canary in “shuffle”; 6.4 rounds per canary in “bernoulli”."
    )
    assert "leakage increases" not in said
    words = [f"{setting.label}, {setting.rounds_words}" for setting in comparison.settings]
    assert words == ["shuffle, 1 round per canary", "bernoulli, 6.4 rounds per canary"]
    assert "per canary" in "\n".join(comparison_lines(comparison))


def test_rounds_are_counted_where_canaries_csv_lists_them(make_run):
    folder = run_of(make_run, "run", 0.3, 2.0)
    other = run_of(make_run, "other", 0.1, 2.0)
    rows = "canary_id,included,rounds\n0,1,1 4 5\n1,0,2\n2,1,\n"
    (folder / "canaries.csv").write_text(rows)
    first, second = compare([folder, other]).runs
    assert isinstance(first, ReportedRun)
    assert (first.participations, second.participations) == (1.5, 1.0)


def test_an_order_that_accounting_has_the_other_way_round_is_said(make_run):
    runs = [
        run_of(make_run, "shuffle", 0.1, 2.0),
        run_of(make_run, "more noise", 0.3, 8.0, **{HIDDEN: 9.0, CANARY: 9.0}),
    ]
    said = beyond_noise(compare(runs))
    assert "“noise 0.1” (ε 1.80 … 2.20), then “noise 0.3” (ε 7.20 … 8.80)." in said
    assert "its upper bound for “noise 0.1” is larger than for “noise 0.3”" in said


def test_where_the_bound_refutes_the_fit_the_interval_ends_at_the_guarantee(make_run):
    refuted = make_run(
        "refuted", {NOISE: 0.1, CANARY: 50.0, HIDDEN: 50.0}, {"shift_fit": 2, "threshold_valid": 9}
    )
    (few, many) = groups_apart(compare([refuted, run_of(make_run, "a", 0.3, 2.0)]).settings, "max")
    assert (few.lower, few.upper) == pytest.approx((1.8, 2.2))
    assert (many.lower, many.upper) == (9.0, 50.0)
