"""Replays of servers whose noise is correlated: right ones hold, wrong ones fail."""

import functools

import numpy as np
import pytest

from fl_audit.checks import Promise, replay_round
from tests.checks.stream_servers import (
    CLIP,
    DENOMINATOR,
    NOISE,
    RIGHT,
    SHAPES,
    WRONG,
    server,
)


@functools.cache
def updates() -> list[list[np.ndarray]]:
    random = np.random.default_rng(8)
    return [[0.05 * random.normal(size=shape) * (i % 3 + 1) for shape in SHAPES] for i in range(8)]


def replayed(noise, correlation, *, seed=1, rounds_before=0, state=None, begun=None):
    promise = Promise(
        clip_norm=CLIP,
        denominator=DENOMINATOR,
        noise_multiplier=NOISE,
        correlation=correlation,
        rounds_before=rounds_before,
    )
    start = {"round": 0} if state is None else state
    return replay_round(server(noise), start, updates(), seed, promise, begun=begun)


def after(noise, rounds: int):
    """The state of a server after so many rounds."""
    state = {"round": 0}
    for index in range(rounds):
        state, _ = server(noise)(state, updates()[:2], np.random.default_rng([7, index]))
    return state


@pytest.mark.parametrize("rounds", [0, 5])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_one_holds(name, rounds):
    """Twelve replays of some 16 findings, each at 1e-6: 2e-4 by the bounds, seeds fixed."""
    noise, correlation = RIGHT[name]
    found = replayed(noise, correlation, rounds_before=rounds, state=after(noise, rounds))
    assert found.passed, found
    by_name = {finding.name: finding for finding in found.findings}
    assert by_name["noise_rounds"].is_conclusive
    assert "would have been detected" in by_name["noise_rounds"].measured
    assert set(found.inconclusive) <= {"not_finite"}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_fails(name):
    noise, correlation = WRONG[name]
    assert "noise_rounds" in replayed(noise, correlation).failed


def test_states_that_fix_noise_to_come():
    """Keys in the state, not the round's generator: two states begun with other keys tell."""
    noise, correlation = RIGHT["banded"]

    def keyed(state, random):
        del random
        kept, row = noise(state, np.random.default_rng([state["key"], state["round"]]))
        return {**kept, "key": state["key"]}, row

    state = {"round": 0, "key": 1}
    begun = ({"round": 0, "key": 2}, {"round": 0, "key": 3})
    found = replayed(keyed, correlation, state=state, begun=begun)
    assert found.passed, found
    assert "noise_rounds" in {finding.name for finding in found.findings}
    same = replayed(keyed, correlation, state=state, begun=(begun[0], begun[0]))
    assert same.failed == ("noise_rounds",)


def test_a_stream_that_the_state_does_not_keep():
    """It stands in the server, and goes on while the round is computed again."""
    past = []

    def outside(state, random):
        del state
        row = random.normal(size=sum(map(np.prod, SHAPES))) - sum(past[-1:])
        past.append(row)
        return {}, row

    assert replayed(outside, RIGHT["banded"][1]).failed == ("repeatable",)
