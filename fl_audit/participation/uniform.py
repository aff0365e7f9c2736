"""Cohorts of fixed size: every round draws a new uniform sample without replacement."""

from typing import Literal

from fl_audit.array_types import IndexArray
from fl_audit.formats.folders import RunRecord
from fl_audit.participation.pattern import ParticipationPattern
from fl_audit.participation.placement import (
    DrawnParticipation,
    check_placement,
    place,
    placement_words,
)
from fl_audit.participation.possible_rounds import Sampled
from fl_audit.participation.schedule import Roster, Schedule, check_cohort_size
from fl_audit.participation.urn import Urn, sample
from fl_audit.seeds import Stream, generator


class Uniform(DrawnParticipation, frozen=True, kw_only=True, tag_field="kind", tag="uniform"):
    """A cohort of fixed size in each round, drawn uniformly without replacement.

    Attributes:
      clients_per_round: The size of the real cohort; with `like_clients` its expected size, because
        the draw is from real clients and canaries together.
      canaries: How canaries take part: `like_clients`, drawn from the same urn, of which every
        round takes the same number, where an excluded canary that is drawn sends nothing;
        `repeats`, each included canary `canary_repeats` times in the run; `last_rounds`, a Poisson
        number of times at the end.
    """

    canaries: Literal["like_clients", "repeats", "last_rounds"] = "like_clients"


def uniform_schedule(config: Uniform, seed: int, roster: Roster) -> Schedule:
    """Schedules samples of the same size from the urn, or from real clients if canaries are placed.

    Raises:
      InputError: The cohort exceeds the population, or keys about canaries contradict each other.
    """
    check_placement(config, config.canaries)
    check_cohort_size(config.clients_per_round, roster.num_clients)
    is_shared = config.canaries == "like_clients"
    urn = Urn.of(roster if is_shared else roster.without_canaries, config.clients_per_round)

    def draw(round_index: int) -> IndexArray:
        random = generator(seed, Stream.CLIENT_ROUNDS, round_index)
        return sample(random, urn.size, urn.sample_size)

    return Schedule(
        num_rounds=config.rounds,
        client_attendance=urn.client_attendance(draw, Sampled()),
        canary_attendance=(
            urn.canary_attendance(draw, Sampled())
            if config.canaries == "like_clients"
            else place(config, config.canaries, seed, roster, config.clients_per_round)
        ),
        sample_size=urn.sample_size,
        sampled_from=urn.size,
    )


def _client_rounds(record: RunRecord, config: Uniform) -> str:
    del config  # the record has the facts
    drawn = f"{record.sample_size or 0:,} of {record.sampled_from or 0:,}"
    if record.sampled_from == record.num_clients:
        return f"Each round draws {drawn} clients, uniformly without replacement."
    return (
        f"Each round draws {drawn} clients and canaries, uniformly without replacement; "
        "an excluded canary that is drawn sends nothing."
    )


def _canary_rounds(config: Uniform) -> str:
    return placement_words(config, config.canaries)


UNIFORM = ParticipationPattern(
    table=Uniform,
    schedule=uniform_schedule,
    client_rounds=_client_rounds,
    canary_rounds=_canary_rounds,
    names_clients=False,
)
