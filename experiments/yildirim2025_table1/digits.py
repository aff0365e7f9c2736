"""The losses of algorithms A1 to A4 on handwritten digits, in place of the paper's MNIST."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

from fl_audit.array_types import FloatArray
from fl_audit.engines.shadow_recipe import Recipe, batches_of_model, initial_weights, stacked
from fl_audit.engines.tff.shadow_models import ModelBlockTrainer
from fl_audit.membership.outputs import margin
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.tf.classifier import Classifier
from fl_audit.tasks.tf.networks import as_classifier

SIZE, HIDDEN = 300, 32
RECIPE = Recipe(epochs=60, batch_size=50, learning_rate=0.1, momentum=0.9)
NOISES = {f"A3, σ = {s}": ("A1", s) for s in (0.1, 0.3)}
NOISES |= {f"A4, σ = {s}": ("A2", s) for s in (0.01, 0.05, 0.1, 0.2, 0.3)}
"""The algorithms with output noise: which one's models it moves, and its deviation."""


def trained_losses(
    num_bases: int, num_models: int, seed: int
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """The losses, minus the log-odds of the label, by algorithm.

    A1 and A2 are trained, with the same and with random initial weights; A3 and A4 are the same
    models with noise on their weights, the same draws at every deviation.

    Args:
      num_bases: The number of random bases, each with a random point.
      num_models: The number of models with the point, and of models without it.
      seed: The seed.

    Returns:
      Losses without and with the point, each float64 of shape (bases, models).
    """
    images, labels = load_digits(return_X_y=True)
    data = Examples((images / 16).astype(np.float32), labels.astype(np.int32))
    classifier = _classifier(seed)
    trainer = ModelBlockTrainer(classifier, RECIPE, data)
    rng, noise_rng = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    names = ("A1", "A2", *NOISES)
    found: dict[str, list[FloatArray]] = {name: [] for name in names}
    for base in range(num_bases):
        points = rng.permutation(len(labels))[: SIZE + 1]
        for name in ("A1", "A2"):
            block = _Block(points, num_models, 10_000 * base + seed)
            weights = block.train(trainer, classifier if name == "A1" else None)
            found[name].append(_losses(trainer, weights, data, points[0]))
            noise = [noise_rng.standard_normal(w.shape) for w in weights]
            for noised, (of, deviation) in NOISES.items():
                if of == name:
                    moved = [w + deviation * n for w, n in zip(weights, noise, strict=True)]
                    found[noised].append(_losses(trainer, moved, data, points[0]))
    return {
        name: (np.stack(rows)[:, :num_models], np.stack(rows)[:, num_models:])
        for name, rows in found.items()
    }


@dataclass(frozen=True, eq=False)
class _Block:
    """The models on a base, the second half of them with its point, which comes first."""

    points: npt.NDArray[np.int64]
    num_models: int
    seed: int

    def train(self, trainer: ModelBlockTrainer, fixed: Classifier | None) -> list[FloatArray]:
        """The trained weights; initial ones are those of `fixed`, or each model's own."""
        members = [self.points[1:]] * self.num_models + [self.points] * self.num_models
        of_models = [
            initial_weights(_classifier(self.seed), self.seed, number)
            if fixed is None
            else list(fixed.initial_weights)
            for number in range(len(members))
        ]
        batches = [
            batches_of_model(np.sort(rows), RECIPE, self.seed, number)
            for number, rows in enumerate(members)
        ]
        initial = [np.stack(arrays) for arrays in zip(*of_models, strict=True)]
        trained = trainer.train(initial, stacked(batches), np.arange(len(members)))
        return [np.asarray(weight) for weight in trained]


def _classifier(seed: int) -> Classifier:
    return as_classifier(dense_classifier([64, HIDDEN, 10], seed, ""))


def _losses(
    trainer: ModelBlockTrainer, weights: list[FloatArray], data: Examples, point: int
) -> FloatArray:
    """The losses of a point under all models of a block, float64 of shape (models,)."""
    logits = trainer.logits([w.astype(np.float32) for w in weights], data.inputs[[point]])
    return -margin(logits, data.labels[[point]])[:, 0]
