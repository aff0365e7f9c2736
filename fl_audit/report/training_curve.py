"""The curves of training: loss, accuracy and clip norm by round."""

import numpy as np
from markupsafe import Markup

from fl_audit.array_types import FloatArray
from fl_audit.report.chart import Kind, Series, chart
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
        title: _curve(title, values)
        for title, values in curves.items()
        if np.isfinite(values).any()
    }


def _curve(title: str, values: FloatArray) -> Markup:
    known = np.flatnonzero(np.isfinite(values))
    kind: Kind = "dotted" if len(known) <= _MOST_MARKERS else "line"
    rounds = (known + 1).astype(np.float64)
    return chart([Series(rounds, values[known], "blue", kind)], "round", title, size=(340, 210))
