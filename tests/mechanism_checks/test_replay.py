"""Replays of rounds: each bug is found by the comparison made for it, and none where none is."""

import re
from pathlib import Path

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.mechanism_checks import Promise, replay_round

SHAPES = [(40, 30), (30,), (30, 10), (10,)]
CLIP, COHORT = 0.5, 20
PROMISE = Promise(clip_norm=CLIP, denominator=COHORT, noise_multiplier=1.0)
DOCUMENT = Path(__file__).parents[2] / "docs" / "replay.md"


def clipped(update, norm=CLIP):
    length = np.sqrt(sum(np.sum(np.square(part, dtype=np.float64)) for part in update))
    return [part * min(1.0, norm / length) for part in update]


def normal(random, stddev=CLIP):
    return [random.normal(0, stddev, shape) for shape in SHAPES]


def server(preprocess=clipped, noise=normal, denominator=lambda updates: COHORT, dtype=np.float32):
    def of_round(state, updates, random):
        total = [np.zeros(shape, dtype) for shape in SHAPES]
        for update in updates:
            for i, part in enumerate(preprocess(update)):
                total[i] += part.astype(dtype)
        noised = zip(total, noise(random), strict=True)
        return state, [(t + g) / denominator(updates) for t, g in noised]

    return of_round


def updates_of(count=20, seed=0):
    random = np.random.default_rng(seed)
    return [
        [(random.normal(size=s) * (0.001 if i % 2 else 0.1)).astype(np.float32) for s in SHAPES]
        for i in range(count)
    ]


def replayed(function, state=None, promise=PROMISE, seed=3):
    return replay_round(function, state, updates_of(), seed, promise)


def counted_twice_sometimes(state, updates, random):
    draws = random.spawn(1)[0]
    times = [1 + (draws.random() < 0.1) for _ in updates]
    sent = [update for update, n in zip(updates, times, strict=True) for _ in range(n)]
    return server()(state, sent, random)


def with_momentum_before_noise(state, updates, random):
    _, fresh = server(noise=lambda random: [np.zeros(shape) for shape in SHAPES])(
        0, updates, random
    )
    state = [0.9 * old + new for old, new in zip(state, fresh, strict=True)]
    return state, [s + g / COHORT for s, g in zip(state, normal(random), strict=True)]


def clip_after_sum(state, updates, random):
    total = [np.sum([u[j] for u in updates], axis=0) + np.zeros(s) for j, s in enumerate(SHAPES)]
    noised = zip(clipped(total, CLIP) if updates else total, normal(random), strict=True)
    return state, [(t + g) / COHORT for t, g in noised]


def one_key(random):
    key = random.integers(2**31)
    return [np.random.default_rng(key).normal(0, CLIP, shape) for shape in SHAPES]


def in_float16(random):
    return [part.astype(np.float16).astype(np.float64) for part in normal(random)]


