"""Faults of a training that make its accuracy or its audit uninformative.

Faults are found by rules of thumb on the curves of metrics.csv, not by tests; each fault names the
values.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fl_audit.accounting.release import Denominator
from fl_audit.array_types import FloatArray
from fl_audit.number_words import significant

_FEWEST_ROUNDS = 5
"""The least number of rounds for which curves are judged."""

_RUN_AWAY = 20.0
"""A clip norm that still moves runs away if it has changed by more than this factor."""

_STILL_MOVES = 1.1
"""A clip norm still moves if it changed by this factor in the last quarter of the rounds."""

_CONVERGED = 2.0
"""If the loss has fallen by this factor, training has converged: updates, and an adaptive clip
norm, shrink because there is little left to learn.
"""

_LOSS_GROWTH = 1.2
"""The largest ratio, without a fault, of the mean losses of the last and first fifth of rounds."""

_ABOVE_CHANCE, _MORE_THAN_CHANCE = 1.5, 0.05
"""The final accuracy should exceed a guess's accuracy by this factor, or by this difference."""

_CANARY_SHARE = 0.5
"""The largest share, without a fault, of canaries in all participants over the rounds."""


@dataclass(frozen=True, eq=False)
class TrainingCurves:
    """Columns of metrics.csv, each float64 of shape (rounds,).

    The clip norm is infinite without clipping. The loss, in nats, is the cohort's. Losses and
    accuracies are NaN in rounds where they are not known.
    """

    clip_norm: FloatArray
    train_loss: FloatArray
    accuracy: FloatArray
    clients: FloatArray
    canaries: FloatArray


@dataclass(frozen=True)
class TrainingFault:
    """One fault: a short name, for a table, and a sentence."""

    name: str
    words: str


def training_faults(
    curves: TrainingCurves, num_classes: int | None, denominator: Denominator
) -> tuple[TrainingFault, ...]:
    """The faults in the rounds so far.

    `num_classes` is None if labels are not classes, as in a regression; accuracy then has no chance
    level.
    """
    faults = [*_empty_rounds(curves, denominator)]
    if len(curves.clip_norm) >= _FEWEST_ROUNDS:
        faults += [
            *_clip_norm(curves.clip_norm, curves.train_loss),
            *_loss(curves.train_loss),
            *_accuracy(curves.accuracy, num_classes),
            *_share(curves),
        ]
    return tuple(faults)


def _empty_rounds(curves: TrainingCurves, denominator: Denominator) -> Iterator[TrainingFault]:
    empty = np.flatnonzero(curves.clients + curves.canaries == 0)
    if denominator.divisor == "actual_cohort" and len(empty):
        yield TrainingFault(
            "empty round",
            f"No client participated in round {empty[0] + 1}"
            + (f" and {len(empty) - 1} more" if len(empty) > 1 else "")
            + ", and the sum is divided by the number of participants.",
        )


def _clip_norm(clip_norm: FloatArray, train_loss: FloatArray) -> Iterator[TrainingFault]:
    first, late, last = clip_norm[0], clip_norm[3 * len(clip_norm) // 4], clip_norm[-1]
    if not np.isfinite(clip_norm).all():
        return
    grown, moving = last / first, last / late
    is_moving = moving > _STILL_MOVES if grown > 1 else 1 / moving > _STILL_MOVES
    before, after = _ends(train_loss)
    has_converged = grown < 1 and before > _CONVERGED * after
    if max(grown, 1 / grown) > _RUN_AWAY and is_moving and not has_converged:
        way = "grew" if grown > 1 else "shrank"
        yield TrainingFault(
            "clip norm runs away",
            f"The clip norm {way} from {significant(first)} to {significant(last)} and still "
            "moves; so does the noise.",
        )


def _loss(train_loss: FloatArray) -> Iterator[TrainingFault]:
    known = train_loss[~np.isnan(train_loss)]
    if not len(known):
        return
    if not np.isfinite(known).all():
        yield TrainingFault("loss grows", "The training loss is infinite.")
        return
    before, after = _ends(train_loss)
    if after > _LOSS_GROWTH * before:
        yield TrainingFault(
            "loss grows",
            f"The training loss grew from {significant(before)} to {significant(after)} (means of "
            "the first and the last fifth of the rounds).",
        )


def _ends(train_loss: FloatArray) -> tuple[float, float]:
    """The mean losses of the first and the last fifth of the rounds; NaN if none is known."""
    known = train_loss[~np.isnan(train_loss)]
    if not len(known):
        return np.nan, np.nan
    fifth = max(1, len(known) // 5)
    return float(known[:fifth].mean()), float(known[-fifth:].mean())


def _accuracy(accuracy: FloatArray, num_classes: int | None) -> Iterator[TrainingFault]:
    known = accuracy[~np.isnan(accuracy)]
    if num_classes is None or not len(known):
        return
    chance = 1 / num_classes
    if known[-1] <= min(_ABOVE_CHANCE * chance, chance + _MORE_THAN_CHANCE):
        yield TrainingFault(
            "accuracy at chance",
            f"The accuracy is {significant(100 * known[-1])} %, and a guess among {num_classes} "
            f"has {significant(100 * chance)} %: the model has learned nothing.",
        )


def _share(curves: TrainingCurves) -> Iterator[TrainingFault]:
    total = float((curves.clients + curves.canaries).sum())
    share = float(curves.canaries.sum()) / total if total else 0.0
    if share > _CANARY_SHARE:
        yield TrainingFault(
            "mostly canaries",
            f"Canaries are {significant(100 * share)} % of the participants: the training is "
            "not what it would be without the audit.",
        )
