"""Canaries that hold examples, taken from a task's clients or from a user's file."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.attacks.statistics import check_scored
from fl_audit.canaries.wrong_labels import wrong_labels
from fl_audit.config import Config, ExampleCanaries
from fl_audit.errors import InputError
from fl_audit.participation import PATTERNS
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Classifier, Examples, LearningTask, PartOfPopulation
from fl_audit.training.data.canary_file import read_canary_file


@dataclass(frozen=True, eq=False)
class ExamplePool:
    """Canaries that hold examples, and the task without their clients.

    Attributes:
      task: The task, whose real clients have none of the canaries' data unless it is from a user's
        file.
      examples: The examples of each canary.
    """

    task: LearningTask
    examples: Sequence[Examples]


def make_example_pool(config: Config, canaries: ExampleCanaries, task: LearningTask) -> ExamplePool:
    """Takes the canaries' data out of a task's population, or from a user's file.

    Steinke et al. draw canaries from the test set. Here they are training clients drawn at random
    who are then no real clients. A canary in distribution is thus a client like any other, and
    held-out data, on which accuracy is measured, stays apart.

    Args:
      config: The config of the run.
      canaries: The config's table of canaries.
      task: The task with all its clients.

    Raises:
      InputError: There are too few clients, a replayed log would name those that are taken out, the
        file cannot be used, or a threat model has no score for such canaries.
    """
    check_scored(canaries, config.audit)
    if canaries.source == "file":
        return ExamplePool(task, _of_file(canaries, task))
    pattern = PATTERNS.of(config.participation)
    if pattern.names_clients:
        raise InputError(
            f"canaries.source: {canaries.source!r} takes clients out of the population, and the "
            f"log of participation.kind {pattern.table.__struct_config__.tag!r} may name them; "
            "must be 'file'"
        )
    pool = _of_clients(canaries, task, generator(config.seed, Stream.CANARY_EXAMPLES))
    if canaries.source == "mislabelled":
        random = generator(config.seed, Stream.WRONG_LABELS)
        pool = ExamplePool(pool.task, _mislabelled(pool.examples, task.classifier, random))
    return pool


def _of_file(config: ExampleCanaries, task: LearningTask) -> Sequence[Examples]:
    path = Path(str(config.path))
    found = read_canary_file(path, task)
    least = config.count or 2
    if len(found) < least:
        raise InputError(
            f"{path}: holds {len(found)} clients, a canary each; must hold at least {least}"
        )
    return found[: config.count]


def _of_clients(
    config: ExampleCanaries, task: LearningTask, random: np.random.Generator
) -> ExamplePool:
    """Removes random clients from the task until their data is that of `count` canaries."""
    population, count = task.population, config.count or 0
    is_real = np.ones(len(population.client_ids), bool)
    canaries: list[Examples] = []
    for client in random.permutation(len(is_real)):
        of_client = population.examples(int(client))
        parts = list(_parts(of_client, config.examples_per_canary or len(of_client)))
        if parts:
            is_real[client] = False
            canaries += parts[: count - len(canaries)]
        if len(canaries) == count:
            break
    if len(canaries) < count or not is_real.any():
        size = config.examples_per_canary
        held = "all examples of a client" if size is None else f"{size} examples of one client"
        raise InputError(
            f"canaries.count: {count} canaries with {held} each are more than the "
            f"{len(is_real)} clients of the task have for them, one of whom must remain; must be "
            "smaller"
        )
    left = PartOfPopulation(population, np.flatnonzero(is_real))
    return ExamplePool(dataclasses.replace(task, population=left), canaries)


def _parts(examples: Examples, size: int) -> Iterator[Examples]:
    """A client's examples in parts of this size; a smaller rest is left out."""
    for start in range(0, len(examples) - size + 1, size):
        yield examples.take(np.arange(start, start + size))


def _mislabelled(
    canaries: Sequence[Examples], classifier: Classifier, random: np.random.Generator
) -> Sequence[Examples]:
    num_classes, padding = classifier.num_classes, classifier.padding_label

    def relabelled(labels: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        return wrong_labels(labels, num_classes, padding, random)

    return [Examples(canary.inputs, relabelled(canary.labels)) for canary in canaries]
