"""Everything that can be checked of a run before a file is written."""

from collections.abc import Sequence
from dataclasses import dataclass

from fl_audit.attacks.statistics import check_scored
from fl_audit.canaries.families import make_family
from fl_audit.canaries.family import CanaryFamily
from fl_audit.canaries.regenerated import RademacherFamily
from fl_audit.config import Config, ExampleCanaries
from fl_audit.config.design import RunDesign, design_run
from fl_audit.tasks import load_task
from fl_audit.tasks.classifier import Examples, LearningTask
from fl_audit.training.data.example_pool import make_example_pool


@dataclass(frozen=True, eq=False)
class PreparedRun(RunDesign):
    """Everything that a run is made of, checked.

    Attributes:
      task: Model and data.
      family: The canaries that are vectors; of none where they hold examples.
      canary_examples: The examples of canaries that hold any; empty where they are vectors.
    """

    task: LearningTask
    family: CanaryFamily
    canary_examples: Sequence[Examples] = ()


def prepare(config: Config) -> PreparedRun:
    """Loads the data, flips the coins and draws the schedule; writes nothing.

    Raises:
      InputError: the data cannot be used, or the parts of the config do not fit together.
    """
    task, canaries = load_task(config.task, config.seed), config.canaries
    if isinstance(canaries, ExampleCanaries):
        pool = make_example_pool(config, canaries, task)
        no_vectors = RademacherFamily(config.seed, 0, task.classifier.dim)
        design = design_run(config, pool.task.population.client_ids, len(pool.examples))
        return PreparedRun(
            **design.shared, task=pool.task, family=no_vectors, canary_examples=pool.examples
        )
    check_scored(canaries, config.audit)
    family = make_family(canaries, config.seed, task.classifier.dim)
    design = design_run(config, task.population.client_ids, canaries.count)
    return PreparedRun(**design.shared, task=task, family=family)


def canaries_csv(run: PreparedRun) -> str:
    """The pool as `canary_id,included,rounds`; rounds count from 1, separated by blanks.

    An excluded canary's rounds are those that it would have taken part in.
    """
    rounds = run.schedule.rounds_of_canaries(run.num_canaries)
    lines = [
        f"{canary},{int(included)},{' '.join(map(str, of_canary + 1))}"
        for canary, (included, of_canary) in enumerate(zip(run.included, rounds, strict=True))
    ]
    return "\n".join(["canary_id,included,rounds", *lines]) + "\n"
