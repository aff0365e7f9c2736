"""Replay of a round of a TFF process with canary clients (docs/replay.md).

The process is compiled to plain TensorFlow, and its random operations get a seed (`SeededRounds`).
Its clients are canaries, whose vectors serve as updates, so nothing is trained. A run replays its
first round this way before it trains.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow_federated as tff

from fl_audit.array_types import Float32Array
from fl_audit.checks import Check, Promise, Replay, replay_round
from fl_audit.checks.replay.clip import ClipNormOf, ZeroingNormOf
from fl_audit.checks.replay.trial_rounds import flat
from fl_audit.engines.engine import not_replayed, promise_of, trial_updates
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.canary_clients import canary_client_data
from fl_audit.engines.tff.canary_process import model_weights, released_aggregate
from fl_audit.engines.tff.compiled import NotCompilableError, SeededRounds
from fl_audit.engines.tff.trained_blocks import canary_result
from fl_audit.mechanisms import MECHANISMS, clip_and_noise
from fl_audit.mechanisms.zeroing import zeroing_norm

ClientData = Callable[[Float32Array], Any]
"""Converts a vector, an update in the direction the model moves, to a client's data."""


def replay_process(
    process: tff.templates.IterativeProcess,
    promise: Promise,
    *,
    state: Any = None,
    seed: int = 1,
    clip_norm_of: ClipNormOf | None = None,
    zeroing_norm_of: ZeroingNormOf | None = None,
) -> Replay:
    """Replays a round of an audited process, as `replay_round` does.

    The correlation of noise is measured from the initial state on, whatever `state` is.

    Args:
      process: A process of `compose_audited_process` or of a `build_audited_…` function; the local
        runtime has to be able to run it.
      promise: The expected behaviour of the process's aggregator in a round.
      state: The state before the round; by default the initial state.
      seed: The seed of the updates and of the rounds.
      clip_norm_of: Reads a state's clip norm, for a promise with an `adaptive_clip`.
      zeroing_norm_of: Reads a state's zeroing norm, for a promise with `adaptive_zeroing`.

    Raises:
      NotCompilableError: The local runtime cannot run the process.
    """
    return replay_vectors(
        SeededRounds(process.next),
        process.initialize() if state is None else state,
        lambda vector: canary_client_data(process, vector),
        promise,
        seed,
        begin=process.initialize,
        clip_norm_of=clip_norm_of,
        zeroing_norm_of=zeroing_norm_of,
    )


def replay_vectors(
    rounds: SeededRounds,
    state: Any,
    client_data: ClientData,
    promise: Promise,
    seed: int,
    *,
    begin: Callable[[], Any],
    clip_norm_of: ClipNormOf | None = None,
    zeroing_norm_of: ZeroingNormOf | None = None,
) -> Replay:
    """Replays a round whose updates are vectors; `begin` returns an initial state."""

    def server(held: _Held, updates: Any, random: np.random.Generator) -> tuple[Any, Any]:
        data = [client_data(flat(update).astype(np.float32)) for update in updates]
        output = rounds.run(held.state, data, int(random.integers(1, 2**31)))
        return _Held(output.state), released_aggregate(output.metrics)

    return replay_round(
        server,
        _Held(state),
        trial_updates([weights.shape for weights in model_weights(state)], promise, seed),
        seed,
        promise,
        # A state fixes correlated noise, so two states are needed.
        begun=None if promise.correlation is None else (_Held(begin()), _Held(begin())),
        clip_norm_of=None if clip_norm_of is None else lambda held: clip_norm_of(held.state),
        zeroing_norm_of=None
        if zeroing_norm_of is None
        else lambda held: zeroing_norm_of(held.state),
    )


class _Held:
    """A state of TFF, which is never modified and so need not be copied."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __deepcopy__(self, memo: Any) -> "_Held":
        return self


# Replay of a run's first round.


def replay_of(
    run: PreparedRun, process: tff.templates.IterativeProcess, begin: Callable[[], Any]
) -> tuple[Check, ...]:
    """Replays the first round of a run; if it cannot be replayed, a finding says why."""
    mechanism = run.config.mechanism
    why_not = MECHANISMS.kind_of(mechanism).why_not_replayed
    if why_not is not None:
        return (not_replayed(why_not),)
    try:
        rounds = SeededRounds(process.next)
    except NotCompilableError as error:
        return (not_replayed(str(error)),)

    def clip_norm_of(state: Any) -> float:
        return clip_and_noise(mechanism, state.aggregator).clip_norm

    def zeroing_norm_of(state: Any) -> float:
        zeroing = mechanism.zeroing
        return np.inf if zeroing is None else zeroing_norm(zeroing, state.aggregator)

    state = begin()
    return replay_vectors(
        rounds,
        state,
        lambda vector: _client_data(process, state, vector),
        promise_of(run, clip_norm_of(state), zeroing_norm_of(state)),
        run.config.seed,
        begin=begin,
        clip_norm_of=clip_norm_of,
        zeroing_norm_of=zeroing_norm_of,
    ).findings


def _client_data(process: tff.templates.IterativeProcess, state: Any, vector: Float32Array) -> Any:
    """A client's data, for a process that trains clients, or for a process over results."""
    data_type = process.next.type_signature.parameter[1].member
    if "canary" in dir(data_type):
        return canary_client_data(process, vector)
    return canary_result(vector, model_weights(state))
