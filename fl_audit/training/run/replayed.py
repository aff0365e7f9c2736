"""The replay of a run's first round, a check of the mechanism before anything is trained."""

import collections
import sys
from typing import Any

import numpy as np

from fl_audit.accounting.noise_laws import SKELLAM
from fl_audit.array_types import Float32Array
from fl_audit.checks import Finding, Promise, why_not_checked, write_replay
from fl_audit.checks.trial_rounds import untold
from fl_audit.formats.folders import RunFolder
from fl_audit.mechanisms import MECHANISMS, clip_and_noise
from fl_audit.mechanisms.zeroing import zeroing_norm
from fl_audit.training.algorithm.round import model_weights
from fl_audit.training.data.canary_clients import canary_client_data
from fl_audit.training.replay import replay_vectors
from fl_audit.training.run.prepare import PreparedRun
from fl_audit.training.runtimes.local_runtime import NotLocalError, SeededRounds
from fl_audit.training.runtimes.runtime import Runtime
from fl_audit.training.runtimes.trained_blocks import as_leaves


def replay_first_round(run: PreparedRun, runtime: Runtime, folder: RunFolder) -> None:
    """Replays the first round where the config asks for it, and writes what was found.

    What fails is printed on standard error and in the report; the run goes on.

    Args:
      run: The prepared run.
      runtime: The runtime of the run, whose process is replayed in this Python process.
      folder: The folder of the run; what an earlier session found there is kept.
    """
    if not run.config.audit.replay or folder.replay.exists():
        return
    findings = replay_of(run, runtime)
    write_replay(folder.replay, findings)
    wrong = [finding for finding in findings if not finding.passed]
    for finding in wrong:
        sys.stderr.write(f"replay of round 1: {finding}\n")
    if not wrong and sys.stderr.isatty():
        told = [finding for finding in findings if finding.told]
        sys.stderr.write(f"replay of round 1: {len(told)} of {len(findings)} questions: held\n")


def replay_of(run: PreparedRun, runtime: Runtime) -> tuple[Finding, ...]:
    """Replays the first round; what cannot be replayed is a finding that says why."""
    if MECHANISMS.of(run.config.mechanism).noise_law is SKELLAM:
        return (_not_replayed("clients take the seed of their noise from the clock"),)
    try:
        rounds = SeededRounds(runtime.process.next)
    except NotLocalError as error:
        return (_not_replayed(str(error)),)
    with runtime.session():
        state = runtime.process.initialize()
    return replay_vectors(
        rounds,
        state,
        lambda vector: _client_data(runtime, state, vector),
        promise_of(run, state),
        run.config.seed,
    ).findings


def _not_replayed(why: str) -> Finding:
    words = "the same round with the same seed releases the same"
    return untold("repeatable", words, f"not replayed: {why}")


def promise_of(run: PreparedRun, state: Any) -> Promise:
    """What a run's config promises of the round that starts from a state."""
    mechanism = run.config.mechanism
    is_fresh_gaussian = why_not_checked(mechanism) is None
    zeroing = mechanism.zeroing
    return Promise(
        clip_norm=clip_and_noise(mechanism, state.aggregator).clip_norm,
        denominator=run.schedule.expected_cohort,
        noise_multiplier=run.noise.sum_noise_multiplier if is_fresh_gaussian else None,
        zeroing_norm=np.inf if zeroing is None else zeroing_norm(zeroing, state.aggregator),
    )


def _client_data(runtime: Runtime, state: Any, vector: Float32Array) -> Any:
    """A client's data for a process that trains clients, or for one over their results."""
    data_type = runtime.process.next.type_signature.parameter[1].member
    if "canary" in dir(data_type):
        return canary_client_data(runtime.process, vector)
    shapes = [weights.shape for weights in model_weights(state)]
    update = tuple(as_leaves(-vector, shapes))
    metrics = collections.OrderedDict(loss=(np.float32(0), np.float32(0)))
    return collections.OrderedDict(update=update, metrics=metrics)
