"""Wall times of two ways to the same result, taken in turns, and their ratio with its spread."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Race:
    """Wall times of ours and of a peer, one of each per turn.

    Attributes:
      ours: [turns] seconds.
      peer: [turns] seconds.
    """

    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """[turns] how many times as fast ours was, ascending."""
        return tuple(sorted(p / o for o, p in zip(self.ours, self.peer, strict=True)))

    def __str__(self) -> str:
        """Both medians, and the median ratio with its extremes."""
        low, middle, high = self.ratios[0], statistics.median(self.ratios), self.ratios[-1]
        return (
            f"{seconds(statistics.median(self.ours)):>10}  "
            f"{seconds(statistics.median(self.peer)):>10}  "
            f"{times(middle):>8} times ({times(low)} to {times(high)})"
        )

    def per(self, ours: float, peer: float) -> "Race":
        """The same race by unit of work, where a call of ours and of the peer did so many."""
        return Race(tuple(t / ours for t in self.ours), tuple(t / peer for t in self.peer))


def race(
    ours: Callable[[], object], peer: Callable[[], object], *, turns: int, laps: int = 1
) -> Race:
    """Time two functions in turns, so that a slow minute of the machine falls on both.

    Args:
      ours: called `laps` times a turn, for what is too short to time alone; its time is divided.
      peer: called once a turn.
      turns: at least 1.
      laps: at least 1.
    """
    times = [(wall_time(ours, laps), wall_time(peer)) for _ in range(turns)]
    return Race(tuple(mine for mine, _ in times), tuple(theirs for _, theirs in times))


def wall_time(function: Callable[[], object], laps: int = 1) -> float:
    """Seconds that one call takes, the mean of `laps` calls."""
    start = time.perf_counter()
    for _ in range(laps):
        function()
    return (time.perf_counter() - start) / laps


def times(ratio: float) -> str:
    """A ratio with three digits, or with all of a whole number."""
    return f"{ratio:#.3g}" if ratio < 100 else f"{ratio:,.0f}"


def seconds(value: float) -> str:
    """A time with three digits and its unit."""
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
