"""Replays of servers whose clip norm adapts: right ones in many settings, and wrong ones."""

import numpy as np
import pytest
from clip_servers import CLIP, COUNT_STDDEV, SHAPES, WRONG, Rule, clip_of, promise, server
from replay_zoo import finding

from fl_audit.checks import Promise, replay_round
from fl_audit.errors import InputError
from tests.seeds_tried import some

QUESTIONS = ("clip_count", "clip_update", "count_noise", "clip_next", "clip_noise")


def replayed(rule, promised, seed=1):
    random = np.random.default_rng(0)
    updates = [[0.02 * random.normal(size=s).astype(np.float32) for s in SHAPES] for _ in range(6)]
    state = (np.float32(CLIP), None)
    return replay_round(server(rule), state, updates, seed, promised, clip_norm_of=clip_of)


def test_a_right_server_answers_every_question():
    found = replayed(Rule(), promise())
    assert found.passed, str(found)
    assert tuple(one.name for one in found.findings)[-5:] == QUESTIONS
    assert found.inconclusive == ("not_finite",)
    assert finding(found, "clip_count").ratio == pytest.approx(1.0, abs=1e-3)
    assert finding(found, "count_noise").detectable_ratio == pytest.approx(0.58, abs=0.01)


@pytest.mark.parametrize(
    ("count_stddev", "quantile", "limit"),
    [(1.0, 0.5, True), (8.0, 0.5, True), (30.0, 0.5, True), (2.0, 0.9, False), (0.1, 0.2, True)],
)
def test_nothing_is_said_against_a_right_server(count_stddev, quantile, limit):
    """Eight replays of four findings by chance, each of which fails with 1e-6: below 1e-4 in all.

    Noise of 8 and 30 clients of 20 is mostly beyond the range of the share.
    """
    rule = Rule(count_stddev=count_stddev, quantile=quantile, limit=limit)
    for seed in some(range(8), 2):
        found = replayed(rule, promise(count_stddev, quantile), 1000 * seed)
        assert found.passed, str(found)


def test_p_values_of_a_right_server_are_those_of_chance():
    """Two of 30 seeds: with p-values as they should be, none below 1e-5 with probability 0.999."""
    smallest = {"clip_update": 1.0, "count_noise": 1.0}
    for seed in some(range(30), 15):
        found = replayed(Rule(count_stddev=5.0), promise(5.0), 777 * seed)
        for name, least in smallest.items():
            smallest[name] = min(least, np.exp(finding(found, name).log_p))
    assert all(1e-5 < least < 0.3 for least in smallest.values()), smallest


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", list(WRONG))
def test_what_is_wrong_is_found(name):
    rule, found_by = WRONG[name]
    found = replayed(rule, promise())
    assert found_by in found.failed, str(found)


def test_words_say_what_was_measured():
    none = finding(replayed(WRONG["count without noise"][0], promise()), "count_noise")
    assert none.measured.startswith("no noise under any seed; less than 0.58 times this")
    zero = finding(replayed(WRONG["a count from zero"][0], promise()), "clip_count")
    assert zero.measured.startswith("2 times that maximum, by one client 0.3 clip norms long")
    rate = finding(replayed(WRONG["half the rate"][0], promise()), "clip_update")
    assert rate.measured == "6 short clients move the count by 1.5, not by 3"


def test_without_noise_and_without_movement():
    silent = promise(0.0)
    assert replayed(Rule(count_stddev=0.0), silent).passed
    assert "count_noise" in replayed(Rule(count_stddev=0.1), silent).failed
    fixed = Promise(
        clip_norm=CLIP,
        denominator=20,
        noise_multiplier=1.0,
        adaptive_clip=type(silent.adaptive_clip)(
            target_quantile=0.5, learning_rate=0.0, count_stddev=COUNT_STDDEV, denominator=20
        ),
    )
    assert (
        finding(replayed(Rule(rate=0.0), fixed), "clip_update").measured
        == "the clip norm stays fixed"
    )
    assert "clip_update" in replayed(Rule(), fixed).failed


def test_bad_input_is_one_clear_line():
    updates = [[np.ones(s, np.float32) for s in SHAPES]] * 2
    with pytest.raises(InputError, match="clip_norm_of: is missing"):
        replay_round(server(), (CLIP, None), updates, 1, promise())
    with pytest.raises(InputError, match="target_quantile: must be in"):
        promise(quantile=1.5)
    with pytest.raises(InputError, match="count_stddev: must be at least 0"):
        promise(count_stddev=-1.0)
