"""Targets of an attack: points of central training, or clients of federated runs."""

import math
from pathlib import Path

import msgspec
import numpy as np

from fl_audit.accounting import account
from fl_audit.array_types import BoolArray, FloatArray
from fl_audit.config.attack_tables import (
    Attack,
    AttackConfig,
    FederatedAttack,
    FederatedAttackConfig,
)
from fl_audit.config.file import config_to_toml
from fl_audit.engines.prepare import PreparedRun, prepare
from fl_audit.engines.shadow_recipe import DpSgd, Recipe, accounted_epsilon, with_epsilon
from fl_audit.engines.tff.shadow_models import AfterBlock, FederatedRuns, ModelJob, train_models
from fl_audit.engines.tff.trained_blocks import default_models_per_block
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import write_text
from fl_audit.membership.outputs import MemberOutputs, loss_of_margin
from fl_audit.pipeline import attack_bases
from fl_audit.pipeline.attack_bases import Target
from fl_audit.pipeline.runs import at_work
from fl_audit.report.attack import AccountedBound, AttackedMember, AttackReport, AttackWords
from fl_audit.resources import set_tensorflow_defaults
from fl_audit.run.folder_and_checkpoints import check_new, check_resumable
from fl_audit.tasks import load_task
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.tf.networks import as_classifier


