"""Predictions from the project's own estimators, and the edges."""

import itertools
import json
import math

import numpy as np
import pytest
from planned_runs import planned, small_config

from fl_audit.errors import InputError
from fl_audit.estimators import METHODS, valid_methods
from fl_audit.json_records import to_json
from fl_audit.planning.predicted_background import ENDS, FACTOR, MIDDLE, predicted_background
from fl_audit.planning.prediction import (
    FIT,
    coverage,
    ends_of,
    interval_over,
    median_of,
    predict,
    predicted_methods,
    predicted_statistics,
    sample,
    sample_middle,
    simulated_audits,
)


def every_prediction(run, trials):
    statistics = predicted_statistics(run.config)
    return predict(run, trials, sample_middle(run, trials, statistics), statistics)


def test_the_estimate_without_details_is_the_estimate():
    run = planned(small_config())
    statistics = predicted_statistics(run.config)
    asked = list(itertools.product(statistics, predicted_methods()))
    found = sample(run, MIDDLE, 4, asked)
    background = predicted_background(run, MIDDLE)
    for s in statistics:
        for trial, drawn in enumerate(simulated_audits(run, background, s, 4)):
            for method in predicted_methods():
                expected = METHODS[method](drawn.setting(run.delta, 0.95)).epsilon
                assert found[s.name, method][trial] == pytest.approx(expected, rel=1e-12)


def test_intervals_cover_both_ends_of_what_is_unknown():
    """The middle itself lies inside, and so does every end."""
    seen = {"audit": {"threat_models": ["all_iterates"]}}
    run = planned(small_config({"canaries": {"count": 20}, **seen}))
    predictions = {p.statistic.name: p.epsilons for p in every_prediction(run, 3)}
    statistics = predicted_statistics(run.config)
    assert set(predictions) == {"max", "sum"}
    for end in (MIDDLE, *ENDS):
        samples = sample(run, end, 3, [(s, FIT) for s in statistics])
        for s in statistics:
            values, interval = samples[s.name, FIT], predictions[s.name][FIT]
            assert interval.lower <= min(values) <= max(values) <= interval.upper
    for epsilons in predictions.values():
        for method in ("shift_fit", *valid_methods()):
            interval = epsilons[method]
            assert 0 <= interval.lower <= interval.median <= interval.upper


def test_the_ends_are_those_that_are_said():
    assert {e.alignment for e in ENDS} == {e.drift for e in ENDS} == {0.0, 1.0}
    assert {e.first_norm for e in ENDS} == {e.last_norm for e in ENDS} == {1 / FACTOR, FACTOR}


@pytest.mark.parametrize(
    "changes",
    [
        {"canaries": {"count": 2}},
        {"canaries": {"count": 3}, "mechanism": {"noise_multiplier": 0.0}},
        {"mechanism": {"noise_multiplier": 0.0}, "participation": {"canary_repeats": 12}},
        {"audit": {"threat_models": ["final"]}},
        {"canaries": {"count": 10, "family": "hadamard"}, "server": {"momentum": 0.99}},
    ],
)
def test_the_edges_have_numbers(changes):
    run = planned(small_config(changes, seed=2))
    everything = [(s, m) for s in predicted_statistics(run.config) for m in predicted_methods()]
    for values in sample(run, MIDDLE, 3, everything).values():
        assert len(values) == 3
        assert np.all(values >= 0)


def test_a_single_included_canary_has_no_estimate():
    seen = {"audit": {"threat_models": ["all_iterates"]}}
    run = planned(small_config({"canaries": {"count": 2}, **seen}, seed=2))
    assert run.included.sum() == 1
    for prediction in every_prediction(run, 3):
        assert FIT not in prediction.epsilons
        assert json.loads(json.dumps(prediction.to_json(), allow_nan=False))[FIT] is None


def test_a_statistic_that_is_not_simulated_is_left_out():
    config = small_config(
        {"audit": {"threat_models": ["final", "checkpoints"], "release_every": 4}}
    )
    assert [s.name for s in predicted_statistics(config)] == ["final"]


def test_under_an_adaptive_server_the_rounds_alone_are_predicted():
    config = small_config({"server": {"kind": "adam"}})
    assert [s.name for s in predicted_statistics(config)] == ["max", "sum", "own_rounds"]
    config = small_config({"server": {"kind": "adam"}, "audit": {"threat_models": ["final"]}})
    with pytest.raises(
        InputError, match=r"threat_models: a plan covers max, one_upload, own_rounds, sum"
    ):
        predicted_statistics(config)


def test_the_same_plan_twice():
    run = planned(small_config())
    background, statistic = predicted_background(run, MIDDLE), predicted_statistics(run.config)[0]
    first, second = (next(simulated_audits(run, background, statistic, 1)) for _ in range(2))
    assert np.array_equal(first.scores.included, second.scores.included)


@pytest.mark.parametrize("trials", [3, 39, 100])
def test_a_new_value_lies_between_the_ends_as_often_as_is_said(trials):
    """5,000 samples; 6 standard errors of a share."""
    random = np.random.default_rng(3)
    values = random.standard_exponential((5_000, trials + 1))
    hits = 0
    for row in values:
        low, high = ends_of(row[:-1])
        hits += low <= row[-1] <= high
    share = coverage(trials)
    assert hits / 5_000 == pytest.approx(share, abs=6 * math.sqrt(share * (1 - share) / 5_000))


def test_infinite_values_sort_last():
    values = np.array([1.0, np.inf, 2.0])
    assert ends_of(values) == (1.0, math.inf)
    assert median_of(values) == 2.0
    assert median_of(np.array([1.0, np.inf])) == 1.0


def test_an_interval_covers_all_samples():
    interval = interval_over(np.array([2.0, 3.0, 4.0]), [np.array([0.5, 1.0, 9.0])])
    assert (interval.median, interval.lower, interval.upper) == (3.0, 0.5, 9.0)
    assert to_json(interval_over(np.full(3, np.inf), [])) == {
        "median": "inf",
        "lower": "inf",
        "upper": "inf",
    }
