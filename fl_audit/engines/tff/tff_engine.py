"""The engine on TensorFlow Federated: a learning process, and a runtime that runs it."""

import abc
import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.attacker import SeenRound
from fl_audit.checks import Finding
from fl_audit.config import Mechanism
from fl_audit.engines.engine import (
    ClientUpdates,
    CohortReader,
    Engine,
    Leaf,
    TrainedRound,
    Weights,
    as_vector,
    shows_uploads,
)
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.data_sets import DataSets
from fl_audit.engines.tff.measures import BlockUpdates, Evaluator, MeanLosses
from fl_audit.engines.tff.replayed_process import replay_of
from fl_audit.engines.tff.rounds import model_weights, run_round
from fl_audit.errors import InputError
from fl_audit.mechanisms import MECHANISMS
from fl_audit.tasks.tf.networks import as_classifier


class TffEngine(Engine):
    """A learning process of a mechanism's table, and a runtime that runs it."""

    process: tff.templates.IterativeProcess
    mechanism: Mechanism

    first_round = "in the first round TensorFlow traces its graphs first, up to a minute"
    packages = ("tensorflow", "tensorflow-federated", "tensorflow-privacy")

    @abc.abstractmethod
    def participants(self, state: Any, data: Any) -> Iterable[Any]:
        """The participants in the form that `process.next` takes, from the reader's data."""

    def begin(self) -> Any:
        return self.process.initialize()

    def reader(self, run: PreparedRun) -> CohortReader:
        return run.cohort_data.round_data

    def run_round(self, state: Any, data: Any, index: int) -> TrainedRound:
        participants = self.participants(state, data)
        with self.seen_uploads(state, data) as uploads:
            result = run_round(self.process, self.mechanism, state, participants)
        seen = SeenRound(
            index=index,
            before=as_vector(model_weights(state)),
            aggregate=result.aggregate,
            after=as_vector(model_weights(result.state)),
            clip_norm=result.clip_norm,
            uploads=uploads,
        )
        stddev = result.noise_stddev
        if MECHANISMS.kind_of(self.mechanism).noise_distribution.is_per_upload:
            stddev *= math.sqrt(len(data.clients) + len(data.canaries))
        return TrainedRound(result.state, seen, stddev, result.train_loss)

    def seen_uploads(
        self, state: Any, data: Any
    ) -> contextlib.AbstractContextManager[Mapping[int, Float32Array]]:
        """A block in which a round records its canaries' uploads, by canary; here none."""
        return contextlib.nullcontext({})

    def weights(self, state: Any) -> Weights:
        return model_weights(state)

    def leaves(self, state: Any) -> list[Leaf]:
        """The parts of a state, in TensorFlow's order."""
        return list(tf.nest.flatten(state))

    def from_leaves(self, like: Any, leaves: Sequence[Leaf]) -> Any:
        return tf.nest.pack_sequence_as(like, list(leaves))

    def evaluator(self, run: PreparedRun) -> Callable[[Weights], float]:
        return Evaluator(as_classifier(run.task.classifier), run.task.held_out).accuracy

    def replay(self, run: PreparedRun) -> tuple[Finding, ...]:
        """Replays the first round in this process (`fl_audit.engines.tff.replayed_process`)."""

        def begin() -> Any:
            with self.session():
                return self.begin()

        return replay_of(run, self.process, begin)

    def losses(self, run: PreparedRun) -> Callable[[Weights], FloatArray]:
        losses = MeanLosses(as_classifier(run.task.classifier), run.canary_examples)
        return lambda weights: losses.evaluate(weights).attacked

    def client_updates(self, run: PreparedRun) -> ClientUpdates:
        return BlockUpdates.from_run(run).updates


def refuse_uploads(run: PreparedRun, runtime: str) -> None:
    """Raises an `InputError` if a threat model sees single uploads, which the runtime hides."""
    if shows_uploads(run):
        raise InputError(
            f"runtime: {runtime!r} shows no single uploads, which threat model 'one_upload' sees; "
            "must be 'local' or 'jax'"
        )


def data_sets_of(run: PreparedRun) -> DataSets:
    """The maker of a run's participants, for clients that train one by one."""
    none = run.task.held_out.take(np.zeros(0, np.int64))
    return DataSets(run.config.client.batch_size, run.family, none)
