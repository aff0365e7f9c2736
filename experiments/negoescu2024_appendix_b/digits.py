"""Epsilon* of models trained without noise, by both losses; see README.md."""

import sys

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

from experiments.negoescu2024_appendix_b.mixtures import kolmogorov_smirnov_table
from fl_audit.estimators.epsilon_star import (
    LossTransform,
    epsilon_star,
    epsilon_star_empirical,
    log_odds_losses,
)
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.tf.classifier import cross_entropy
from fl_audit.tasks.tf.networks import as_classifier

MEMBERS, BATCH, RATE, DELTA = 1000, 20, 0.1, 1e-5
EPOCHS = (10, 30, 100, 300)


def main(seed: int) -> None:
    """Trains one model on 1,000 images and prints rows after some numbers of epochs."""
    images, labels = load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    order = random.permutation(len(labels))
    inputs, classes = (images / 16).astype(np.float32)[order], labels.astype(np.int32)[order]
    model = as_classifier(dense_classifier([64, 512, 10], seed, ""))
    weights = [tf.Variable(array) for array in model.initial_weights]

    @tf.function
    def step(batch_inputs: tf.Tensor, batch_labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = model.loss(model.logits(weights, batch_inputs), batch_labels)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(RATE * gradient)

    for epoch in range(1, max(EPOCHS) + 1):
        for batch in np.split(random.permutation(MEMBERS), MEMBERS // BATCH):
            step(inputs[batch], classes[batch])
        if epoch in EPOCHS:
            logits = model.logits(weights, inputs)
            _print_rows(epoch, logits.numpy(), classes)


def _print_rows(epoch: int, logits: np.ndarray, labels: np.ndarray) -> None:
    accuracy = np.mean(logits.argmax(axis=1) == labels, where=np.arange(len(labels)) >= MEMBERS)
    by_loss = {
        "cross-entropy": cross_entropy(logits, labels).numpy().astype(np.float64),
        "minus log-odds": log_odds_losses(logits, labels),
    }
    for name, losses in by_loss.items():
        members, others = losses[:MEMBERS], losses[MEMBERS:]
        setting = AuditSetting(CanaryScores(-members, -others), DELTA, 0.95)
        found = [method(setting).epsilon for method in (epsilon_star, epsilon_star_empirical)]
        transformed = LossTransform.from_losses(members, others).logits
        fits = [
            kolmogorov_smirnov_table(
                transformed(part), num_components=(1,), num_samples=range(50, 501, 50), seed=1
            ).not_rejected()[0]
            for part in (members, others)
        ]
        row = [str(epoch), f"{accuracy:.1%}", name, str(np.sum(members == 0))]
        row += [f"{epsilon:.2f}" for epsilon in found] + [
            f"{10 * share:.0f} of 10" for share in fits
        ]
        sys.stdout.write(f"| {' | '.join(row)} |\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
