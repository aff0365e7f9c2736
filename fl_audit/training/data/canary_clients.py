"""Canaries in a user's own training loop: those of each round, and the data of all clients.

The pool and the scorer, which need no TensorFlow, are in `fl_audit.attacks`.
"""

import collections
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.array_types import IndexArray
from fl_audit.attacks import CanaryPool
from fl_audit.errors import InputError
from fl_audit.participation.placement import spread
from fl_audit.training.algorithm.audited_process import canary_dim
from fl_audit.training.algorithm.clip_state import norm_to_clip, read_clip
from fl_audit.training.data.small_data_set import small_data_set


class CanaryClients:
    """The included canaries of a pool as clients of an audited process.

    Each takes part in `repeats` rounds, drawn at random, one in each of that many equal parts of
    the run (Andrew et al. 2023, section 5.3). The rounds depend on the pool's seed alone, so that a
    loop that begins anew from a checkpoint meets the same canaries.
    """

    def __init__(
        self,
        process: tff.learning.templates.LearningProcess,
        pool: CanaryPool,
        num_rounds: int,
        *,
        norm: float | None = None,
        repeats: int = 1,
    ) -> None:
        """Draws the rounds of the canaries.

        Args:
          process: A process of `compose_audited_process`.
          pool: A pool of canaries whose `dim` is `canary_dim(process)`.
          num_rounds: The number of rounds of training.
          norm: The length of a canary's update before it is clipped; see `CanaryPool.vector`. By
            default it is read from the state in each round: what the aggregator just clips, and
            does not zero.
          repeats: The number of rounds of each canary, at least 1.

        Raises:
          InputError: The pool is of another dim, or a number is out of its range.
        """
        dim = canary_dim(process)
        if pool.dim != dim:
            raise InputError(f"pool: must have dim {dim} as the process's updates, got {pool.dim}")
        if not 1 <= repeats <= num_rounds:
            raise InputError(f"repeats: must be in 1 to num_rounds ({num_rounds}), got {repeats}")
        if norm is not None and not 0 < norm < math.inf:
            raise InputError(f"norm: must be positive and finite, got {norm}")
        self._process = process
        self._pool = pool
        self._norm = norm
        self._num_rounds = num_rounds
        presentations = spread(np.arange(pool.count), pool.seed, num_rounds, repeats)
        self._dealt = presentations.by_member(pool.count)
        self._attendance = presentations.of_canaries(pool.included)

    @property
    def rounds(self) -> list[list[int]]:
        """The rounds of each canary of the pool, included or not, from 1, for `RoundScorer`."""
        return self._dealt

    def in_round(self, round_number: int) -> IndexArray:
        """The ascending indices of the canaries of one round, which counts from 1."""
        if not 1 <= round_number <= self._num_rounds:
            raise InputError(
                f"round_number: must be in 1 to {self._num_rounds} (num_rounds), got {round_number}"
            )
        return self._attendance.of(round_number - 1)

    def norm(self, state: Any = None) -> float:
        """The length of a canary's update in the round that starts from a state.

        Args:
          state: The state of the process; needed where no norm was given.

        Raises:
          InputError: No norm was given, and there is no state, or no clip norm in it.
        """
        if self._norm is not None:
            return self._norm
        if state is None:
            raise InputError(
                "state: must be handed over, as join(round_number, clients, state), so that a "
                "canary is as long as the round's clip; or CanaryClients must be given a norm"
            )
        return norm_to_clip(state)

    def arriving_length(self, state: Any) -> float | None:
        """The length that a client may have in the aggregate of the round that starts from a state.

        It is clip norm over denominator, for `RoundScorer.score_round(canary_length=...)`, whatever
        the length of canaries: shorter ones show less than a client, and an audit is to say so.
        None where the aggregator's state does not show both.
        """
        clip = read_clip(state)
        if clip.norm is None or clip.denominator is None:
            return None
        return clip.norm / clip.denominator

    def join(self, round_number: int, clients: Iterable[Any], state: Any = None) -> list[Any]:
        """The data that `process.next` takes of a round: its real clients, then its canaries.

        Args:
          round_number: The number of the round, from 1.
          clients: The data of each real client, as the process without canaries would take it.
          state: The state of the process before the round; may be left out where a norm was given.

        Raises:
          InputError: No norm was given, and there is no state, or no clip norm in it.
        """
        norm = self.norm(state)
        vectors = (norm * self._pool.vector(int(c)) for c in self.in_round(round_number))
        return [
            *(real_client_data(self._process, examples) for examples in clients),
            *(canary_client_data(self._process, vector) for vector in vectors),
        ]


def real_client_data(process: tff.learning.templates.LearningProcess, examples: Any) -> Any:
    """A real client's data as an audited process takes it.

    Args:
      process: A process of `compose_audited_process`.
      examples: The client's data, as the process without canaries would take it.
    """
    no_vector = np.zeros((0, canary_dim(process)), np.float32)
    return _client_data(no_vector, examples)


def canary_client_data(
    process: tff.learning.templates.LearningProcess, vector: npt.NDArray[np.float32]
) -> Any:
    """A canary's data as an audited process takes it: no examples, and its vector.

    Args:
      process: A process of `compose_audited_process`.
      vector: The vector that the model should move along, of shape (dim,), at its full length.
    """
    examples_type = process.next.type_signature.parameter[1].member["examples"]
    return _client_data(np.asarray(vector, np.float32)[None], _no_examples(examples_type))


def _client_data(vectors: npt.NDArray[np.float32], examples: Any) -> Any:
    return collections.OrderedDict(canary=small_data_set(vectors), examples=examples)


def _no_examples(kind: tff.Type) -> Any:
    """An empty data set for each sequence of a type."""
    if isinstance(kind, tff.SequenceType):
        nothing = tf.nest.map_structure(_nothing, tff.types.type_to_tf_tensor_specs(kind.element))
        return tf.data.Dataset.from_tensors(nothing).take(0)
    empty = [(name, _no_examples(part)) for name, part in tff.structure.iter_elements(kind)]
    return tff.types.type_to_py_container(tff.structure.Struct(empty), kind)


def _nothing(spec: tf.TensorSpec) -> tf.Tensor:
    shape = [extent or 0 for extent in spec.shape]
    return tf.constant("", shape=shape) if spec.dtype == tf.string else tf.zeros(shape, spec.dtype)
