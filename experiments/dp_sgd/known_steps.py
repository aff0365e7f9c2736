"""What known steps add to image canaries of DP-SGD: the attacks of README.md on one simulation.

NumPy alone, as gradients of a network with one hidden layer are outer products: the norms of all
examples' gradients and their inner products need no gradient.
"""

import argparse
import sys
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores

INPUTS, CLASSES, HIDDEN, SHARE, DELTA = 64, 10, 512, 0.1, 1e-4
BOUNDS = ("one_run_valid", "threshold_valid", "one_run_fdp")


@dataclass(frozen=True)
class Setting:
    """One training run.

    Attributes:
      source: `mislabelled` digits, or `noise` images of signs with random labels.
      clip: The clip norm.
      scale: A factor of the initial weights.
      rate: The learning rate times the clip norm.
      canaries: The number of canaries, each included by a fair coin.
      others: The number of further examples, which always train.
      rounds: The number of steps.
      noise: The noise multiplier.
      seed: The seed.
    """

    source: str = "mislabelled"
    clip: float = 5.0
    scale: float = 1.0
    rate: float = 10.0
    canaries: int = 500
    others: int = 1000
    rounds: int = 200
    noise: float = 1.0
    seed: int = 1


@dataclass(frozen=True, eq=False)
class Gradients:
    """Clipped gradients of examples, as sums of two outer products each.

    Attributes:
      inputs: Inputs with a 1 appended, of shape (n, 65).
      inner: Gradients at the hidden units, of shape (n, hidden).
      hidden: Hidden values with a 1 appended, of shape (n, hidden + 1).
      outer: Gradients at the logits, of shape (n, 10).
      scale: What clipping leaves of each, of shape (n,).
    """

    inputs: FloatArray
    inner: FloatArray
    hidden: FloatArray
    outer: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, weights: list[FloatArray], x: FloatArray, y: FloatArray, clip: float) -> Self:
        """The gradients of the cross-entropy at examples.

        Args:
          weights: The matrices of both layers, biases as last rows.
          x: Inputs, of shape (n, 64).
          y: One-hot labels, of shape (n, 10).
          clip: The clip norm.
        """
        inputs = np.pad(x, ((0, 0), (0, 1)), constant_values=1)
        before = inputs @ weights[0]
        hidden = np.pad(np.maximum(before, 0), ((0, 0), (0, 1)), constant_values=1)
        outer = special.softmax(hidden @ weights[1], axis=1) - y
        inner = (outer @ weights[1][:-1].T) * (before > 0)
        whole = cls(inputs, inner, hidden, outer, np.ones(len(x)))
        return replace(whole, scale=np.minimum(1, clip / np.sqrt(np.maximum(whole.squares, 1e-30))))

    @property
    def squares(self) -> FloatArray:
        """The squared norms before clipping, of shape (n,)."""
        first = np.sum(self.inputs**2, 1) * np.sum(self.inner**2, 1)
        return first + np.sum(self.hidden**2, 1) * np.sum(self.outer**2, 1)

    def total(self, weight: FloatArray) -> list[FloatArray]:
        """The weighted sum of the gradients, an array a layer."""
        w = (weight * self.scale)[:, None]
        return [self.inputs.T @ (w * self.inner), self.hidden.T @ (w * self.outer)]

    def products(self, vector: list[FloatArray]) -> FloatArray:
        """The inner product of each gradient with a vector."""
        first = np.sum((self.inputs @ vector[0]) * self.inner, axis=1)
        return self.scale * (first + np.sum((self.hidden @ vector[1]) * self.outer, axis=1))

    def cross(self, other: "Gradients") -> FloatArray:
        """All inner products of one of these gradients with one of the other."""
        first = (self.inputs @ other.inputs.T) * (self.inner @ other.inner.T)
        second = (self.hidden @ other.hidden.T) * (self.outer @ other.outer.T)
        return np.outer(self.scale, other.scale) * (first + second)


def likelihood_ratios(canaries: Gradients, rest: list[FloatArray], deviation: float) -> FloatArray:
    """The log likelihood ratio of each canary's coin from one step, others' coins unknown.

    The other canaries are noise of a known covariance v sum g gᵀ, v = q/2 (1 - q/2): a Gaussian in
    place of their coins. With K that and the noise's, a = gᵀ K⁻¹ g and c = gᵀ K⁻¹ y for all
    canaries come from the Gram matrix alone, and leave the canary itself out by Sherman and
    Morrison's formula.

    Args:
      canaries: The clipped gradients of all canaries at the step's model.
      rest: The step's noised sum without the real examples in it.
      deviation: The deviation of its noise.
    """
    chance = SHARE / 2
    v = chance * (1 - chance)
    gram = canaries.cross(canaries)
    inverse = np.linalg.inv(deviation**2 * np.eye(len(gram)) + v * gram)
    a = np.einsum("ij,ji->i", gram, inverse)
    mean = canaries.total(np.full(len(gram), chance))
    c = inverse @ canaries.products([r - m for r, m in zip(rest, mean, strict=True)]) + chance * a
    left = 1 - v * a
    signal, energy = c / left, a / left
    return np.logaddexp(np.log1p(-SHARE), np.log(SHARE) + signal - energy / 2)


