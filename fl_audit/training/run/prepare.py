"""Everything that can be checked of a run before a file is written."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.attacks.statistics import check_scored
from fl_audit.attacks.threat_models import check_rounds
from fl_audit.canaries.families import make_family
from fl_audit.canaries.family import CanaryFamily
from fl_audit.canaries.inclusion import flip_coins
from fl_audit.canaries.regenerated import RademacherFamily
from fl_audit.config import Canaries, Config, ExampleCanaries
from fl_audit.mechanisms import RoundNoise, round_noise
from fl_audit.participation import Schedule, make_schedule
from fl_audit.tasks import load_task
from fl_audit.tasks.classifier import Examples, LearningTask
from fl_audit.training.data.example_pool import ExamplePool, make_example_pool


@dataclass(frozen=True)
class PreparedRun:
    """Everything that a run is made of, checked.

    Attributes:
      config: of the run.
      task: model and data.
      included: bool of shape (num_canaries,), the coins.
      family: the canaries that are vectors; of none where they hold examples.
      schedule: who takes part when.
      noise: of one round.
      canary_examples: of the canaries that hold examples; empty where they are vectors.
    """

    config: Config
    task: LearningTask
    included: npt.NDArray[np.bool_]
    family: CanaryFamily
    schedule: Schedule
    noise: RoundNoise
    canary_examples: Sequence[Examples] = ()

    @property
    def delta(self) -> float:
        """Delta of the audit: the config's, else N^-1.1 for N clients (Andrew et al. section 5)."""
        num_clients = len(self.task.population.client_ids)
        return self.config.audit.delta or float(num_clients) ** -1.1


def prepare(config: Config) -> PreparedRun:
    """Loads the data, flips the coins and draws the schedule; writes nothing.

    Raises:
      InputError: the data cannot be used, or the parts of the config do not fit together.
    """
    if isinstance(config.canaries, ExampleCanaries):
        return _with_examples(config, config.canaries)
    return _with_vectors(config, config.canaries)


def _with_vectors(config: Config, canaries: Canaries) -> PreparedRun:
    check_scored(canaries, config.audit)
    included = flip_coins(config.seed, canaries.count)
    task = load_task(config.task, config.seed)
    family = make_family(canaries, config.seed, task.classifier.dim)
    return _prepared(config, ExamplePool(task, ()), included, family)


def _with_examples(config: Config, canaries: ExampleCanaries) -> PreparedRun:
    pool = make_example_pool(config, canaries, load_task(config.task, config.seed))
    included = flip_coins(config.seed, len(pool.examples))
    no_vectors = RademacherFamily(config.seed, 0, pool.task.classifier.dim)
    return _prepared(config, pool, included, no_vectors)


def _prepared(
    config: Config, pool: ExamplePool, included: npt.NDArray[np.bool_], family: CanaryFamily
) -> PreparedRun:
    client_ids = pool.task.population.client_ids
    schedule = make_schedule(
        config.participation, config.canaries, config.seed, client_ids, included
    )
    check_rounds(config.audit, schedule.num_rounds, "config")
    return PreparedRun(
        config=config,
        task=pool.task,
        included=included,
        family=family,
        schedule=schedule,
        noise=round_noise(config.mechanism, schedule.expected_cohort),
        canary_examples=pool.examples,
    )


def canaries_csv(run: PreparedRun) -> str:
    """The pool as `canary_id,included,rounds`; rounds count from 1, separated by spaces."""
    rounds: list[list[str]] = [[] for _ in run.included]
    for round_index in range(run.schedule.num_rounds):
        for canary in run.schedule.canaries(round_index):
            rounds[canary].append(str(round_index + 1))
    lines = [
        f"{canary},{int(included)},{' '.join(rounds[canary])}"
        for canary, included in enumerate(run.included)
    ]
    return "\n".join(["canary_id,included,rounds", *lines]) + "\n"
