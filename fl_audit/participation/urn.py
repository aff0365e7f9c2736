"""Draws without replacement from an urn that holds real clients and canaries.

The whole pool is in the urn: an excluded canary that is drawn sends nothing. So a canary's coin
decides only whether it sends its update, and does not change the rounds of anybody else.
"""

from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import IndexArray
from fl_audit.participation.possible_rounds import PossibleRounds
from fl_audit.participation.schedule import (
    Attendance,
    CanaryAttendance,
    Draw,
    Roster,
    included_among,
)


@dataclass(frozen=True, eq=False)
class Urn:
    """An urn of the real clients, numbered from 0, and the pool's canaries, numbered after them.

    Attributes:
      roster: The clients and canaries in the urn.
      sample_size: The number of them that a round draws.
    """

    roster: Roster
    sample_size: int

    @classmethod
    def of(cls, roster: Roster, clients_per_round: int) -> "Urn":
        """The urn whose draws hold about this many real clients on average.

        Without canaries it is exactly that many, else as near as a whole sample size allows.
        """
        canaries_per_round = clients_per_round * len(roster.included) / roster.num_clients
        return cls(roster, clients_per_round + round(canaries_per_round))

    @property
    def size(self) -> int:
        """The number of real clients and canaries in the urn."""
        return self.roster.num_clients + len(self.roster.included)

    def client_attendance(self, draw: Draw, possible_rounds: PossibleRounds) -> Attendance:
        """The real clients among those drawn.

        Args:
          draw: The function from a round to the numbers drawn from the urn.
          possible_rounds: The rounds that may draw the same client.
        """
        num_clients = self.roster.num_clients

        def of(round_index: int) -> IndexArray:
            drawn = draw(round_index)
            return drawn[drawn < num_clients]

        return Attendance(of, self.sample_size * num_clients / self.size, possible_rounds)

    def canary_attendance(self, draw: Draw, possible_rounds: PossibleRounds) -> CanaryAttendance:
        """The canaries among those drawn; arguments as for `client_attendance`."""
        num_clients, included = self.roster.num_clients, self.roster.included

        def dealt(round_index: int) -> IndexArray:
            drawn = draw(round_index)
            canaries: IndexArray = drawn[drawn >= num_clients] - num_clients
            return canaries

        expected = self.sample_size * int(included.sum()) / self.size
        attending = included_among(dealt, included)
        return CanaryAttendance(attending, expected, possible_rounds, dealt)


def sample(random: np.random.Generator, members: IndexArray | int, size: int) -> IndexArray:
    """A uniform sample without replacement of `members`, or of `range(members)`, ascending."""
    drawn: IndexArray = random.choice(members, size, replace=False, shuffle=False)
    drawn.sort()
    return drawn
