"""metrics.csv: a row for each round of a run, which can be read while the run trains."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_audit.errors import InputError
from fl_audit.formats.text_files import read_csv


@dataclass(frozen=True)
class RoundMetrics:
    """The metrics of one round.

    Attributes:
      round: Number of the round, from 1.
      num_clients: Number of real clients that participated.
      num_canaries: Number of canaries that participated.
      clip_norm: Norm to which updates were clipped.
      noise_stddev: Standard deviation of the noise on each coordinate of the sum of updates.
      aggregate_norm: Norm of the noised aggregate.
      train_loss: Mean loss over the cohort's examples, in nats; NaN if not known.
      accuracy: Accuracy on held-out data after the round; None if not evaluated.
      seconds_training: Wall time of training the round, in seconds.
      seconds_scoring: Wall time of scoring the canaries, in seconds.
      epsilon_lower_bound: Lower bound on epsilon from own-round scores up to this round; the bounds
        of all rounds hold together at the audit's confidence. None if rounds are not tested.
    """

    round: int
    num_clients: int
    num_canaries: int
    clip_norm: float
    noise_stddev: float
    aggregate_norm: float
    train_loss: float
    accuracy: float | None
    seconds_training: float
    seconds_scoring: float
    epsilon_lower_bound: float | None = None


COLUMNS = [field.name for field in dataclasses.fields(RoundMetrics)]


def read_metrics(path: Path) -> list[RoundMetrics]:
    """The rounds of a metrics file; raises InputError for an unreadable file or number."""
    rows = read_csv(path, COLUMNS)
    try:
        return [RoundMetrics(**{name: _value(name, row[name]) for name in COLUMNS}) for row in rows]
    except ValueError as error:
        raise InputError(f"{path}: holds a value that is not a number: {error}") from error


def _value(name: str, text: str) -> Any:
    if text == "" and name in ("accuracy", "epsilon_lower_bound"):
        return None
    return int(text) if name in ("round", "num_clients", "num_canaries") else float(text)


def row_text(metrics: RoundMetrics) -> str:
    """The line of a round."""
    values = (getattr(metrics, name) for name in COLUMNS)
    return ",".join("" if value is None else f"{value:.9g}" for value in values) + "\n"


def metrics_text(rounds: Iterable[RoundMetrics]) -> str:
    """The text of a metrics file."""
    return "".join([",".join(COLUMNS) + "\n", *map(row_text, rounds)])
