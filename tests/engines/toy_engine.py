"""An engine in NumPy: the mean of clients' vectors with Gaussian noise, for a task of vectors.

    python -m tests.engines.toy_engine CONFIG.toml FOLDER

trains, scores and reports a run without TensorFlow, and says so where that is not so.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit import load_config, start_run
from fl_audit.attacks.attacker import SeenRound
from fl_audit.config_tables import Table
from fl_audit.engines.engine import Engine, TrainedRound, as_vector
from fl_audit.engines.runtimes import RUNTIMES, RuntimeKind
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.learning_task import (
    NO_CLASS,
    Examples,
    InMemoryPopulation,
    LearningTask,
    Model,
)
from fl_audit.tasks.task_kinds import TASKS, Task, TaskKind


class VectorsTask(Table, Task, frozen=True, tag_field="kind", tag="vectors"):
    """Clients that hold one vector each, whose mean is learned.

    Attributes:
      num_clients: The number of clients.
      dim: The length of the vectors.
    """

    num_clients: int = 60
    dim: int = 400


@dataclass(frozen=True)
class Mean(Model):
    """A model of one vector."""

    initial_weights: tuple
    padding_label: int = NO_CLASS
    accuracy_description: str = "cosine with the mean of held-out vectors, from 0"
    num_classes: int = 1


def load_vectors(config: VectorsTask, seed: int) -> LearningTask:
    random = generator(seed, Stream.PARTITION)
    centre = random.standard_normal(config.dim)
    vectors = (centre + random.standard_normal((config.num_clients + 20, config.dim))) / 20
    examples = Examples(vectors.astype(np.float32), np.zeros(len(vectors), np.int32))
    clients = [examples.take(np.array([c])) for c in range(config.num_clients)]
    return LearningTask(
        name="vectors",
        classifier=Mean((np.full(config.dim, 0.01, np.float32),)),
        population=InMemoryPopulation([f"client-{c}" for c in range(len(clients))], clients),
        held_out=examples.take(np.arange(config.num_clients, len(vectors))),
    )


class MeanOfVectors(Engine):
    """Each client sends the way from the model to its vector; the server adds the noised mean."""

    description = "toy, in NumPy"

    def __init__(self, run):
        self._run = run

    def begin(self):
        return {"model": self._run.task.classifier.initial_weights[0], "rounds": np.int64(0)}

    def reader(self, run):
        return run.cohort_data.round_data

    def run_round(self, state, data, index):
        run, clip = self._run, self._run.config.mechanism.clip_norm
        model = state["model"]
        updates = [examples.inputs.mean(axis=0) - model for examples in data.clients]
        losses = [float(update @ update) / 2 for update in updates]
        updates += [2 * clip * run.family.vector(int(canary)) for canary in data.canaries]
        clipped = [update * min(1, clip / np.linalg.norm(update)) for update in updates]
        stddev = clip * run.config.mechanism.noise_multiplier
        noise = np.random.default_rng((run.config.seed, index)).normal(0, stddev, model.shape)
        aggregate = np.asarray(
            (np.sum(clipped, axis=0) + noise) / run.schedule.expected_cohort, np.float32
        )
        after = {"model": model + aggregate, "rounds": state["rounds"] + 1}
        seen = SeenRound(index, model, aggregate, after["model"], clip)
        return TrainedRound(after, seen, stddev, float(np.mean(losses)) if losses else 0.0)

    def weights(self, state):
        return [state["model"]]

    def leaves(self, state):
        return [state["model"], state["rounds"]]

    def from_leaves(self, like, leaves):
        return dict(zip(like, leaves, strict=True))

    def evaluator(self, run):
        mean = run.task.held_out.inputs.mean(axis=0)

        def cosine(weights):
            model = as_vector(weights)
            return float(max(0, mean @ model / np.linalg.norm(mean) / np.linalg.norm(model)))

        return cosine


VECTORS = TaskKind(VectorsTask, load_vectors)


def register():
    TASKS.register(VECTORS)
    RUNTIMES.register(
        RuntimeKind("toy", lambda run, worker_log, why: MeanOfVectors(run), takes_blocks=False)
    )


def main(config: str, folder: str) -> None:
    register()
    start_run(load_config(Path(config)), Path(folder))
    loaded = {"tensorflow", "tensorflow_federated"} & sys.modules.keys()
    sys.exit(f"was imported: {loaded}" if loaded else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
