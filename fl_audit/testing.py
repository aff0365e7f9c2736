"""Differential privacy in your own test suite: tests that a server's round keeps its promise.

A round as a function of state, updates and randomness, which clips to 1, adds Gaussian noise of
standard deviation 2, and divides by 50:

>>> import numpy as np
>>> def my_round(state, updates, random):
...     clipped = [u / max(1, np.linalg.norm(u)) for (u,) in updates]
...     return state, [(np.sum(clipped, 0) + random.normal(0, 2, 1000)) / 50]
>>> promise = Promise(clip_norm=1, denominator=50, noise_multiplier=2)
>>> def test_my_round_is_private():
...     assert_private(my_round, promise)
>>> test_my_round_is_private()

Half of the noise fails the test:

>>> def too_quiet(state, updates, random):
...     clipped = [u / max(1, np.linalg.norm(u)) for (u,) in updates]
...     return state, [(np.sum(clipped, 0) + random.normal(0, 1, 1000)) / 50]
>>> assert_private(too_quiet, promise)  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
Traceback (most recent call last):
...
AssertionError: the round does not keep its promise, in 1 of 10 questions
FAILED noise_length: expected that another seed gives noise of the expected norm in every variable;
measured: norm 0.5 × expected ...

The test is a replay (`checks.replay_round`, docs/replay.md): rounds are computed again with one
client or the seed changed. No TensorFlow is imported.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fl_audit.checks import Promise, Replay, Server, replay_round
from fl_audit.errors import InputError

__all__ = ["Promise", "assert_private"]

_CLIENTS = 20


def assert_private(
    round_function: Server,
    promise: Promise,
    *,
    shapes: Sequence[tuple[int, ...]] = ((1000,),),
    state: Any = None,
    seed: int = 0,
    **readers: Any,
) -> Replay:
    """Asserts that a round keeps a mechanism's promise, by a replay of the round.

    A correct round fails each random test with probability below 1e-6; with the same seed the
    outcome is always the same.

    Args:
      round_function: The server's round: a function of state, updates (a list of arrays for each
        client) and a `numpy.random.Generator`, its only randomness, that returns the new state and
        the noised aggregate, a list of arrays.
      promise: The mechanism's promise: clip norm, denominator and noise.
      shapes: The shapes of the model's variables, if the round does not take a vector of 1,000
        numbers.
      state: The state before the round.
      seed: The seed of the clients' updates and of the round's generator, at least 0.
      readers: Further arguments of `replay_round`, such as `clip_norm_of`.

    Returns:
      The replay; `inconclusive` names the questions without an answer.

    Raises:
      AssertionError: The round does not keep its promise; a line for each broken part.
      InputError: There is no shape, the release has another size than the updates, or a reader
        that the promise needs is missing.
    """
    if not shapes:
        raise InputError("shapes: must be the shapes of the model's variables, got none")
    random = np.random.default_rng(seed)
    updates = [[random.normal(size=shape) for shape in shapes] for _ in range(_CLIENTS)]
    replay = replay_round(round_function, state, updates, seed, promise, **readers)
    broken = [str(finding) for finding in replay.findings if finding.failed]
    if broken:
        questions = f"{len(broken)} of {len(replay.findings)} questions"
        start = f"the round does not keep its promise, in {questions}"
        raise AssertionError("\n".join([start, *broken]))
    return replay
