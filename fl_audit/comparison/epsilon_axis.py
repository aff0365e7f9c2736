"""An axis of epsilon that has zero and infinity on it, logarithmic where epsilon spans decades."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from fl_audit.number_words import significant
from fl_audit.report.figure import FAINT

_LINEAR_UP_TO = 10.0
"""Largest epsilon that is still drawn on a linear axis."""

_FIRST_DECADE = 0.1
"""A logarithmic axis is linear below this epsilon, so that zero has a place."""

_FIRST_POWER = 1e6
"""Ticks from here on are powers of ten."""


@dataclass(frozen=True)
class EpsilonAxis:
    """One scale for all panels of a plot, so that they may be compared.

    Attributes:
      largest: The largest finite epsilon to draw, positive.
      has_infinity: Whether an infinite epsilon is to be drawn.
    """

    largest: float
    has_infinity: bool

    @classmethod
    def holding(cls, epsilons: Iterable[float]) -> "EpsilonAxis":
        """The axis on which all given epsilons fit."""
        values = list(epsilons)
        largest = max((value for value in values if math.isfinite(value)), default=0.0)
        return cls(largest or 1.0, math.inf in values)

    @property
    def is_logarithmic(self) -> bool:
        """Whether the epsilons span decades."""
        return self.largest > _LINEAR_UP_TO

    @property
    def infinity(self) -> float:
        """The position of an infinite epsilon."""
        return 10 ** (self._top_power + 0.9) if self.is_logarithmic else 1.2 * self.largest

    def position(self, epsilon: float) -> float:
        """The position of an epsilon, finite or not."""
        return epsilon if math.isfinite(epsilon) else self.infinity

    @property
    def _top_power(self) -> int:
        return math.ceil(math.log10(self.largest))

    def scale(self, axes: Axes, direction: Literal["x", "y"], most_ticks: int) -> None:
        """Sets the scale, the limits and the ticks of one axis of a panel.

        Args:
          axes: The panel.
          direction: Which of the panel's two axes shows epsilon.
          most_ticks: The largest number of ticks.
        """
        axis = axes.yaxis if direction == "y" else axes.xaxis
        limits = axes.set_ylim if direction == "y" else axes.set_xlim
        edge_line = axes.axhline if direction == "y" else axes.axvline
        ticks = self._ticks(most_ticks)
        if self.is_logarithmic:
            scale = axes.set_yscale if direction == "y" else axes.set_xscale
            scale("symlog", linthresh=_FIRST_DECADE, linscale=0.5)
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_minor_locator(NullLocator())
        axis.set_ticklabels([self._label(tick) for tick in ticks])
        if self.has_infinity:
            edge_line(self.infinity, color=FAINT, lw=0.6, ls=(0, (2, 3)), zorder=0)
        limits(*self._limits())

    def _ticks(self, most: int) -> list[float]:
        infinity = [self.infinity] if self.has_infinity else []
        if self.is_logarithmic:
            decades = range(-1, self._top_power + 1)
            step = math.ceil(len(decades) / (most - 2))
            return [0.0, *(10.0**power for power in decades[::step]), *infinity]
        located = MaxNLocator(nbins=most - 2).tick_values(0, self.largest)
        return [*(float(tick) for tick in located if tick <= self.largest), *infinity]

    def _label(self, tick: float) -> str:
        """The label of a tick: its number, or the sign of infinity."""
        if tick == self.infinity:
            return "∞"
        return f"{tick:,g}" if tick < _FIRST_POWER else significant(tick, 1).removeprefix("1 × ")

    def _limits(self) -> tuple[float, float]:
        """The ends of the axis: a little below zero, and a little above the last value drawn."""
        if self.is_logarithmic:
            last = self.infinity if self.has_infinity else 10.0**self._top_power
            return -0.4 * _FIRST_DECADE, 10**0.3 * last
        last = self.infinity if self.has_infinity else self.largest
        return -0.05 * last, 1.08 * last