BUGS = {
    "counted twice": (server(lambda u: [2 * part for part in clipped(u)]), "every_client"),
    "an upload in ten counted twice": (counted_twice_sometimes, "every_client"),
    "a bias unclipped": (server(lambda u: [*clipped(u[:-1]), u[-1]]), "clip"),
    "clip by variable": (server(lambda u: [clipped([part])[0] for part in u]), "clip"),
    "no clip": (server(lambda u: u), "one_client"),
    "always scaled to the clip norm": (
        server(lambda u: clipped([1e9 * p for p in u])),
        "every_client",
    ),
    "clip after the sum": (clip_after_sum, "every_client"),
    "the cohort as denominator": (server(denominator=lambda u: max(1, len(u))), "one_client"),
    "fails without clients": (
        server(denominator=lambda u: COHORT // (len(u) // 19)),
        "smallest_round",
    ),
    "half the noise": (server(noise=lambda r: normal(r, CLIP / 2)), "noise_length"),
    "twice the noise": (server(noise=lambda r: normal(r, CLIP * 2)), "noise_length"),
    "the last bias without noise": (
        server(noise=lambda r: [*normal(r)[:-1], np.zeros(10)]),
        "noise_length",
    ),
    "the same noise in every round": (
        server(noise=lambda r: normal(np.random.default_rng(5))),
        "noise_length",
    ),
    "one key for all variables": (server(noise=one_key), "noise_echo"),
    "noise in float16": (server(noise=in_float16), "noise_resolution"),
    "randomness of its own": (
        server(noise=lambda r: normal(np.random.default_rng())),
        "repeatable",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_each_bug_is_found(name):
    function, finding = BUGS[name]
    found = replayed(function)
    assert finding in found.failed, str(found)
    assert not found.passed


def test_momentum_before_noise_shows_in_the_next_round():
    zeros = [np.zeros(shape) for shape in SHAPES]
    assert replayed(with_momentum_before_noise, zeros).failed == ("memory",)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_is_found_in_a_right_server(dtype):
    """300 seeds in all; each fails with a probability below 3e-6."""
    for seed in range(150):
        found = replayed(server(dtype=dtype), state=1, seed=seed)
        assert found.passed, f"seed {seed}\n{found}"
    np.testing.assert_allclose(found.sensitivity[-1], CLIP / COHORT, rtol=1e-5)
    assert len(found.sensitivity) == len(SHAPES) + 1


def test_words_name_the_client_and_the_variable():
    twice = server(lambda u: [2 * part for part in clipped(u)])
    (one,) = [f for f in replayed(twice).findings if f.name == "one_client"]
    assert one.measured == "1 of 20 clients count more or less often than promised: client 1 by +1"
    assert str(one).startswith("FAILED one_client: expected that leaving out client 1")
    bias, _ = BUGS["a bias unclipped"]
    (clip,) = [f for f in replayed(bias).findings if f.name == "clip"]
    assert clip.variable == len(SHAPES)
    assert "in variable 4" in clip.measured


def test_a_replay_is_deterministic_and_costs_five_rounds():
    uploads = []

    def counting(state, updates, random):
        uploads.append(len(updates))
        return server()(state, updates, random)

    first = str(replayed(counting, state=0))
    assert sum(uploads) == 5 * len(updates_of())  # 20 + 20 + 19 + 21 + 20, and empty rounds
    assert str(replayed(counting, state=0)) == first


def test_a_server_may_write_on_its_arguments():
    def scribbling(state, updates, random):
        state["rounds"] += 1
        for update in updates:
            for part, small in zip(update, clipped(update), strict=True):
                part[...] = small
        assert state["rounds"] <= 2
        return server()(state, updates, random)

    assert replayed(scribbling, {"rounds": 0}).passed


def test_without_clip_noise_and_empty_rounds():
    plain = Promise(clip_norm=np.inf, denominator=COHORT, noise_multiplier=0, smallest_cohort=3)
    no_noise = server(lambda u: u, lambda r: [np.zeros(s) for s in SHAPES])
    found = replayed(no_noise, promise=plain)
    assert found.passed, str(found)


def test_zeroed_updates_are_promised_to_be_left_out():
    def zeroed(update):
        is_long = max(np.abs(part).max() for part in update) > 1.0
        return [np.zeros(s) for s in SHAPES] if is_long else clipped(update)

    promise = Promise(clip_norm=CLIP, denominator=COHORT, noise_multiplier=1.0, zeroing_norm=1.0)
    assert replayed(server(zeroed), promise=promise).passed
    assert "clip" in replayed(server(zeroed)).failed


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


def test_a_release_of_another_length_is_refused():
    with pytest.raises(InputError, match="must release 1540 numbers"):
        replayed(lambda state, updates, random: (state, np.zeros(3)))


@pytest.mark.parametrize(
    "change", [{"clip_norm": 0}, {"denominator": -1}, {"noise_multiplier": -1}]
)
def test_promises_are_checked(change):
    right = {"clip_norm": 1.0, "denominator": 1.0, "noise_multiplier": 1.0}
    with pytest.raises(InputError, match=next(iter(change))):
        Promise(**{**right, **change})


def test_the_server_of_the_document(capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    exec(compile(code, "docs/replay.md", "exec"), {})
    printed = capsys.readouterr().out
    shown = DOCUMENT.read_text().split("prints\n\n")[1].split("\n\n- ")[0]
    assert [line.strip() for line in shown.splitlines()] == printed.splitlines()
