"""Groups that take turns, so that a client rests for some rounds after each participation."""

import numpy as np

from fl_audit.config import MinSeparation
from fl_audit.errors import InputError
from fl_audit.participation.presentations import Presentations
from fl_audit.participation.schedule import (
    Draw,
    IndexArray,
    Roster,
    Schedule,
    check_cohort_size,
)
from fl_audit.participation.urn import Urn, sample
from fl_audit.seeds import Stream, generator


def min_separation_schedule(config: MinSeparation, seed: int, roster: Roster) -> Schedule:
    """Each client only in every `separation`-th round, the rounds of its group.

    Raises:
      InputError: the groups are smaller than the cohort.
    """
    _check_room(config, roster.num_clients)
    is_shared = config.canaries == "like_clients"
    urn = _urn(config, roster if is_shared else roster.without_canaries)
    draw = _drawn_from_groups(urn, config.separation, seed)
    most = -(-config.rounds // config.separation)
    return Schedule(
        num_rounds=config.rounds,
        client_turns=urn.client_turns(draw, most),
        canary_turns=(
            urn.canary_turns(draw, most)
            if is_shared
            else _every_turn(roster.canaries, seed, config).turns
        ),
    )


def _check_room(config: MinSeparation, num_clients: int) -> None:
    check_cohort_size(config.clients_per_round, num_clients)
    largest = num_clients // config.clients_per_round
    if config.separation > largest:
        raise InputError(
            f"participation.separation: {config.separation} groups of {config.clients_per_round} "
            f"clients (participation.clients_per_round) are more than the {num_clients} real "
            f"clients; must be at most {largest}"
        )


def _urn(config: MinSeparation, roster: Roster) -> Urn:
    urn = Urn.of(roster, config.clients_per_round)
    # Where the groups are just large enough, rounding must not ask for one too many.
    return Urn(roster, min(urn.sample_size, urn.size // config.separation))


def _drawn_from_groups(urn: Urn, separation: int, seed: int) -> Draw:
    order = generator(seed, Stream.CLIENT_ROUNDS).permutation(urn.size)
    groups = np.array_split(order, separation)

    def draw(round_index: int) -> IndexArray:
        random = generator(seed, Stream.CLIENT_ROUNDS, round_index)
        return sample(random, groups[round_index % separation], urn.sample_size)

    return draw


def _every_turn(canaries: IndexArray, seed: int, config: MinSeparation) -> Presentations:
    """Each canary in all rounds of a group, which is drawn among those whose turn comes."""
    num_groups = min(config.separation, config.rounds)
    groups = generator(seed, Stream.CANARY_ROUNDS).integers(num_groups, size=len(canaries))
    rounds = [np.arange(group, config.rounds, config.separation) for group in groups]
    members = np.repeat(canaries, [len(of_canary) for of_canary in rounds])
    return Presentations(members, np.concatenate(rounds), config.rounds)
