"""Rounds of our runtimes, with all clients of a task in the cohort and their data in memory."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.canaries.store import make_family
from fl_audit.config import (
    Canaries,
    Client,
    Config,
    GaussianFixed,
    Shuffle,
    StackOverflowTask,
)
from fl_audit.config.design import design_run
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.engine import TrainedRound
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.runtimes import make_runtime
from fl_audit.tasks.learning_task import Examples, InMemoryPopulation, LearningTask, Model

CANARIES = Canaries(count=2000, family="hadamard")

ROUNDS = 500
"""Number of rounds; as half of the canaries are included, once each, a round has two of them."""


def in_memory(name: str, classifier: Model, clients: Sequence[Examples]) -> LearningTask:
    """A task with these clients and no held-out data."""
    ids = [f"client-{i}" for i in range(len(clients))]
    nothing = clients[0].take(np.zeros(0, np.int64))
    return LearningTask(name, classifier, InMemoryPopulation(ids, clients), nothing)


def run_of(task: LearningTask, client: Client, participations: int = 1) -> PreparedRun:
    """A run whose cohorts are all clients, with clip norm 1 and no noise, to compare rounds.

    Args:
      task: The task.
      client: The clients' training.
      participations: The number of own rounds of a canary.
    """
    client_ids = task.population.client_ids
    made = Config(
        task=StackOverflowTask(),  # not read, as the task is made already
        client=client,
        mechanism=GaussianFixed(noise_multiplier=0.0, clip_norm=1.0),
        participation=Shuffle(
            rounds=ROUNDS, clients_per_round=len(client_ids), canary_repeats=participations
        ),
        canaries=CANARIES,
        runtime="local",
    )
    design = design_run(made, task.population.client_ids, CANARIES.count)
    family = make_family(CANARIES, made.seed, task.classifier.dim)
    return PreparedRun(**design.shared, task=task, family=family)


class OurRound:
    """A round of the `local` runtime.

    Attributes:
      state: The state that it starts from, at first the initial one.
    """

    def __init__(self, run: PreparedRun) -> None:
        """Compiles the process.

        Args:
          run: The run whose clients take part.
        """
        population = run.task.population
        self.variable_sizes = run.task.classifier.variable_sizes
        self._clients = [population.examples(i) for i in range(len(population.client_ids))]
        self._runtime = make_runtime(run, Path(os.devnull))
        with self._runtime.session():
            self.state: Any = self._runtime.begin()

    def __call__(
        self, num_clients: int | None = None, canaries: Sequence[int] = ()
    ) -> TrainedRound:
        """Runs the round and returns its result.

        Args:
          num_clients: Number of clients that take part, from the first; None for all.
          canaries: Indices of the canaries that take part as well.
        """
        data = RoundData(self._clients[:num_clients], np.array(canaries, np.int64))
        with self._runtime.session():
            return self._runtime.run_round(self.state, data, 0)
