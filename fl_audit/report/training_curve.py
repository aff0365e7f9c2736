"""The curves of training: loss, accuracy and clip norm by round."""

from functools import partial

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from fl_audit.array_types import FloatArray
from fl_audit.report.figure import BLUE, draw
from fl_audit.report.finished_run import Rounds

_MOST_MARKERS = 30


def training_curves(rounds: Rounds) -> dict[str, Markup]:
    """The figures by title, one for each curve that has any value."""
    curves = {
        "Training loss (nats)": rounds.train_loss,
        "Held-out accuracy": rounds.accuracy,
        "Clip norm": rounds.clip_norm,
    }
    return {
        title: draw(f"curve-{title}", 3.4, 2.1, partial(_plot, title, values))
        for title, values in curves.items()
        if np.isfinite(values).any()
    }


def _plot(title: str, values: FloatArray, axes: Axes) -> None:
    known = np.flatnonzero(np.isfinite(values))
    marker = "o" if len(known) <= _MOST_MARKERS else ""
    axes.plot(known + 1, values[known], color=BLUE, lw=1.2, marker=marker, ms=3)
    axes.set_xlabel("round")
    axes.set_ylabel(title)
    axes.set_xlim(0, len(values) + 1)
    axes.locator_params(axis="y", nbins=5)
    axes.locator_params(axis="x", nbins=5, integer=True)
