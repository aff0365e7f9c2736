"""Bars and lines over two axes as inline SVG, in the colours of the page; no library draws them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from markupsafe import Markup, escape

from fl_audit.array_types import FloatArray

_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 10.0, 8.0, 42.0
"""The margins in units of the drawing, of which a letter is 12 high."""

_LEGEND_ROW = 17.0
_MOST_TICKS = 6


Kind = Literal["bars", "line", "dashed", "dotted"]


@dataclass(frozen=True, eq=False)
class Series:
    """One set of bars, or one line.

    Attributes:
      x: Float64 of shape (n,); of bars, the n + 1 edges between them.
      y: Float64 of shape (n,), finite.
      colour: The name of a colour of the page: "blue", "orange" or "ink".
      kind: How it is drawn.
      label: What it is, for the legend; empty for none.
    """

    x: FloatArray
    y: FloatArray
    colour: str
    kind: Kind = "line"
    label: str = ""


@dataclass(frozen=True)
class _Frame:
    """The place of numbers in the drawing."""

    width: float
    height: float
    top: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        share = (value - self.x_low) / (self.x_high - self.x_low)
        return round(_LEFT + share * (self.width - _LEFT - _RIGHT), 2)

    def y(self, value: float) -> float:
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return round(self.height - _BOTTOM - share * (self.height - _BOTTOM - self.top), 2)


def chart(
    series: Sequence[Series], x_label: str, y_label: str, *, size: tuple[int, int] = (460, 270)
) -> Markup:
    """Draws some series over common axes; the axis of bars begins at 0.

    Args:
      series: What to draw, from back to front, at least one with a point.
      x_label: What stands below the horizontal axis.
      y_label: What stands beside the vertical one.
      size: The proportions of the drawing; it is as wide as there is room.

    Returns:
      An `<svg>` element.
    """
    labelled = [one for one in series if one.label]
    frame = _frame(series, size, _TOP + _LEGEND_ROW * math.ceil(len(labelled) / 2))
    parts = [
        *_axes(frame, x_label, y_label),
        *(part for one in series for part in _drawn(one, frame)),
        *(part for i, one in enumerate(labelled) for part in _legend(one, i, frame)),
    ]
    head = f'<svg class="chart" viewBox="0 0 {size[0]} {size[1]}" role="img">'
    return Markup(head + "".join(parts) + "</svg>")


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two ends, at most six.

    >>> ticks(0.0, 43.0), ticks(-0.02, 0.031)
    ([0.0, 10.0, 20.0, 30.0, 40.0], [-0.02, -0.01, 0.0, 0.01, 0.02, 0.03])
    """
    power = 10.0 ** math.floor(math.log10((high - low) / _MOST_TICKS))
    step = next(s * power for s in (1, 2, 5, 10) if (high - low) / (s * power) <= _MOST_TICKS)
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [float(f"{number * step:.12g}") for number in numbers][:_MOST_TICKS]


def _frame(series: Sequence[Series], size: tuple[int, int], top: float) -> _Frame:
    has_bars = any(one.kind == "bars" for one in series)
    x_low, x_high = _ends(np.concatenate([one.x for one in series]), 0.02)
    y_low, y_high = _ends(np.concatenate([one.y for one in series]), 0.05)
    return _Frame(size[0], size[1], top, x_low, x_high, 0.0 if has_bars else y_low, y_high)


def _ends(values: FloatArray, beyond: float) -> tuple[float, float]:
    """The ends of an axis, a share of the range beyond the values."""
    low, high = float(values.min()), float(values.max())
    margin = beyond * (high - low) or abs(high) / 10 or 0.5
    return low - margin, high + margin


def _axes(frame: _Frame, x_label: str, y_label: str) -> Iterator[str]:
    left, right = _LEFT, frame.width - _RIGHT
    bottom, middle = frame.height - _BOTTOM, (frame.top + frame.height - _BOTTOM) / 2
    yield f'<path class="axis" d="M{left} {frame.top}V{bottom}H{right}"/>'
    for tick in ticks(frame.x_low, frame.x_high):
        x = frame.x(tick)
        yield f'<path class="axis" d="M{x} {bottom}v4"/>'
        yield f'<text x="{x}" y="{bottom + 17}" text-anchor="middle">{_number(tick)}</text>'
    for tick in ticks(frame.y_low, frame.y_high):
        y = frame.y(tick)
        yield f'<path class="axis" d="M{left} {y}h-4"/>'
        yield f'<text x="{left - 7}" y="{y + 4}" text-anchor="end">{_number(tick)}</text>'
    centre = (left + right) / 2
    yield f'<text x="{centre}" y="{frame.height - 6}" text-anchor="middle">{escape(x_label)}</text>'
    yield (
        f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _drawn(one: Series, frame: _Frame) -> Iterator[str]:
    if one.kind == "bars":
        steps = [
            f"V{frame.y(y)}H{frame.x(x)}"
            for x, y in zip(one.x[1:].tolist(), one.y.tolist(), strict=True)
        ]
        base, start = frame.y(0.0), frame.x(float(one.x[0]))
        yield f'<path class="bars {one.colour}" d="M{start} {base}{"".join(steps)}V{base}Z"/>'
        return
    points = [(frame.x(x), frame.y(y)) for x, y in zip(one.x.tolist(), one.y.tolist(), strict=True)]
    joined = "L".join(f"{x} {y}" for x, y in points)
    dash = " dashed" if one.kind == "dashed" else ""
    yield f'<path class="line {one.colour}{dash}" d="M{joined}"/>'
    if one.kind == "dotted":
        for x, y in points:
            yield f'<circle class="dot {one.colour}" cx="{x}" cy="{y}" r="3"/>'


def _legend(one: Series, index: int, frame: _Frame) -> Iterator[str]:
    column = (frame.width - _LEFT - _RIGHT) / 2
    x = _LEFT + 12 + column * (index % 2)
    y = _TOP + _LEGEND_ROW * (index // 2) + 6
    if one.kind == "bars":
        yield f'<path class="bars {one.colour}" d="M{x} {y - 5}h18v10h-18Z"/>'
    else:
        dash = " dashed" if one.kind == "dashed" else ""
        yield f'<path class="line {one.colour}{dash}" d="M{x} {y}h18"/>'
    yield f'<text x="{x + 24}" y="{y + 4}">{escape(one.label)}</text>'
