"""An attack on a task's models from start to end: train, choose points, challenge, report."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.config.attack import Attack, AttackConfig
from fl_audit.config.file import config_to_toml
from fl_audit.errors import InputError
from fl_audit.formats.atomic import write_text
from fl_audit.formats.run_folder import RunFolder
from fl_audit.pipeline.runs import at_work
from fl_audit.training import tensorflow_environment
from fl_audit.training.models.guarantee import with_epsilon
from fl_audit.training.models.recipe import DpSgd, Recipe
from fl_audit.training.run.taken_folder import check_new, check_resumable

if TYPE_CHECKING:
    from fl_audit.pipeline.attacked_bases import BoolArray
    from fl_audit.report.attack_report import AttackReport
    from fl_audit.tasks.classifier import Examples, LearningTask
    from fl_audit.training.models.train import ModelJob

AfterBlock = Callable[[int, int], None]
"""A function called after each block with its number of models, and how many were trained now."""


def num_models(attack: Attack) -> int:
    """The number of models that an attack trains."""
    return attack.num_shadow + attack.num_points * (attack.num_base_shadow + attack.num_challenges)


def start_attack(config: AttackConfig, out: Path, after_block: AfterBlock) -> "AttackReport":
    """Trains and attacks in a new folder.

    Args:
      config: The config of the attack.
      out: A folder that is new or empty.
      after_block: What is told of the progress.

    Raises:
      InputError: The folder is taken, or the task cannot be attacked; nothing is written then.
    """
    check_new(out)
    return _attack(config, out, after_block)


def continue_attack(config: AttackConfig, out: Path, after_block: AfterBlock) -> "AttackReport":
    """Goes on with an interrupted attack; models that it has trained are not trained again.

    Args:
      config: The config that the attack was started with.
      out: The folder of the attack.
      after_block: What is told of the progress.

    Raises:
      InputError: The folder holds no interrupted attack of this config.
    """
    check_resumable(out, config)
    return _attack(config, out, after_block)


def _attack(config: AttackConfig, out: Path, after_block: AfterBlock) -> "AttackReport":
    """Trains what is missing, then writes all results."""
    tensorflow_environment.set_defaults()
    from fl_audit.pipeline.attack_results import (
        Training,
        attacked_points,
        make_report,
        score_files,
        write_results,
    )
    from fl_audit.pipeline.attacked_bases import attack_base, choose_points
    from fl_audit.tasks import load_task
    from fl_audit.training.models.train import ModelJob

    task = load_task(config.task, config.seed)
    points = _points_of(task)
    _check_points(points, config.attack)
    recipe = recipe_of(config.attack, len(points) // 2)
    with at_work(RunFolder(out)) as folder:
        write_text(folder.config, config_to_toml(config))
        job = ModelJob(
            classifier=task.classifier,
            identity=msgspec.json.encode(config.task).decode(),
            points=points,
            recipe=recipe,
            seed=config.seed,
        )
        trainer = _Trainer(job, out / "models", config.attack.models_per_block, after_block)
        worst = choose_points(config, len(points), trainer)
        bases = [
            attack_base(config, number, int(point), len(points), trainer)
            for number, point in enumerate(worst.points)
        ]
        scores = score_files(bases)
        report = make_report(
            config.attack,
            scores,
            bases,
            attacked_points(worst, points),
            Training(recipe, trainer.accuracy),
        )
        write_results(out, scores, bases, report)
    return report


class _Trainer:
    """What trains models of a task, or reads them; `accuracy` is that of all outside their sets."""

    def __init__(
        self,
        job: "ModelJob",
        folder: Path,
        models_per_block: int,
        after_block: AfterBlock,
    ) -> None:
        self._job = job
        self._folder = folder
        self._models_per_block = models_per_block
        self._after_block = after_block
        self._correct: list[float] = []
        folder.mkdir(exist_ok=True)

    def __call__(self, training: "BoolArray", first: int) -> FloatArray:
        from fl_audit.training.models.train import train_models

        outputs = train_models(
            self._job,
            training,
            first,
            folder=self._folder,
            models_per_block=self._models_per_block,
            after_block=self._after_block,
        )
        self._correct.extend(
            np.mean(right[~own]) for right, own in zip(outputs.correct, training, strict=True)
        )
        return outputs.margins

    @property
    def accuracy(self) -> float:
        return float(np.mean(self._correct))


def recipe_of(attack: Attack, public_size: int) -> Recipe:
    """The recipe that a config asks for.

    Args:
      attack: The config's table.
      public_size: The number of training points that DP-SGD goes by.
    """
    recipe = Recipe(
        epochs=attack.epochs,
        batch_size=attack.batch_size,
        learning_rate=attack.learning_rate,
        momentum=attack.momentum,
        privacy=None
        if attack.clip_norm is None
        else DpSgd(
            attack.clip_norm, attack.noise_multiplier or 0.0, public_size, attack.microbatches
        ),
        output_noise=attack.output_noise,
        initial_weights=attack.initial_weights,
    )
    return recipe if attack.epsilon is None else with_epsilon(recipe, attack.epsilon, attack.delta)


def _points_of(task: "LearningTask") -> "Examples":
    """All points: those of the clients, one after another, then those held out."""
    from fl_audit.tasks.classifier import Examples

    of_clients = map(task.population.examples, range(len(task.population.client_ids)))
    return Examples.concatenate([*of_clients, task.held_out])


def _check_points(points: "Examples", attack: Attack) -> None:
    if points.labels.ndim != 1 or not np.issubdtype(points.labels.dtype, np.integer):
        raise InputError("task: an attack needs a task whose examples have one class each")
    if len(points) // 2 <= attack.batch_size:
        raise InputError(
            f"attack.batch_size: must be below {len(points) // 2}, half the task's points, got "
            f"{attack.batch_size}"
        )
    if attack.num_points > len(points):
        raise InputError(
            f"attack.num_points: must be at most {len(points)}, the task's points, got "
            f"{attack.num_points}"
        )
