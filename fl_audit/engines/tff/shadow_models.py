"""Shadow models: many models of one task, each trained centrally on its own part of the data.

They are for membership attacks (`fl_audit.membership`). A block of models trains at once: every
weight gets a leading axis for the models by `tf.vectorized_map`, as in `trained_blocks` for
clients. Up to rounding, a model does not depend on the others in its block.

The outputs of each model are cached: its margin at every point, and whether it classifies the point
correctly. Files are named by a digest of everything that determines their content. If the process
is killed, only the block in training is lost; as all randomness comes from the seed and the model's
number, training it later gives the same result.

The shadow models of clients are whole federated runs of one config, each with a part of the
clients. Each run trains the process of `fl-audit run`, compiled once for all runs, with a seed of
its own for cohorts, orders of examples and any noise that the first state does not fix. A client
that is left out keeps its place in the schedule and sends nothing, like an excluded canary: two
runs that differ in one client are neighbours under the config's accounting.

The margin and the loss of every client, and the accuracy, are cached for each run.
"""

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.array_types import BoolArray, Float32Array, FloatArray
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.shadow_recipe import (
    Batches,
    DpSgd,
    InitialWeights,
    Recipe,
    batches_of_model,
    initial_weights,
    stacked,
)
from fl_audit.engines.tff.canary_process import model_weights
from fl_audit.engines.tff.compiled import NotCompilableError, SeededRounds
from fl_audit.engines.tff.local import clients_in_parallel, local_of
from fl_audit.engines.tff.tff_engine import accuracy_on, mean_losses_on
from fl_audit.errors import InputError
from fl_audit.formats.npy_file import AnyArray, read_or_make
from fl_audit.membership.outputs import MemberOutputs, margin, margin_of_loss
from fl_audit.participation import Cohort, make_schedule
from fl_audit.resources import num_cores
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.tf.classifier import Classifier
from fl_audit.tasks.tf.networks import as_classifier

Weights = list[tf.Tensor]

_NUMBERS_AT_ONCE = 1 << 21
"""The largest number of input values, over all models, in one calculation of logits.

These are 682 colour images of 32 x 32, whose convolutions take some gigabytes.
"""


