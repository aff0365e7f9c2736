"""Replays of rounds: no word against right servers, and one for each that is wrong."""

import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from replay_zoo import (
    CLIP,
    COHORT,
    PROMISE,
    RIGHT,
    SHAPES,
    WRONG,
    clipped,
    finding,
    fixed_point,
    normal,
    server,
)

from fl_audit.checks import Promise, read_replay, replay_round, write_replay
from fl_audit.checks.check import compared
from fl_audit.errors import InputError
from tests.seeds_tried import some

DOCUMENT = Path(__file__).parents[2] / "docs" / "replay.md"
ZOO = {member.name: member for member in (*RIGHT, *WRONG)}
UNTOLD = {
    "fixed point, drawn before the noise": {"denominator"},
    "the largest coordinates alone": {"every_client"},
    "noise on prefix sums": {"noise_length"},
    "two variables of one number": {"every_client"},
    "ten numbers": {"every_client"},
}
"""What cannot be told of right servers, beside what a NaN does, as docs/replay.md says."""


def updates_of(shapes=SHAPES, count=10, seed=0):
    random = np.random.default_rng(seed)
    return [
        [(random.normal(size=s) * (0.003 if i % 2 else 0.1)).astype(np.float32) for s in shapes]
        for i in range(count)
    ]


def replayed(function, state=0, promise=PROMISE, shapes=SHAPES, seed=3):
    return replay_round(function, state, updates_of(shapes), seed, promise)


def replayed_member(name):
    member = ZOO[name]
    return replayed(member.server, member.state, member.promise, member.shapes)


def test_the_zoo_is_as_large_as_is_said():
    assert len(ZOO) == len(RIGHT) + len(WRONG)
    assert len(RIGHT) == 32
    assert len(WRONG) == 50


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", [member.name for member in RIGHT])
def test_nothing_is_said_against_a_right_server(name):
    found = replayed_member(name)
    assert found.passed, str(found)
    assert set(found.inconclusive) - {"not_finite"} == UNTOLD.get(name, set()), str(found)


def _two_a_finding():
    """The wrong servers, slow but for two that each finding has to fail."""
    kept = Counter()
    for member in WRONG:
        kept[member.found_by] += 1
        marks = [pytest.mark.slow] if kept[member.found_by] > 2 else []
        yield pytest.param(member.name, marks=marks)


@pytest.mark.parametrize("name", _two_a_finding())
def test_what_is_wrong_is_found(name):
    found = replayed_member(name)
    if name == "NaN counted in the denominator":  # what a replay says and does not call a fault
        assert found.inconclusive == ("not_finite",)
        assert "times what one client may change" in finding(found, "not_finite").measured
    else:
        assert ZOO[name].found_by in found.failed, str(found)


def test_nothing_is_found_in_a_right_server_of_other_seeds():
    """20 replays; each has four findings that fail with a probability below 1e-6."""
    shapes = ((5, 4), (3,))

    def of_round(state, updates, random):
        total = [np.sum([clipped(u)[j] for u in updates], axis=0) for j in range(2)]
        noise = normal(random, shapes=shapes)
        return 0, [(t + g) / COHORT for t, g in zip(total, noise, strict=True)]

    for seed in some(range(20), 6):
        assert replayed(of_round, shapes=shapes, seed=seed).passed, seed


def test_words_name_the_client_the_variable_and_the_round():
    one = finding(replayed_member("every client twice"), "one_client")
    assert one.measured.startswith("the recorded round without client")
    assert "2 times what one client may change" in one.measured
    assert str(one).startswith("FAILED one_client: expected that a client changes at most")
    clip = finding(replayed_member("a bias unclipped"), "clip")
    assert clip.variable == len(SHAPES)
    assert "in variable 4" in clip.measured
    every = finding(replayed_member("weights by examples"), "every_client")
    assert re.match(r"\d of 10 clients count more than they may: client \d", every.measured)


