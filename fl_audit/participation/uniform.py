"""Fixed-size cohorts: a new uniform sample without replacement in every round."""

from fl_audit.config import Uniform
from fl_audit.participation.placement import place
from fl_audit.participation.schedule import IndexArray, Roster, Schedule, check_cohort_size
from fl_audit.participation.urn import Urn, sample
from fl_audit.seeds import Stream, generator


def uniform_schedule(config: Uniform, seed: int, roster: Roster) -> Schedule:
    """The same number from one urn in every round, or of real clients where canaries are placed.

    Raises:
      InputError: the cohort exceeds the population.
    """
    check_cohort_size(config.clients_per_round, roster.num_clients)
    is_shared = config.canaries == "like_clients"
    urn = Urn.of(roster if is_shared else roster.without_canaries, config.clients_per_round)

    def draw(round_index: int) -> IndexArray:
        random = generator(seed, Stream.CLIENT_ROUNDS, round_index)
        return sample(random, urn.size, urn.sample_size)

    return Schedule(
        num_rounds=config.rounds,
        client_turns=urn.client_turns(draw, None),
        canary_turns=(
            urn.canary_turns(draw, None)
            if config.canaries == "like_clients"
            else place(config, config.canaries, seed, roster, config.clients_per_round)
        ),
        sample_size=urn.sample_size,
        sampled_from=urn.size,
    )