class ModelBlockTrainer:
    """Trains blocks of models of one architecture on parts of one data set."""

    def __init__(self, classifier: Classifier, recipe: Recipe, data: Examples) -> None:
        """Graphs are traced at their first use. Each model trains on some of `data`."""
        self._classifier = classifier
        self._recipe = recipe
        self._inputs = tf.constant(data.inputs)
        self._labels = tf.constant(data.labels)
        self._logits = classifier.logits_in_blocks or classifier.logits
        weights = [tf.TensorSpec([None, *w.shape]) for w in classifier.initial_weights]
        self._train = tf.function(
            self._train_block,
            input_signature=[
                weights,
                tf.TensorSpec([None, None, None], tf.int32),
                tf.TensorSpec([None], tf.int64),
            ],
        )
        inputs = tf.TensorSpec([None, *data.inputs.shape[1:]], self._inputs.dtype)
        self._predict = tf.function(
            lambda weights, inputs: tf.vectorized_map(
                lambda model: self._logits(model, inputs), weights, False
            ),
            input_signature=[weights, inputs],
        )

    def train(
        self, initial: Sequence[Float32Array], batches: Batches, noise_keys: npt.NDArray[np.int64]
    ) -> Weights:
        """Trains models from `initial` on batches (models, steps, rows); each has a noise key."""
        trained: Weights = self._train(list(initial), batches, noise_keys)
        return trained

    def logits(self, weights: Weights, inputs: npt.NDArray[Any]) -> FloatArray:
        """The logits of every model for the same inputs, float64 of shape (models, points, ...)."""
        numbers = max(1, int(weights[0].shape[0]) * math.prod(inputs.shape[1:]))
        points = max(1, _NUMBERS_AT_ONCE // numbers)
        parts = [
            self._predict(weights, tf.constant(inputs[start : start + points]))
            for start in range(0, len(inputs), points)
        ]
        return np.concatenate([np.asarray(part, np.float64) for part in parts], axis=1)

    def _train_block(self, weights: Weights, batches: tf.Tensor, keys: tf.Tensor) -> Weights:
        """All steps of all models, then output noise; only DP-SGD takes a step without points."""
        recipe = self._recipe
        velocity = [tf.zeros_like(w) for w in weights]
        for step in tf.range(tf.shape(batches)[1]):
            rows = batches[:, step]
            inputs = tf.gather(self._inputs, tf.maximum(rows, 0))
            labels = tf.gather(self._labels, tf.maximum(rows, 0))
            if recipe.privacy is None:
                labels = tf.where(rows >= 0, labels, self._classifier.padding_label)
                gradients = tf.vectorized_map(self._gradient, (weights, inputs, labels), False)
                takes_part = tf.reduce_any(rows >= 0, axis=1)
            else:
                sums = tf.vectorized_map(
                    lambda model: self._clipped_sum(*model), (weights, inputs, labels, rows), False
                )
                gradients = self._noised_mean(sums, keys, step, recipe.privacy)
                takes_part = tf.ones_like(rows[:, 0], tf.bool)
            moved = [recipe.momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
            velocity = [_where(takes_part, v, w) for v, w in zip(moved, velocity, strict=True)]
            weights = [
                _where(takes_part, w - recipe.learning_rate * v, w)
                for w, v in zip(weights, velocity, strict=True)
            ]
        if recipe.output_noise > 0:
            # No step has number -1, so no step has this noise.
            noise = self._noise(weights, keys, tf.constant(-1))
            weights = [w + recipe.output_noise * n for w, n in zip(weights, noise, strict=True)]
        return weights

    def _gradient(self, arguments: tuple[Weights, tf.Tensor, tf.Tensor]) -> Weights:
        """The gradient of one model's mean loss over its batch."""
        weights, inputs, labels = arguments
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = self._classifier.loss_in_blocks(self._logits(weights, inputs), labels)
        gradients: Weights = tape.gradient(loss, weights)
        return gradients

    def _clipped_sum(
        self, weights: Weights, inputs: tf.Tensor, labels: tf.Tensor, rows: tf.Tensor
    ) -> Weights:
        """The sum of one model's clipped gradients: each an example's, or a micro-batch's mean."""
        privacy = self._recipe.privacy
        assert privacy is not None
        counts = tf.cast(rows >= 0, tf.float32)
        gradients = tf.vectorized_map(
            lambda example: self._gradient((weights, example[0][None], example[1][None])),
            (inputs, labels),
            False,
        )
        if privacy.microbatches is not None:
            taken = counts[:, None] * tf.one_hot(rows % privacy.microbatches, privacy.microbatches)
            shares = tf.math.divide_no_nan(taken, tf.reduce_sum(taken, axis=0))
            gradients = [tf.tensordot(tf.transpose(shares), g, 1) for g in gradients]
            counts = tf.ones([privacy.microbatches])
        squares = [tf.reduce_sum(g**2, range(1, len(g.shape))) for g in gradients]
        norms = tf.sqrt(tf.add_n(squares))
        # A gradient of 0 stays 0.
        clip = tf.constant(privacy.clip_norm)
        scale = counts * tf.minimum(1.0, tf.math.divide_no_nan(clip, norms))
        scale = tf.where(norms > 0, scale, 0.0)
        return [tf.tensordot(scale, g, 1) for g in gradients]

    def _noised_mean(
        self, sums: Weights, keys: tf.Tensor, step: tf.Tensor, privacy: DpSgd
    ) -> Weights:
        size = float(privacy.microbatches or self._recipe.batch_size)
        deviation = privacy.clip_norm * privacy.noise_multiplier
        if deviation == 0:
            return [total / size for total in sums]
        noise = self._noise(sums, keys, step)
        return [(total + deviation * n) / size for total, n in zip(sums, noise, strict=True)]

    def _noise(self, like: Weights, keys: tf.Tensor, step: tf.Tensor) -> Weights:
        """Standard normal numbers that depend only on each model's key and the step."""
        place = tf.cast(step, tf.int64) * len(like)
        return [
            tf.map_fn(
                lambda key, i=i, shape=w.shape[1:]: tf.random.stateless_normal(
                    shape, tf.stack([key, place + i])
                ),
                keys,
                fn_output_signature=tf.float32,
            )
            for i, w in enumerate(like)
        ]


def _where(of_models: tf.Tensor, new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
    """New values for models that the step changes, old values for others."""
    axes = [1] * (len(new.shape) - 1)
    return tf.where(tf.reshape(of_models, [-1, *axes]), new, old)


# Blocks are trained once and then read from files.

AfterBlock = Callable[[int, int], None]
"""Called after each block with its number of models, and the number of these trained, not read."""

_VERSION = 1
"""The version of the training procedure, to be raised by a change that alters its results."""


@dataclass(frozen=True, eq=False)
class ModelJob:
    """The common parts of all models of an attack."""

    classifier: Classifier
    identity: str  # a text that identifies the task, such as its config table as JSON
    points: Examples  # each model trains on some of the points, and is evaluated on all
    recipe: Recipe
    seed: int

    @functools.cached_property
    def trainer(self) -> ModelBlockTrainer:
        """The trainer, traced once for all calls."""
        return ModelBlockTrainer(self.classifier, self.recipe, self.points)


@dataclass(frozen=True, eq=False)
class ModelOutputs:
    """Outputs of trained models at the job's points, arrays of shape (models, points)."""

    margins: FloatArray
    correct: BoolArray  # whether the label has the largest logit


def train_models(
    job: ModelJob,
    training: BoolArray,
    first: int,
    *,
    folder: Path,
    models_per_block: int,
    after_block: AfterBlock,
) -> ModelOutputs:
    """Trains models numbered from `first` on, or reads their files.

    `training` says which points a model trains on, bool of shape (models, points).
    """
    if not training.any(axis=1).all():
        raise InputError("every model must have at least one training point")
    common = digest_of(
        [_VERSION, job.identity, job.seed, dataclasses.asdict(job.recipe)],
        [job.points.inputs, job.points.labels, *job.classifier.initial_weights],
    )
    outputs = []
    for start in range(0, len(training), models_per_block):
        part = training[start : start + models_per_block]
        path = folder / f"block-{name_of(common, part, first + start)}"
        shapes = {"margins": part.shape, "correct": part.shape}
        train = functools.partial(_trained, job, part, first + start)
        outputs.append(cached_arrays(path, shapes, train, len(part), after_block))
    return ModelOutputs(
        np.concatenate([block["margins"] for block in outputs]),
        np.concatenate([block["correct"] for block in outputs]),
    )


def _trained(job: ModelJob, training: BoolArray, first: int) -> dict[str, AnyArray]:
    numbers = range(first, first + len(training))
    of_models = [_initial(job, number) for number in numbers]
    batches = [
        batches_of_model(np.flatnonzero(mask), job.recipe, job.seed, number)
        for mask, number in zip(training, numbers, strict=True)
    ]
    keys = [generator(job.seed, Stream.MODEL_NOISE, number).integers(2**62) for number in numbers]
    initial = [np.stack(arrays) for arrays in zip(*of_models, strict=True)]
    weights = job.trainer.train(initial, stacked(batches), np.array(keys, np.int64))
    logits = job.trainer.logits(weights, job.points.inputs)
    if not np.isfinite(logits).all():
        raise InputError(
            "training diverged: a model gives numbers that are not finite; use a smaller "
            "attack.learning_rate"
        )
    correct = np.argmax(logits, axis=-1) == job.points.labels
    return {"margins": margin(logits, job.points.labels), "correct": correct}


def _initial(job: ModelJob, number: int) -> list[npt.NDArray[np.float32]]:
    if job.recipe.initial_weights == "same":
        return list(job.classifier.initial_weights)
    return initial_weights(job.classifier, job.seed, number)


# Files of trained models.

Shapes = Mapping[str, tuple[int, ...]]
"""The shape of each array of a file."""


def digest_of(facts: Any, arrays: Sequence[AnyArray]) -> "hashlib._Hash":
    """A digest of JSON-serialisable facts and of arrays; more may be added to a copy."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest


def name_of(common: "hashlib._Hash", training: BoolArray, first: int) -> str:
    """The end of a file's name: the number of the first model, and a digest of all inputs."""
    digest = common.copy()
    digest.update(f"{first} {training.shape}".encode() + np.packbits(training).tobytes())
    return f"{first:06d}-{digest.hexdigest()[:24]}.npz"


def cached_arrays(
    path: Path,
    shapes: Shapes,
    make: Callable[[], Mapping[str, AnyArray]],
    num_models: int,
    after_block: AfterBlock,
) -> Mapping[str, AnyArray]:
    """The arrays of a file; a missing file is first written with what `make` returns."""
    is_new = not path.exists()
    arrays = read_or_make(path, "a file of trained models", make)
    if {name: array.shape for name, array in arrays.items()} != shapes:
        raise InputError(f"{path}: is damaged; remove the file to train its models again")
    after_block(num_models, num_models if is_new else 0)
    return arrays


_RUNS_VERSION = 1
"""The version of the runs' training procedure, to be raised by a change that alters results."""


class FederatedRuns:
    """Runs of one config, trained one after another."""

    def __init__(self, run: PreparedRun, start: InitialWeights) -> None:
        """Compiles the process of a run with all clients and without canaries."""
        self._run = run
        self._start = start
        self._runtime = local_of(run)
        try:
            self._rounds = SeededRounds(
                self._runtime.process.next, clients_in_parallel(num_cores())
            )
        except NotCompilableError as error:
            raise InputError(f"an attack cannot run this process: {error}") from error
        task, self._classifier = run.task, as_classifier(run.task.classifier)
        self._clients = [task.population.examples(c) for c in range(run.num_clients)]
        self._losses_of = mean_losses_on(self._clients, self._classifier)
        self._accuracy_of = accuracy_on(task.held_out, self._classifier)

    def train(
        self, training: BoolArray, first: int, folder: Path, after_run: AfterBlock
    ) -> MemberOutputs:
        """Trains runs numbered from `first` on, or reads their files.

        `training` says which clients take part in a run, bool of shape (runs, clients). Accuracy is
        on held-out examples, losses are means over a client's examples, and margins are log-odds
        of e^-loss, or minus the loss if the task has no log-odds.
        """
        clients = training.shape[1:]
        shapes = {"margins": clients, "losses": clients, "accuracy": ()}
        outputs = []
        for number, mask in enumerate(training, start=first):
            path = folder / f"run-{name_of(self._digest, mask[None], number)}"
            run = functools.partial(self._outputs, mask, number)
            outputs.append(cached_arrays(path, shapes, run, 1, after_run))
        margins, losses, accuracy = (np.stack([run[name] for run in outputs]) for name in shapes)
        return MemberOutputs(margins, losses, accuracy)

    @functools.cached_property
    def _digest(self) -> "hashlib._Hash":
        everything = Examples.concatenate([*self._clients, self._run.task.held_out])
        sizes = [len(examples) for examples in self._clients]
        config = msgspec.to_builtins(self._run.config)
        config.pop("attack", None)  # a run does not depend on the number of runs
        return digest_of(
            [_RUNS_VERSION, config, sizes, self._start],
            [everything.inputs, everything.labels, *self._run.task.classifier.initial_weights],
        )

    def _outputs(self, mask: BoolArray, number: int) -> dict[str, AnyArray]:
        weights = self._trained(mask, number)
        losses = self._losses_of(weights).label
        if not np.isfinite(losses).all():
            raise InputError(
                "training diverged: a run's losses are not finite; use a smaller "
                "client.learning_rate"
            )
        accuracy = np.array(self._accuracy_of(weights))
        margins = margin_of_loss(losses) if self._classifier.has_log_odds else -losses
        return {"margins": margins, "losses": losses, "accuracy": accuracy}

    def _trained(self, mask: BoolArray, number: int) -> list[Float32Array]:
        """The weights after all rounds of one run."""
        run, seed = self._seeded(number), self._run.config.seed
        noise = int(generator(seed, Stream.MODEL_NOISE, number).integers(1, 2**31))
        one_round, read = self._rounds.begun(noise), run.cohort_data.round_data
        state = self._initial_state(number)
        for index in range(run.num_rounds):
            clients = run.schedule.clients(index)
            cohort = Cohort(clients[mask[clients]], np.zeros(0, np.int64))
            data = self._runtime.participants(state, read(cohort, index))
            state = one_round(state, data).state
        return model_weights(state)

    def _seeded(self, number: int) -> PreparedRun:
        """The prepared run with the seed of run `number`, for cohorts and orders of examples."""
        random = generator(self._run.config.seed, Stream.MODEL_ORDER, number)
        config = msgspec.structs.replace(self._run.config, seed=int(random.integers(2**62)))
        ids = self._run.task.population.client_ids
        schedule = make_schedule(
            config.participation,
            config.canaries,
            config.seed,
            ids,
            self._run.included,
            dropouts=config.dropouts,
        )
        return dataclasses.replace(self._run, config=config, schedule=schedule)

    def _initial_state(self, number: int) -> Any:
        """The state before the first round, new for each run: some mechanisms draw a key here."""
        with self._runtime.session():
            state = self._runtime.process.initialize()
        if self._start == "same":
            return state
        initial = initial_weights(self._run.task.classifier, self._run.config.seed, number)
        model = state.global_model_weights
        return state._replace(global_model_weights=model._replace(trainable=tuple(initial)))
