"""Sampled clients that do not report, and the report goal of a round.

In production a round samples more clients than it needs and ends when its goal of reports is
reached. Clients that are late, interrupted, or outside the hours in which their device is idle and
charged are left out. Accounting counts the rounds in which a client reports. If clients add the
noise, a client that drops out adds none, so the bound is for the round with the fewest reports.
"""

import dataclasses
import functools
from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fl_audit.accounting.sampling import FixedRounds
from fl_audit.array_types import FloatArray, IntArray
from fl_audit.config_tables.kinds import PositiveInt, Table
from fl_audit.errors import InputError
from fl_audit.number_words import count
from fl_audit.participation.schedule import (
    Roster,
    Schedule,
    included_among,
    most_rounds_of_a_member,
)
from fl_audit.seeds import Stream, generator


class Dropouts(Table, frozen=True, kw_only=True):
    """Sampled clients and canaries that send nothing.

    Attributes:
      share: Probability that a sampled member drops out.
      available_share: Share of a day in which a device is available.
      rounds_per_day: Number of rounds in a day.
      report_goal: Largest number of reports in a round, with those of excluded canaries; it
        determines noise and denominator.
    """

    share: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    available_share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    rounds_per_day: PositiveInt | None = None
    report_goal: PositiveInt | None = None

    def __post_init__(self) -> None:
        if self.available_share < 1 and self.rounds_per_day is None:
            raise ValueError("rounds_per_day is missing; available_share is a share of a day")

    def is_available(self, offsets: FloatArray, round_index: int) -> npt.NDArray[np.bool_]:
        """Whether members are available in a round.

        Args:
          offsets: The start of each member's available hours, as shares of a day, of shape
            (members,).
          round_index: The round, from 0.
        """
        time = round_index / (self.rounds_per_day or 1)
        return np.asarray((time - offsets) % 1.0 < self.available_share)

    @property
    def words(self) -> str:
        """A sentence for the report."""
        parts = [f"{100 * self.share:.3g} % of those sampled drop out"] * (self.share > 0)
        if self.available_share < 1:
            hours = f"{100 * self.available_share:.3g} % of each {self.rounds_per_day} rounds"
            parts.append(f"each is available in {hours}")
        if self.report_goal is not None:
            parts.append(f"a round uses {count(self.report_goal, 'report')} at most")
        sentence = ", ".join([*parts[:-2], ", and ".join(parts[-2:])])
        return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def with_dropouts(schedule: Schedule, dropouts: Dropouts, seed: int, roster: Roster) -> Schedule:
    """The schedule of reporting clients and canaries.

    Raises:
      InputError: Accounting relies on the pattern's sampling.
    """
    parties = (schedule.client_attendance, schedule.canary_attendance)
    for attendance in parties:
        if not isinstance(attendance.sampling, FixedRounds):
            raise InputError(
                "dropouts: is only for patterns whose rounds an attacker may know, such as shuffle "
                "and min_separation, as the hours in which a device is available would reveal when "
                "it may be sampled; where accounting counts on sampling, set a smaller "
                "participation.clients_per_round for clients that report less often"
            )
    num_clients, size = roster.num_clients, roster.num_clients + len(roster.included)
    offsets = generator(seed, Stream.DROPOUTS).random(size)

    @functools.lru_cache(maxsize=2)
    def reporting(round_index: int) -> tuple[IntArray, IntArray]:
        """The clients that report in a round, and the canaries of the pool that would report."""
        clients, canaries = schedule.clients(round_index), schedule.sampled_canaries(round_index)
        members = np.concatenate([clients, num_clients + canaries])
        coins = generator(seed, Stream.DROPOUTS, round_index).random(size)[members]
        comes = (coins >= dropouts.share) & dropouts.is_available(offsets[members], round_index)
        kept = np.sort(members[comes][np.argsort(coins[comes])[: dropouts.report_goal]])
        return kept[kept < num_clients], kept[kept >= num_clients] - num_clients

    def reporting_clients(round_index: int) -> IntArray:
        return reporting(round_index)[0]

    def sampled(round_index: int) -> IntArray:
        return reporting(round_index)[1]

    clients, canaries = parties
    of_pool = canaries.expected * len(roster.included) / max(int(roster.included.sum()), 1)
    come = (1 - dropouts.share) * dropouts.available_share
    if dropouts.report_goal is not None:
        come = min(come, dropouts.report_goal / (clients.expected + of_pool))
    included = included_among(sampled, roster.included)

    return dataclasses.replace(
        schedule,
        client_attendance=dataclasses.replace(
            clients,
            members_in=reporting_clients,
            expected=come * clients.expected,
            sampling=FixedRounds(most_rounds_of_a_member(reporting_clients, schedule.num_rounds)),
        ),
        canary_attendance=dataclasses.replace(
            canaries,
            members_in=included,
            sampled=sampled,
            expected=come * canaries.expected,
            sampling=FixedRounds(most_rounds_of_a_member(included, schedule.num_rounds)),
        ),
    )
