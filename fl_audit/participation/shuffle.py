"""Shuffled epochs: each real client in exactly one round per epoch."""

import numpy as np

from fl_audit.config import Shuffle
from fl_audit.errors import InputError
from fl_audit.participation.schedule import (
    IndexArray,
    Schedule,
    check_cohort_size,
)
from fl_audit.seeds import Stream, generator


class ShuffleSchedule(Schedule):
    """Andrew et al. section 5: clients in one round per epoch, canaries once per part of the run.

    Each epoch deals a new permutation of the clients into rounds whose sizes differ by at most
    one. Section 5.3: the rounds are divided into `canary_repeats` equal parts, and each included
    canary appears at one round of each, drawn at random. The expected cohort is an epoch's mean.
    """

    def __init__(self, config: Shuffle, seed: int, num_clients: int, canaries: IndexArray) -> None:
        """Draws the canaries' rounds.

        Args:
          config: rounds, cohort and repeats.
          seed: of the run.
          num_clients: real clients in the population.
          canaries: indices of the included canaries.

        Raises:
          InputError: the cohort exceeds the population, or there are more repeats than rounds.
        """
        check_cohort_size(config.clients_per_round, num_clients)
        if config.canary_repeats > config.rounds:
            raise InputError(
                f"participation.canary_repeats: {config.canary_repeats} presentations of a canary "
                f"do not fit into {config.rounds} rounds; must be at most {config.rounds}"
            )
        self._seed = seed
        self._num_clients = num_clients
        self._canaries = canaries
        self._rounds_per_epoch = -(-num_clients // config.clients_per_round)
        self.num_rounds = config.rounds
        self.expected_clients = num_clients / self._rounds_per_epoch
        self.expected_canaries = len(canaries) * config.canary_repeats / config.rounds
        self.client_participations = -(-config.rounds // self._rounds_per_epoch)
        self.canary_participations = config.canary_repeats
        self.sampling_probability = None
        self._canary_rounds = self._draw_canary_rounds(config.canary_repeats)

    def clients(self, round_index: int) -> IndexArray:
        """Indices of the real clients of one round."""
        epoch, part = divmod(round_index, self._rounds_per_epoch)
        order = generator(self._seed, Stream.CLIENT_ROUNDS, epoch).permutation(self._num_clients)
        clients: IndexArray = np.array_split(order, self._rounds_per_epoch)[part]
        return clients

    def canaries(self, round_index: int) -> IndexArray:
        """Indices of the canaries of one round."""
        is_present = np.any(self._canary_rounds == round_index, axis=1)
        return np.asarray(self._canaries[is_present])

    def _draw_canary_rounds(self, repeats: int) -> IndexArray:
        """Rounds of shape (included canaries, repeats)."""
        random = generator(self._seed, Stream.CANARY_ROUNDS)
        parts = np.array_split(np.arange(self.num_rounds), repeats)
        drawn = [random.integers(part[0], part[-1] + 1, len(self._canaries)) for part in parts]
        return np.stack(drawn, axis=1)
