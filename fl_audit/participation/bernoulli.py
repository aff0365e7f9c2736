"""Poisson sampling: everybody flips a coin of their own in every round."""

import numpy as np
import numpy.typing as npt

from fl_audit.config import Bernoulli
from fl_audit.participation.schedule import (
    IndexArray,
    Schedule,
    check_cohort_size,
)
from fl_audit.seeds import Stream, generator


class BernoulliSchedule(Schedule):
    """Each real client and each included canary with the same probability in every round.

    A round may be empty: then only noise is released.
    """

    def __init__(
        self, config: Bernoulli, seed: int, num_clients: int, canaries: IndexArray
    ) -> None:
        """Sets the coin.

        Args:
          config: rounds and expected cohort.
          seed: of the run.
          num_clients: real clients in the population.
          canaries: indices of the included canaries.

        Raises:
          InputError: the cohort exceeds the population.
        """
        check_cohort_size(config.clients_per_round, num_clients)
        probability = config.clients_per_round / num_clients
        self._seed = seed
        self._num_clients = num_clients
        self._canaries = canaries
        self._probability = probability
        self.num_rounds = config.rounds
        self.expected_clients = float(config.clients_per_round)
        self.expected_canaries = probability * len(canaries)
        self.client_participations = None
        self.canary_participations = None
        self.sampling_probability = probability

    def clients(self, round_index: int) -> IndexArray:
        """Indices of the real clients of one round."""
        return np.flatnonzero(self._coins(Stream.CLIENT_ROUNDS, round_index, self._num_clients))

    def canaries(self, round_index: int) -> IndexArray:
        """Indices of the canaries of one round."""
        coins = self._coins(Stream.CANARY_ROUNDS, round_index, len(self._canaries))
        return self._canaries[coins]

    def _coins(self, stream: Stream, round_index: int, count: int) -> npt.NDArray[np.bool_]:
        return generator(self._seed, stream, round_index).random(count) < self._probability
