"""Replay of a round of a TFF learning process with canary clients (docs/replay.md).

The process is compiled to plain TensorFlow, whose random operations get a seed (`SeededRounds`).
Its clients are vectors, which an audited process takes as updates, so that nothing is trained.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from fl_audit.array_types import Float32Array
from fl_audit.checks.replay import Replay, replay_round
from fl_audit.checks.trial_rounds import Promise, flat
from fl_audit.training.algorithm.audited_process import released_aggregate
from fl_audit.training.algorithm.round import model_weights
from fl_audit.training.data.canary_clients import canary_client_data
from fl_audit.training.runtimes.local_runtime import SeededRounds

_MOST_CLIENTS = 32
"""The number of clients of a replayed round, where memory allows so many."""

_MOST_NUMBERS = 1 << 26
"""The number of numbers in all updates of a replayed round."""

ClientData = Callable[[Float32Array], Any]
"""A function that makes the data of a client whose update is a vector, as the model moves."""


def replay_process(
    process: tff.templates.IterativeProcess,
    promise: Promise,
    *,
    state: Any = None,
    seed: int = 1,
) -> Replay:
    """Replays a round of an audited process, see `replay_round`.

    Args:
      process: A process of `compose_audited_process` or of one of the `build_audited_…` functions,
        which the local runtime can run.
      promise: What its aggregator promises of a round.
      state: The state before the round; by default the initial one.
      seed: The seed of the updates and of the rounds.

    Raises:
      NotLocalError: The local runtime cannot run the process.
    """
    return replay_vectors(
        SeededRounds(process.next),
        process.initialize() if state is None else state,
        lambda vector: canary_client_data(process, vector),
        promise,
        seed,
    )


def replay_vectors(
    rounds: SeededRounds, state: Any, client_data: ClientData, promise: Promise, seed: int
) -> Replay:
    """Replays a round whose clients' data is made from vectors.

    Args:
      rounds: The rounds of a process whose metrics have the aggregate.
      state: The state before the round.
      client_data: The maker of a client's data.
      promise: What the process promises of a round.
      seed: The seed of the updates and of the rounds.
    """

    def server(state: Any, updates: Any, random: np.random.Generator) -> tuple[Any, Any]:
        data = [client_data(flat(update).astype(np.float32)) for update in updates]
        output = rounds.run(state, data, int(random.integers(1, 2**31)))
        return _Held(output.state), released_aggregate(output.metrics)

    return replay_round(
        lambda held, updates, random: server(held.state, updates, random),
        _Held(state),
        trial_updates([weights.shape for weights in model_weights(state)], promise, seed),
        seed,
        promise,
    )


class _Held:
    """A state of TFF, which nothing writes on and which need not be copied."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __deepcopy__(self, memo: Any) -> "_Held":
        return self


def trial_updates(
    shapes: Sequence[tuple[int, ...]], promise: Promise, seed: int
) -> list[list[Float32Array]]:
    """Updates with all variables equally long, in turn above and below the clip norm.

    Args:
      shapes: The shapes of the model's variables.
      promise: What the mechanism promises, for the clip norm.
      seed: The seed of the directions.
    """
    random = np.random.default_rng(seed)
    dim = sum(int(np.prod(shape)) for shape in shapes)
    count = max(2, min(_MOST_CLIENTS, _MOST_NUMBERS // max(1, dim)))
    norm = promise.clip_norm if np.isfinite(promise.clip_norm) else 1.0
    lengths = itertools.islice(itertools.cycle((3.0 * norm, 0.5 * norm)), count)
    return [
        [_part(random, shape, length / np.sqrt(len(shapes))) for shape in shapes]
        for length in lengths
    ]


def _part(random: np.random.Generator, shape: tuple[int, ...], length: float) -> Float32Array:
    part = random.standard_normal(shape)
    return np.asarray(part * (length / np.linalg.norm(part)), np.float32)
