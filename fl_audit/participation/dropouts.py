"""Clients that are sampled and do not report, and the report goal of a round.

A round of production samples more clients than it needs, and ends with the goal of reports: who is
late, offline or interrupted is left out. Accounting counts on none of that: a client is in the
rounds that it is sampled for, at most. Where clients add the noise, the shares of those that drop
out are missing in it, and the smallest round counts.
"""

import dataclasses
import functools
from typing import Annotated

import numpy as np
from msgspec import Meta

from fl_audit.accounting.sampling import FixedRounds, OneRoundPerBlock
from fl_audit.accounting.sampling_accountants import accountant_of
from fl_audit.array_types import IndexArray
from fl_audit.config_tables.kinds import PositiveInt, Table
from fl_audit.errors import InputError
from fl_audit.number_words import count
from fl_audit.participation.schedule import Roster, Schedule, included_among
from fl_audit.seeds import Stream, generator


class Dropouts(Table, frozen=True, kw_only=True):
    """Sampled clients and canaries that send nothing, by independent coins.

    Attributes:
      share: Probability that a sampled member drops out.
      report_goal: Most reports of a round, which noise and denominator are for; excluded canaries
        count.
    """

    share: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    report_goal: PositiveInt | None = None

    @property
    def words(self) -> str:
        """A sentence for the report."""
        parts = [f"of those sampled {100 * self.share:.3g} % drop out"] * (self.share > 0)
        if self.report_goal is not None:
            parts.append(f"a round uses {count(self.report_goal, 'report')} at most")
        sentence = ", and ".join(parts)
        return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def with_dropouts(schedule: Schedule, dropouts: Dropouts, seed: int, roster: Roster) -> Schedule:
    """The schedule of those that report.

    Raises:
      InputError: Accounting counts on how the pattern samples, or the log of a pattern says who
        reported.
    """
    parties = (schedule.client_attendance, schedule.canary_attendance)
    for attendance in parties:
        is_known = isinstance(attendance.sampling, FixedRounds)
        if not is_known or accountant_of(attendance.sampling) is not None:
            raise InputError(
                "dropouts: goes with patterns whose rounds an attacker may know, such as shuffle "
                "and min_separation; where accounting counts on sampling, a client that reports "
                "less often is one of a smaller participation.clients_per_round"
            )
    num_clients, size = roster.num_clients, roster.num_clients + len(roster.included)

    @functools.lru_cache(maxsize=2)
    def reporting(round_index: int) -> tuple[IndexArray, IndexArray]:
        """The clients that report in a round, and the canaries of the pool that would."""
        clients, canaries = schedule.clients(round_index), schedule.sampled_canaries(round_index)
        members = np.concatenate([clients, num_clients + canaries])
        coins = generator(seed, Stream.DROPOUTS, round_index).random(size)[members]
        came, coins = members[coins >= dropouts.share], coins[coins >= dropouts.share]
        kept = np.sort(came[np.argsort(coins)[: dropouts.report_goal]])
        return kept[kept < num_clients], kept[kept >= num_clients] - num_clients

    def sampled(round_index: int) -> IndexArray:
        return reporting(round_index)[1]

    clients, canaries = parties
    of_pool = canaries.expected * len(roster.included) / max(int(roster.included.sum()), 1)
    come = 1 - dropouts.share
    if dropouts.report_goal is not None:
        come = min(come, dropouts.report_goal / (clients.expected + of_pool))
    most = canaries.sampling.most or 0
    # One round of each block, exactly, would give a lower bound; here there may be none.
    is_drawn = isinstance(canaries.sampling, OneRoundPerBlock)
    return dataclasses.replace(
        schedule,
        client_attendance=dataclasses.replace(
            clients,
            members_in=lambda round_index: reporting(round_index)[0],
            expected=come * clients.expected,
        ),
        canary_attendance=dataclasses.replace(
            canaries,
            members_in=included_among(sampled, roster.included),
            sampled=sampled,
            expected=come * canaries.expected,
            sampling=FixedRounds(most) if is_drawn else canaries.sampling,
        ),
    )
