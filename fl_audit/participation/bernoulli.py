"""Poisson sampling: everybody flips a coin of their own in every round."""

import numpy as np

from fl_audit.config import Bernoulli
from fl_audit.participation.placement import place
from fl_audit.participation.schedule import (
    Draw,
    IndexArray,
    Roster,
    Schedule,
    Turns,
    check_cohort_size,
)
from fl_audit.seeds import Stream, generator


def bernoulli_schedule(config: Bernoulli, seed: int, roster: Roster) -> Schedule:
    """Each real client and each included canary with the same probability in every round.

    A round may be empty: then only noise is released.

    Raises:
      InputError: the cohort exceeds the population.
    """
    check_cohort_size(config.clients_per_round, roster.num_clients)
    probability = config.clients_per_round / roster.num_clients
    clients = np.arange(roster.num_clients)
    return Schedule(
        num_rounds=config.rounds,
        client_turns=_turns(clients, probability, seed, Stream.CLIENT_ROUNDS),
        canary_turns=(
            _turns(roster.canaries, probability, seed, Stream.CANARY_ROUNDS)
            if config.canaries == "like_clients"
            else place(config, config.canaries, seed, roster, config.clients_per_round)
        ),
        sampling_probability=probability,
    )


def _turns(members: IndexArray, probability: float, seed: int, stream: Stream) -> Turns:
    return Turns(_coins(members, probability, seed, stream), probability * len(members), None)


def _coins(members: IndexArray, probability: float, seed: int, stream: Stream) -> Draw:
    def draw(round_index: int) -> IndexArray:
        coins = generator(seed, stream, round_index).random(len(members))
        return members[coins < probability]

    return draw
