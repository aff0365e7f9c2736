"""Shuffled epochs: each real client in exactly one round per epoch."""

import functools

import numpy as np

from fl_audit.config import Shuffle
from fl_audit.participation.placement import once_per_epoch, place
from fl_audit.participation.schedule import (
    Draw,
    IndexArray,
    Roster,
    Schedule,
    Turns,
    check_cohort_size,
)
from fl_audit.seeds import Stream, generator


def shuffle_schedule(config: Shuffle, seed: int, roster: Roster) -> Schedule:
    """Andrew et al. section 5: each epoch deals a new permutation of the clients into rounds.

    Their sizes differ by at most one. The expected cohort is an epoch's mean.

    Raises:
      InputError: the cohort exceeds the population.
    """
    num_clients = roster.num_clients
    check_cohort_size(config.clients_per_round, num_clients)
    rounds_per_epoch = -(-num_clients // config.clients_per_round)
    expected_clients = num_clients / rounds_per_epoch
    return Schedule(
        num_rounds=config.rounds,
        client_turns=Turns(
            of=_dealt(num_clients, rounds_per_epoch, seed),
            expected=expected_clients,
            participations=-(-config.rounds // rounds_per_epoch),
        ),
        canary_turns=(
            once_per_epoch(roster.canaries, seed, config.rounds, rounds_per_epoch).turns
            if config.canaries == "once_per_epoch"
            else place(config, config.canaries, seed, roster, expected_clients)
        ),
    )


def _dealt(num_clients: int, rounds_per_epoch: int, seed: int) -> Draw:
    # Rounds are mostly asked for in order, and a large permutation takes 10 ms.
    @functools.lru_cache(maxsize=1)
    def deal(epoch: int) -> list[IndexArray]:
        order = generator(seed, Stream.CLIENT_ROUNDS, epoch).permutation(num_clients)
        return np.array_split(order, rounds_per_epoch)

    def draw(round_index: int) -> IndexArray:
        epoch, part = divmod(round_index, rounds_per_epoch)
        return deal(epoch)[part]

    return draw
