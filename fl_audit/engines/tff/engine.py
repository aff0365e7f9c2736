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
from fl_audit.engines.tff.replay import replay_of
from fl_audit.engines.tff.rounds import model_weights, run_round
from fl_audit.errors import InputError
from fl_audit.mechanisms import MECHANISMS
from fl_audit.tasks.tf.networks import as_classifier


class TffEngine(Engine):
    """A learning process and the means to run it.

    Attributes:
      process: The learning process.
      mechanism: The mechanism table of the config that the process was built from.
    """

    process: tff.templates.IterativeProcess
    mechanism: Mechanism

    first_round = "in the first round TensorFlow traces its graphs first, up to a minute"
    packages = ("tensorflow", "tensorflow-federated", "tensorflow-privacy")

    @abc.abstractmethod
    def participants(self, state: Any, data: Any) -> Iterable[Any]:
        """The participants of a round in the form that `process.next` takes.

        Args:
          state: The state of the process at the round's start.
          data: What the reader gave for the round.
        """

    def begin(self) -> Any:
        """The initial state of the process."""
        return self.process.initialize()

    def reader(self, run: PreparedRun) -> CohortReader:
        """The reader of all participants' data in this process."""
        return run.cohort_data.round_data

    def run_round(self, state: Any, data: Any, index: int) -> TrainedRound:
        """Runs a round of the process."""
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
        """A block in which a round fills in what its canaries upload, by canary; here nothing.

        Args:
          state: The state of the process at the round's start.
          data: What the reader gave for the round.
        """
        del state, data
        return contextlib.nullcontext({})

    def weights(self, state: Any) -> Weights:
        """The trainable weights in a state of the process."""
        return model_weights(state)

    def leaves(self, state: Any) -> list[Leaf]:
        """The parts of a state, in TensorFlow's order."""
        return list(tf.nest.flatten(state))

    def from_leaves(self, like: Any, leaves: Sequence[Leaf]) -> Any:
        """The state with these parts."""
        return tf.nest.pack_sequence_as(like, list(leaves))

    def evaluator(self, run: PreparedRun) -> Callable[[Weights], float]:
        """The accuracy on the held-out examples."""
        return Evaluator(as_classifier(run.task.classifier), run.task.held_out).accuracy

    def replay(self, run: PreparedRun) -> tuple[Finding, ...]:
        """Replays the first round in this process, see `fl_audit.engines.tff.replay`."""

        def begin() -> Any:
            with self.session():
                return self.begin()

        return replay_of(run, self.process, begin)

    def losses(self, run: PreparedRun) -> Callable[[Weights], FloatArray]:
        """The losses of canaries' examples, by their log-odds where labels have such."""
        losses = MeanLosses(as_classifier(run.task.classifier), run.canary_examples)
        return lambda weights: losses.evaluate(weights).attacked

    def client_updates(self, run: PreparedRun) -> ClientUpdates:
        """What clients would send, trained in blocks; see `Engine.client_updates`."""
        return BlockUpdates.from_run(run).updates


def refuse_uploads(run: PreparedRun, runtime: str) -> None:
    """Refuses a run whose attackers see single uploads, for a runtime that has sums alone.

    Args:
      run: The prepared run.
      runtime: The name of the runtime.

    Raises:
      InputError: They do.
    """
    if shows_uploads(run):
        raise InputError(
            f"runtime: {runtime!r} shows no single uploads, which threat model 'one_upload' sees; "
            "must be 'local' or 'jax'"
        )


def data_sets_of(run: PreparedRun) -> DataSets:
    """The maker of the participants of a run whose clients train one by one."""
    none = run.task.held_out.take(np.zeros(0, np.int64))
    return DataSets(run.config.client.batch_size, run.family, none)