class AttackedPoints(Target):
    """A task's points and the central training of models on halves of them."""

    words = AttackWords(
        models="models",
        member="point",
        challenge="Each challenge is a separate model, trained on a fixed base with or without one "
        "point. The points are those that shadow models distinguish best.",
        accuracy="share of correctly classified points outside a model's training set",
    )

    def __init__(self, config: AttackConfig, folder: Path, after_block: AfterBlock) -> None:
        """Loads the task; writes nothing.

        `folder`, for the models' files, must exist when training starts; `after_block` reports
        progress.
        """
        task = load_task(config.task, config.seed)
        of_clients = map(task.population.examples, range(len(task.population.client_ids)))
        self._points = Examples.concatenate([*of_clients, task.held_out])
        _check_points(self._points, config.attack)
        classifier = as_classifier(task.classifier)
        if classifier.num_classes <= max(1, self._points.labels.max()):
            raise InputError(
                "task: an attack needs a model with an output for each of two or more classes"
            )
        self.attack, self.seed, self.delta = config.attack, config.seed, config.attack.delta
        self.num_members = len(self._points)
        recipe = recipe_of(config.attack, self.num_members // 2)
        self.upper_bound = AccountedBound(
            epsilon=accounted_epsilon(recipe, self.delta),
            noise_multiplier=None if recipe.privacy is None else recipe.privacy.noise_multiplier,
            by="DP-SGD",
            neighbours="one point more or less",
        )
        self._job = ModelJob(
            classifier=classifier,
            identity=msgspec.json.encode(config.task).decode(),
            points=self._points,
            recipe=recipe,
            seed=config.seed,
        )
        asked_for = config.attack.models_per_block
        self._models_per_block = asked_for or default_models_per_block(task.classifier.dim)
        self._folder, self._after_block = folder, after_block

    def train(self, training: BoolArray, first: int) -> MemberOutputs:
        """Accuracy is measured on all points outside a model's training set."""
        outputs = train_models(
            self._job,
            training,
            first,
            folder=self._folder,
            models_per_block=self._models_per_block,
            after_block=self._after_block,
        )
        pairs = zip(outputs.correct, training, strict=True)
        accuracy = np.array([np.mean(correct[~trained_on]) for correct, trained_on in pairs])
        return MemberOutputs(outputs.margins, loss_of_margin(outputs.margins), accuracy)

    def base_without(self, member: int, random: np.random.Generator) -> BoolArray:
        """Random points without `member`, one fewer than half of all points."""
        others = np.delete(np.arange(self.num_members), member)
        base = np.zeros(self.num_members, np.bool_)
        base[random.permutation(others)[: self.num_members // 2 - 1]] = True
        return base

    def features(self) -> FloatArray:
        """Every point's inputs, and its label in one-hot encoding."""
        inputs = self._points.inputs.reshape(len(self._points), -1).astype(np.float64)
        return np.concatenate(
            [inputs, np.eye(self._job.classifier.num_classes)[self._points.labels]], 1
        )

    def member(self, index: int, accuracy: float, separation: float) -> AttackedMember:
        return AttackedMember(
            index=index,
            facts={"label": int(self._points.labels[index])},
            features=np.asarray(self._points.inputs[index], np.float64),
            accuracy=accuracy,
            separation=separation,
        )


def recipe_of(attack: Attack, public_size: int) -> Recipe:
    """The recipe of an attack's config; DP-SGD takes `public_size` as the training set's size."""
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


def _check_points(points: Examples, attack: Attack) -> None:
    if points.labels.ndim != 1 or not np.issubdtype(points.labels.dtype, np.integer):
        raise InputError("task: an attack needs a task whose examples have one class each")
    if len(points) // 2 <= attack.batch_size:
        raise InputError(
            f"attack.batch_size: must be below {len(points) // 2}, half the number of the task's "
            f"points, got {attack.batch_size}"
        )
    if attack.num_points > len(points):
        raise InputError(
            f"attack.num_points: must be at most {len(points)}, the number of the task's points, "
            f"got {attack.num_points}"
        )


class AttackedClients(Target):
    """A config's clients and its federated training.

    The base of a client is all other clients: attacked runs are of the config with all clients, or
    without that client.
    """

    def __init__(self, config: FederatedAttackConfig, folder: Path, after_run: AfterBlock) -> None:
        """Loads the task, draws the schedule and accounts; writes nothing.

        `folder`, for the runs' files, must exist when training starts; `after_run` reports
        progress.
        """
        self.attack, self.seed = config.attack, config.seed
        self._run = prepare(config)
        self.num_members, self.delta = self._run.num_clients, self._run.delta
        _check_clients(self.num_members, self.attack)
        self.upper_bound = _accounted_bound(self._run)
        self.words = AttackWords(
            models="federated runs",
            member="client",
            challenge="Each challenge is a separate federated run, with all clients or without "
            "one. The clients are those that shadow runs distinguish best.",
            accuracy=self._run.task.classifier.accuracy_description,
        )
        self._runs = FederatedRuns(self._run, self.attack.initial_weights)
        self._folder, self._after_run = folder, after_run

    def train(self, training: BoolArray, first: int) -> MemberOutputs:
        """Accuracy is measured on held-out examples."""
        return self._runs.train(training, first, self._folder, self._after_run)

    def base_without(self, member: int, random: np.random.Generator) -> BoolArray:
        """All other clients; nothing is random."""
        return np.asarray(np.arange(self.num_members) != member)

    def member(self, index: int, accuracy: float, separation: float) -> AttackedMember:
        population = self._run.task.population
        return AttackedMember(
            index=index,
            facts={
                "client": population.client_ids[index],
                "examples": population.num_examples(index),
            },
            features=None,
            accuracy=accuracy,
            separation=separation,
        )


def _check_clients(num_clients: int, attack: FederatedAttack) -> None:
    if num_clients < 4:
        raise InputError(
            f"task: an attack on clients needs at least 4, two in each half, got {num_clients}"
        )
    if attack.num_clients > num_clients:
        raise InputError(
            f"attack.num_clients: must be at most {num_clients}, the number of the task's clients, "
            f"got {attack.num_clients}"
        )


def _accounted_bound(run: PreparedRun) -> AccountedBound:
    """The upper bound from accounting for a client; infinite if unknown."""
    accounting = account(run.release, run.delta)
    client = accounting.client
    reasons = (by.reason for by in client.by_accountant if by.reason is not None)
    return AccountedBound(
        epsilon=math.inf if client.epsilon is None else client.epsilon,
        noise_multiplier=run.noise.noise_multiplier,
        by="the config",
        neighbours=accounting.neighbours,
        why_unknown=next(reasons, None) if client.epsilon is None else None,
    )


def start_attack(
    config: AttackConfig | FederatedAttackConfig, out: Path, after_block: AfterBlock
) -> AttackReport:
    """Trains and attacks in a new or empty folder; `after_block` reports progress."""
    check_new(out)
    return _attack(config, out, after_block)


def continue_attack(
    config: AttackConfig | FederatedAttackConfig, out: Path, after_block: AfterBlock
) -> AttackReport:
    """Resumes an interrupted attack; trained models are not trained again."""
    check_resumable(out, config)
    return _attack(config, out, after_block)


def _attack(
    config: AttackConfig | FederatedAttackConfig, out: Path, after_block: AfterBlock
) -> AttackReport:
    """Trains the missing models, then writes all results."""
    set_tensorflow_defaults()
    models = out / "models"
    target: Target
    if isinstance(config, FederatedAttackConfig):
        target = AttackedClients(config, models, after_block)
    else:
        target = AttackedPoints(config, models, after_block)
    with at_work(RunFolder(out)) as folder:
        write_text(folder.config, config_to_toml(config))
        models.mkdir(exist_ok=True)
        chosen = attack_bases.choose_members(target)
        bases = [
            attack_bases.attack_base(target, number, int(member))
            for number, member in enumerate(chosen.worst.points)
        ]
        scores = attack_bases.score_files(bases)
        report = attack_bases.make_report(target, scores, chosen, bases)
        attack_bases.write_results(out, scores, chosen, report)
    return report
