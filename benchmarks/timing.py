"""Wall times of two ways to one result, measured in turns, and their ratio with its spread."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Race:
    """Wall times of ours and of a peer, one of each per turn.

    Attributes:
      ours: Our time in each turn, in seconds.
      peer: The peer's time in each turn, in seconds.
    """

    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """The peer's time over ours in each turn, in ascending order."""
        return tuple(sorted(p / o for o, p in zip(self.ours, self.peer, strict=True)))

    def __str__(self) -> str:
        """The median times of both, and the median ratio with its extremes."""
        low, middle, high = self.ratios[0], statistics.median(self.ratios), self.ratios[-1]
        return (
            f"{seconds(statistics.median(self.ours)):>10}  "
            f"{seconds(statistics.median(self.peer)):>10}  "
            f"{times(middle):>8} times ({times(low)} to {times(high)})"
        )

    def per(self, ours: float, peer: float) -> "Race":
        """The race with times per unit of work.

        Args:
          ours: Units of work in one of our calls.
          peer: Units of work in one of the peer's calls.
        """
        return Race(tuple(t / ours for t in self.ours), tuple(t / peer for t in self.peer))


def race(
    ours: Callable[[], object], peer: Callable[[], object], *, turns: int, laps: int = 1
) -> Race:
    """Times two functions in turns, so that a slow minute of the machine affects both.

    Args:
      ours: Our function, called `laps` times a turn; its time is the mean over them.
      peer: The peer's function, called once a turn.
      turns: Number of turns, at least 1.
      laps: Number of our calls in a turn, at least 1; more for a call too short to time alone.
    """
    times = [(wall_time(ours, laps), wall_time(peer)) for _ in range(turns)]
    return Race(tuple(mine for mine, _ in times), tuple(theirs for _, theirs in times))


def wall_time(function: Callable[[], object], laps: int = 1) -> float:
    """The seconds that one call takes, as the mean of `laps` calls."""
    start = time.perf_counter()
    for _ in range(laps):
        function()
    return (time.perf_counter() - start) / laps


def times(ratio: float) -> str:
    """A ratio as text with three digits, or as a whole number from 100 on."""
    return f"{ratio:#.3g}" if ratio < 100 else f"{ratio:,.0f}"


def seconds(value: float) -> str:
    """A time as text with three digits and its unit."""
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