def simulate(setting: Setting) -> dict[str, CanaryScores]:
    """Trains once, and scores the canaries by each attack."""
    rng = np.random.default_rng(setting.seed)
    x, y, labels = examples(setting.source, setting.canaries, rng)
    num = setting.canaries
    trained = num + setting.others
    included = rng.random(num) < 0.5
    takes_part = np.concatenate([included, np.ones(setting.others, bool)])
    is_other = np.arange(trained) >= num

    initial = weights = initial_weights(rng, setting.scale)
    sums = {name: np.zeros(num) for name in ("white box", "other examples known", "all of it")}
    step = setting.rate / setting.clip / (SHARE * (trained - num / 2))
    deviation = setting.clip * setting.noise
    for _ in range(setting.rounds):
        drawn = takes_part & (rng.random(trained) < SHARE)
        everybody = Gradients.of(weights, x[:trained], y[:trained], setting.clip)
        canaries = Gradients.of(weights, x[:num], y[:num], setting.clip)
        others = everybody.total((drawn & is_other).astype(float))
        noised = [
            t + deviation * rng.normal(size=t.shape) for t in everybody.total(drawn.astype(float))
        ]
        rest = [n - o for n, o in zip(noised, others, strict=True)]
        sums["white box"] += canaries.products(noised)
        sums["other examples known"] += canaries.products(rest)
        sums["all of it"] += likelihood_ratios(canaries, rest, deviation)
        weights = [w - step * n for w, n in zip(weights, noised, strict=True)]
    first, last = (losses(w, x[:num], y[:num]) for w in (initial, weights))
    sums = {"final loss": -last, "loss difference": first - last, **sums}
    right = np.mean(logits(weights, x[trained:]).argmax(1) == labels[trained:])
    sys.stderr.write(f"accuracy {right:.3f}\n")
    return {name: CanaryScores(s[included], s[~included]) for name, s in sums.items()}


def initial_weights(rng: np.random.Generator, scale: float = 1.0) -> list[FloatArray]:
    """The matrices of both layers before training, biases, which are 0, as last rows."""
    shapes = ((INPUTS + 1, HIDDEN), (HIDDEN + 1, CLASSES))
    weights = [scale * rng.normal(0, np.sqrt(2 / (n - 1)), (n, k)) for n, k in shapes]
    for w in weights:
        w[-1] = 0
    return weights


def examples(
    source: str, canaries: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Digits in random order, the first ones canaries: inputs, one-hot labels and labels.

    Args:
      source: `mislabelled`, `noise` as in `Setting`, or any other word for digits as they are.
      canaries: The number of canaries.
      rng: Random numbers.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(labels))
    x, labels = images[order] / 16, labels[order]
    canary = np.arange(len(x)) < canaries
    if source in ("mislabelled", "noise"):
        shifts = rng.integers(1, CLASSES, canaries)
        labels[canary] = (labels[canary] + shifts) % CLASSES
    if source == "noise":
        x[canary] = rng.choice([-1.0, 1.0], (canaries, x.shape[1]))
    return x, np.eye(CLASSES)[labels], labels


def logits(weights: list[FloatArray], x: FloatArray) -> FloatArray:
    """The logits of inputs, of shape (n, 10)."""
    hidden = np.maximum(x @ weights[0][:-1] + weights[0][-1], 0)
    return hidden @ weights[1][:-1] + weights[1][-1]


def losses(weights: list[FloatArray], x: FloatArray, y: FloatArray) -> FloatArray:
    """Minus the log-odds of the label."""
    found = logits(weights, x)
    others = special.logsumexp(np.where(y > 0, -np.inf, found), axis=1)
    return others - np.sum(found * y, axis=1)


def row(setting: Setting) -> str:
    """The row of README.md: for each attack its bounds, in the order of `BOUNDS`."""
    cells = []
    for scores in simulate(setting).values():
        audit = AuditSetting(scores, DELTA, 0.95)
        cells.append(" / ".join(f"{METHODS[method](audit).epsilon:.3g}" for method in BOUNDS))
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints the bounds of each attack."""
    parser = argparse.ArgumentParser(description=__doc__)
    for field in fields(Setting):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    sys.stdout.write(f"{row(Setting(**vars(parser.parse_args())))}\n")


if __name__ == "__main__":
    main()
