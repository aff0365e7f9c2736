"""A schedule that draws with replacement but is accounted for as one without."""

import dataclasses

from fl_audit.array_types import IntArray
from fl_audit.config import Uniform
from fl_audit.engines.prepare import PreparedRun
from fl_audit.participation import Schedule
from fl_audit.participation.patterns import Urn
from fl_audit.participation.schedule import Roster
from fl_audit.seeds import Stream, generator


def with_replacement(run: PreparedRun) -> Schedule:
    """The schedule of a `uniform` run, changed so that a round may draw a client several times.

    A client that is drawn twice sends its update twice. What the schedule states of itself, such as
    its probabilities, is unchanged.

    Args:
      run: The run.
    """
    config = run.config.participation
    assert isinstance(config, Uniform)
    roster = Roster(run.task.population.client_ids, run.included)
    urn = Urn.from_roster(roster, config.clients_per_round)

    def draw(round_index: int) -> IntArray:
        random = generator(run.config.seed, Stream.CLIENT_ROUNDS, round_index)
        drawn: IntArray = random.integers(urn.size, size=urn.sample_size)
        drawn.sort()
        return drawn

    return dataclasses.replace(
        run.schedule,
        client_attendance=urn.client_attendance(draw, run.schedule.client_attendance.sampling),
        canary_attendance=urn.canary_attendance(draw, run.schedule.canary_attendance.sampling),
    )
