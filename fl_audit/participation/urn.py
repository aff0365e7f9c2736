"""Draws without replacement from an urn that holds real clients and canaries alike.

The whole pool is in the urn: an excluded canary that is drawn sends nothing. So a canary's coin
decides on nothing but whether it sends its update, and leaves everybody else's rounds as they are.
"""

from dataclasses import dataclass

import numpy as np

from fl_audit.participation.schedule import Draw, IndexArray, Roster, Turns


@dataclass(frozen=True, eq=False)
class Urn:
    """Real clients, numbered from 0, and the pool's canaries behind them.

    Attributes:
      roster: who is in it.
      sample_size: how many of them a round draws.
    """

    roster: Roster
    sample_size: int

    @classmethod
    def of(cls, roster: Roster, clients_per_round: int) -> "Urn":
        """An urn whose draws hold about this many real clients on average.

        Exactly that many where there are no canaries; else as near as a whole sample size allows.
        """
        canaries_per_round = clients_per_round * len(roster.included) / roster.num_clients
        return cls(roster, clients_per_round + round(canaries_per_round))

    @property
    def size(self) -> int:
        """Real clients and canaries in the urn."""
        return self.roster.num_clients + len(self.roster.included)

    def client_turns(self, draw: Draw, participations: int | None) -> Turns:
        """The real clients among those drawn.

        Args:
          draw: numbers in the urn by round.
          participations: rounds that draw the same one at most; None where that is random.
        """
        num_clients = self.roster.num_clients

        def of(round_index: int) -> IndexArray:
            drawn = draw(round_index)
            return drawn[drawn < num_clients]

        return Turns(of, self.sample_size * num_clients / self.size, participations)

    def canary_turns(self, draw: Draw, participations: int | None) -> Turns:
        """The included canaries among those drawn; arguments as for `client_turns`."""
        num_clients, included = self.roster.num_clients, self.roster.included

        def of(round_index: int) -> IndexArray:
            drawn = draw(round_index)
            pool = drawn[drawn >= num_clients] - num_clients
            canaries: IndexArray = pool[included[pool]]
            return canaries

        return Turns(of, self.sample_size * int(included.sum()) / self.size, participations)


def sample(random: np.random.Generator, members: IndexArray | int, size: int) -> IndexArray:
    """A uniform sample without replacement, ascending; of numbers below `members` if it is one."""
    drawn: IndexArray = random.choice(members, size, replace=False, shuffle=False)
    drawn.sort()
    return drawn