def test_a_grid_is_named_and_counted_as_rounding():
    found = replayed(fixed_point(lambda random: random.spawn(1)[0], 2.0**-6))
    assert found.passed, str(found)
    held = finding(found, "clip")
    assert "including rounding to a grid of 0.0156" in held.measured
    assert 1.02 < held.ratio < 1.2

    def long(update):
        return clipped(update, 1.3 * CLIP)

    wrong = replayed(fixed_point(lambda random: random.spawn(1)[0], 2.0**-6, long))
    assert {"clip", "unlike"} <= set(wrong.failed)


def test_a_server_may_write_on_its_arguments():
    def scribbling(state, updates, random):
        state["rounds"] += 1
        for update in updates:
            for part, small in zip(update, clipped(update), strict=True):
                part[...] = small
        assert state["rounds"] <= 3
        return server()(state, updates, random)

    assert replayed(scribbling, {"rounds": 0}).passed


def test_rounds_that_a_server_refuses_are_not_told():
    def refusing(state, updates, random):
        if len(updates) > COHORT:
            raise ValueError("too many")
        return server()(state, updates, random)

    found = replayed(refusing)
    assert found.passed
    assert "the server refuses this cohort (ValueError: too many)" in str(
        finding(found, "denominator")
    )
    assert found.inconclusive == ("denominator", "not_finite")

    first = updates_of()[0][0]

    def needing_the_first(state, updates, random):
        if len(updates) == COHORT - 1 and not np.array_equal(updates[0][0], first):
            raise ValueError("who leads?")
        return server()(state, updates, random)

    assert np.isfinite(found.sensitivity).all()
    assert np.isnan(replayed(needing_the_first).sensitivity).all()

    def failing(state, updates, random):
        return server(denominator=lambda count: COHORT // (count // 1))(state, updates, random)

    assert "smallest_round" in replayed(failing).failed


@pytest.mark.parametrize(
    ("updates", "words"),
    [
        ([[np.ones(3)]], "at least 2"),
        ([[np.ones(3)], [np.ones(4)]], "number 2 has shapes"),
        ([[np.ones(3)], [np.zeros(3)]], "number 2 must be finite"),
        ([[np.ones(3)], [np.full(3, np.nan)]], "number 2 must be finite"),
    ],
)
def test_updates_are_checked(updates, words):
    with pytest.raises(InputError, match=words):
        replay_round(server(), None, updates, 1, PROMISE)


@pytest.mark.parametrize(
    "change", [{"clip_norm": 0}, {"denominator": -1}, {"noise_multiplier": -1}]
)
def test_promises_are_checked(change):
    right = {"clip_norm": 1.0, "denominator": 1.0, "noise_multiplier": 1.0}
    with pytest.raises(InputError, match=next(iter(change))):
        Promise(**{**right, **change})


def test_the_file_of_a_replay(tmp_path):
    path = tmp_path / "replay.json"
    wrong = compared("clip", "it clips", "it does not", log_p=-math.inf, variable=2, ratio=math.inf)
    unsure = compared(
        "memory", "it forgets", "who knows", is_conclusive=False, detectable_ratio=0.5
    )
    write_replay(path, [wrong, unsure])
    assert read_replay(path) == (wrong, unsure)


def test_the_server_of_the_document(capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    exec(compile(code, "docs/replay.md", "exec"), {})
    printed = capsys.readouterr().out
    shown = DOCUMENT.read_text().split("prints\n\n")[1].split("\n\n- ")[0]
    assert [line.strip() for line in shown.splitlines()] == printed.splitlines()


def test_without_a_clip_norm_a_difference_is_no_multiple_of_one():
    random = np.random.default_rng(0)
    promise = Promise(clip_norm=math.inf, denominator=COHORT, noise_multiplier=None)

    def unrepeatable(state, updates, of_seed):
        return state, [random.normal(size=shape) for shape in SHAPES]

    said = finding(replayed(unrepeatable, promise=promise), "repeatable").measured
    assert re.fullmatch(r"another release, which differs by [1-9][\d.]* in norm", said)
