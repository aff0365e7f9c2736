"""The preparation of a run: loading, sampling and checks before files are written."""

from collections.abc import Sequence
from dataclasses import dataclass

from fl_audit.attacks.threat_models import check_scored
from fl_audit.canaries.families import CanaryFamily, RademacherFamily
from fl_audit.canaries.store import StoredGaussianFamily, make_family
from fl_audit.config import Config, ExampleCanaries
from fl_audit.config.design import RunDesign, design_run
from fl_audit.engines.cohort import CohortData
from fl_audit.engines.example_canaries import make_example_pool
from fl_audit.formats.participation_files import canaries_text
from fl_audit.tasks import load_task
from fl_audit.tasks.learning_task import (
    Examples,
    LearningTask,
)


@dataclass(frozen=True, eq=False)
class PreparedRun(RunDesign):
    """A run whose parts are loaded, sampled and checked."""

    task: LearningTask
    family: CanaryFamily  # without vectors if canaries hold examples
    canary_examples: Sequence[
        Examples
    ] = ()  # the examples of each canary; empty if canaries are vectors

    @property
    def cohort_data(self) -> CohortData:
        """The reader of all participants' data in this process."""
        config = self.config
        return CohortData(self.task, config.client, config.seed, self.canary_examples)


def prepare(config: Config, secret: int | None = None) -> PreparedRun:
    """Loads the data, draws the included canaries and the schedule; writes nothing.

    A secret schedule is drawn from `secret`, as in `design_run`.
    """
    task, canaries = load_task(config.task, config.seed), config.canaries
    family: CanaryFamily
    if isinstance(canaries, ExampleCanaries):
        pool = make_example_pool(config, canaries, task)
        task, examples, count = pool.task, pool.examples, len(pool.examples)
        family = RademacherFamily(config.seed, 0, task.classifier.dim)
    else:
        check_scored(canaries, config.audit)
        examples, count = (), canaries.count
        family = make_family(canaries, config.seed, task.classifier.dim)
        if isinstance(family, StoredGaussianFamily):
            family.check_file()
    design = design_run(config, task.population.client_ids, count, secret)
    return PreparedRun(**design.shared, task=task, family=family, canary_examples=examples)


def canaries_csv(run: PreparedRun) -> str:
    """The text of canaries.csv: `canary_id,included,rounds` (from 1), and `arm` if arms exist."""
    rounds = run.schedule.rounds_of_canaries(run.num_canaries)
    return canaries_text(run.included, rounds, run.arms)
