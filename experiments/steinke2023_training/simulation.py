"""DP-SGD on digits with Dirac or image canaries, in NumPy; one run is less than a second."""

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.dp_sgd.known_steps import (
    Gradients,
    examples,
    initial_weights,
    logits,
    losses,
)
from fl_audit.accounting import Denominator, Party, PoissonSampling, Release, account
from fl_audit.accounting.analytical import noise_multiplier_for
from fl_audit.accounting.noise_distributions import GAUSSIAN
from fl_audit.array_types import FloatArray
from fl_audit.estimators import CanaryScores

DELTA = 1e-5
CLIP_NORM, LEARNING_RATE = 5.0, 2.0


@dataclass(frozen=True)
class Training:
    """One training run.

    Attributes:
      kind: `dirac` for canaries whose gradient is one coordinate of the clip norm; `mislabelled` or
        `in_distribution` for canaries that are images.
      canaries: The number m of canaries, each included by a fair coin.
      others: The number n - m of further images, which always train.
      steps: The number of steps.
      share: The probability of an example in a step.
      epsilon: The analytical epsilon at delta 1e-5, for which the noise is found.
      seed: The seed of everything.
    """

    kind: Literal["dirac", "mislabelled", "in_distribution"]
    canaries: int
    others: int
    steps: int = 200
    share: float = 0.1
    epsilon: float = 8.0
    seed: int = 0


@dataclass(frozen=True)
class Trained:
    """What came of a training run.

    Attributes:
      scores: The canaries' scores by the name of the attack.
      accuracy: The share of right answers on images outside training.
    """

    scores: dict[str, CanaryScores]
    accuracy: float


@functools.cache
def noise_multiplier(epsilon: float, steps: int, share: float) -> float:
    """The least noise multiplier of so many sampled steps that guarantees an epsilon."""

    def epsilon_of(multiplier: float) -> float | None:
        point = Party(PoissonSampling(share))
        release = Release(
            rounds=steps,
            noise=GAUSSIAN.noise(multiplier, multiplier),
            denominator=Denominator("expected_cohort", 1.0),  # no epsilon depends on it
            client=point,
            canary=point,
        )
        return account(release, DELTA).client.epsilon

    return noise_multiplier_for(epsilon, epsilon_of)


# Two threads round sums in another order than one, and training goes on from there.
@threadpool_limits.wrap(limits=1)
def train(setting: Training) -> Trained:
    """Trains once and scores the canaries, by the inner product of section 6.1 or by the loss."""
    rng = np.random.default_rng((setting.seed, setting.canaries, setting.others, setting.steps))
    m, images = setting.canaries, setting.kind != "dirac"
    num_images = setting.others + (m if images else 0)
    x, y, labels = examples(setting.kind, m if images else 0, rng)
    included = rng.random(m) < 0.5
    trains = np.concatenate([included[: m if images else 0], np.ones(setting.others, bool)])
    initial = weights = initial_weights(rng)
    dim = sum(w.size for w in weights)
    coordinates = rng.choice(dim, 0 if images else m, replace=False)
    signs = rng.choice([-1.0, 1.0], len(coordinates))
    deviation = CLIP_NORM * noise_multiplier(setting.epsilon, setting.steps, setting.share)
    expected = setting.share * (setting.others + m / 2)
    products = np.zeros(len(coordinates))
    for _ in range(setting.steps):
        drawn = np.flatnonzero(trains & (rng.random(num_images) < setting.share))
        gradients = Gradients.of(weights, x[drawn], y[drawn], CLIP_NORM)
        total = np.concatenate([g.ravel() for g in gradients.total(np.ones(len(drawn)))])
        total += deviation * rng.standard_normal(dim)
        if not images:
            present = included & (rng.random(m) < setting.share)
            total[coordinates[present]] += CLIP_NORM * signs[present]
            products += signs * total[coordinates]
        weights = _moved(weights, LEARNING_RATE / expected * total)
    right = logits(weights, x[num_images:]).argmax(1) == labels[num_images:]
    found = {"inner product": products}
    if images:
        first, last = (losses(w, x[:m], y[:m]) for w in (initial, weights))
        found = {"final loss": -last, "loss difference": first - last}
    scores = {name: CanaryScores(s[included], s[~included]) for name, s in found.items()}
    return Trained(scores, float(np.mean(right)))


def _moved(weights: list[FloatArray], step: FloatArray) -> list[FloatArray]:
    """The weights after a step against a gradient, all layers in one array."""
    first, second = weights
    return [
        first - step[: first.size].reshape(first.shape),
        second - step[first.size :].reshape(second.shape),
    ]
