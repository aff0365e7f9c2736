"""Lower bounds from random images in DP-SGD, compared with mislabelled images and vectors.

The mechanism of known_steps.py in NumPy, with the statistic `white_box_ratio` of `fl-audit run`
(`fl_audit.attacks.update_ratio`) from outer products in place of whole gradients.
"""

import argparse
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from experiments.dp_sgd.known_steps import (
    CLASSES,
    DELTA,
    INPUTS,
    SHARE,
    Gradients,
    initial_weights,
    logits,
    losses,
)
from fl_audit.array_types import FloatArray, IntArray
from fl_audit.attacks.update_ratio import MOST_DIRECTIONS, Signals, log_likelihood_ratios
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.null import EMPIRICAL, Null, SignCanaryNull
from fl_audit.estimators.random_signs import concentration_of
from fl_audit.estimators.scores import Inclusion

BOUNDS = ("threshold_valid", "one_run_valid", "threshold_gdp")
STAND_INS = 128


@dataclass(frozen=True)
class Setting:
    """One training run.

    Attributes:
      source: Random images (`signs` of -1 and 1, or `in_range`, of 0 and 1), `mislabelled` digits,
        or `vectors`.
      canaries: The size of the pool.
      coin: The probability with which each canary is included.
      others: The number of further examples, which always train.
      clip: The clip norm.
      rate: The learning rate times the clip norm.
      rounds: The number of steps.
      noise: The noise multiplier.
      seed: The seed.
    """

    source: str = "signs"
    canaries: int = 4000
    coin: float = 0.1
    others: int = 1500
    clip: float = 5.0
    rate: float = 10.0
    rounds: int = 200
    noise: float = 1.0
    seed: int = 1


Images = tuple[FloatArray, IntArray]


def made(source: str, count: int, held_out: Images, rng: np.random.Generator) -> Images:
    """Images and labels made as canaries are, from digits of no other client."""
    if source == "mislabelled":
        x, labels = (array[:count] for array in held_out)
        return x, (labels + rng.integers(1, CLASSES, len(x))) % CLASSES
    x = rng.integers(0, 2, (count, INPUTS)).astype(np.float32)
    return (2 * x - 1 if source == "signs" else x), rng.integers(0, CLASSES, count)


def gradients(weights: list[FloatArray], images: Images, clip: float) -> Gradients:
    """The clipped gradients of images, in float32."""
    return Gradients.of(weights, images[0], np.eye(CLASSES, dtype=np.float32)[images[1]], clip)


def signals(
    canaries: Gradients,
    stand_ins: Gradients,
    counts: FloatArray,
    repeats: float,
    noised: list[FloatArray],
) -> Signals:
    """The signals of `fl_audit.attacks.update_ratio.RoundFilter`."""
    gram = stand_ins.cross(stand_ins).astype(np.float64)
    root = np.sqrt(repeats * counts)
    variances, mixes = np.linalg.eigh(root[:, None] * gram * root)
    variances, mixes = variances[-MOST_DIRECTIONS:], mixes[:, -MOST_DIRECTIONS:]
    mix = root[:, None] * mixes / np.sqrt(variances)
    of_sum = stand_ins.products(noised)
    along = (of_sum - gram @ counts) @ mix
    square = sum(float(np.sum(np.square(part, dtype=np.float64))) for part in noised)
    square += counts @ gram @ counts - 2 * counts @ of_sum - along @ along
    noise = square / (sum(part.size for part in noised) - len(variances))
    removed = variances / (noise + variances)
    between = canaries.cross(stand_ins)
    inside = between @ mix
    rest = canaries.products(noised) - between @ counts
    energy = canaries.squares * canaries.scale**2 - inside**2 @ removed
    return Signals((rest - inside @ (removed * along)) / noise, np.maximum(energy, 0) / noise)


class Vectors:
    """Canaries that send random signs, scored by the sum of the directions of all rounds."""

    def __init__(self, setting: Setting, like: list[FloatArray], rng: np.random.Generator) -> None:
        """Draws the pool, for a model with these weights."""
        self._shapes = [part.shape for part in like]
        self._dim = sum(part.size for part in like)
        drawn = rng.choice(np.float32([-1, 1]), (setting.canaries, self._dim))
        self._vectors = drawn / np.float32(np.sqrt(self._dim))
        self._clip = np.float32(setting.clip)
        self._direction = np.zeros(self._dim)

    def send(self, weights: list[FloatArray], present: IntArray) -> list[FloatArray]:
        """The sum of what some canaries send, an array a layer."""
        del weights
        total = self._clip * self._vectors[present].sum(0)
        parts = np.split(total, [math.prod(self._shapes[0])])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def see(self, weights: list[FloatArray], noised: list[FloatArray]) -> None:
        """Adds a round's noised sum."""
        del weights
        flat = np.concatenate([part.ravel() for part in noised]).astype(np.float64)
        self._direction += flat / np.linalg.norm(flat)

    def scores(self, initial: list[FloatArray], weights: list[FloatArray]) -> dict[str, FloatArray]:
        """The scores by statistic."""
        del initial, weights
        unit = self._direction / np.linalg.norm(self._direction)
        return {"sum": self._vectors @ unit.astype(np.float32)}

    def null(self) -> Null:
        """What is known of excluded scores."""
        tail = SignCanaryNull(self._dim, concentration_of(self._direction))
        return Null("closed_form", tail, self._dim)


class ImagePool:
    """Canaries that hold an image each."""

    def __init__(
        self, setting: Setting, canaries: Images, public: Images, rng: np.random.Generator
    ) -> None:
        """Makes stand-ins from images outside training.

        Args:
          setting: The training run.
          canaries: The canaries' images.
          public: Images like the others'.
          rng: Random numbers.
        """
        half = min(STAND_INS, len(public[0]) // 2)
        alike = made(setting.source, half, (public[0][half:], public[1][half:]), rng)
        self._stand_ins = (
            np.concatenate([public[0][:half], alike[0]]),
            np.concatenate([public[1][:half], alike[1]]),
        )
        expected = SHARE * setting.others, SHARE * setting.coin * setting.canaries
        self._counts = np.repeat([each / half for each in expected], half)
        self._canaries, self._setting = canaries, setting
        self._sum, self._ratios = np.zeros((2, setting.canaries))

    def send(self, weights: list[FloatArray], present: IntArray) -> list[FloatArray]:
        """The sum of what some canaries send, an array a layer."""
        images = self._canaries[0][present], self._canaries[1][present]
        sent = gradients(weights, images, self._setting.clip)
        return sent.total(np.ones(len(present), np.float32))

    def see(self, weights: list[FloatArray], noised: list[FloatArray]) -> None:
        """Adds what a round's noised sum says of each canary."""
        pool = gradients(weights, self._canaries, self._setting.clip)
        others = gradients(weights, self._stand_ins, self._setting.clip)
        self._sum += pool.products(noised)
        seen = signals(pool, others, self._counts, SHARE * self._setting.rounds, noised)
        self._ratios += log_likelihood_ratios(seen, SHARE)

    def scores(self, initial: list[FloatArray], weights: list[FloatArray]) -> dict[str, FloatArray]:
        """The scores by statistic."""
        y = np.eye(CLASSES)[self._canaries[1]]
        first, last = (losses(w, self._canaries[0], y) for w in (initial, weights))
        return {
            "white_box": self._sum,
            "white_box_ratio": self._ratios,
            "final_loss": -last,
            "loss_difference": first - last,
        }

    def null(self) -> Null:
        """Nothing is known of excluded scores."""
        return EMPIRICAL


def simulate(setting: Setting) -> tuple[Mapping[str, CanaryScores], Null]:
    """Trains once; the scores by statistic, and what is known of excluded ones."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(setting.seed)
    x, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(x))
    x, labels = (x[order] / 16).astype(np.float32), labels[order]
    included = rng.random(setting.canaries) < setting.coin
    taken = setting.canaries if setting.source == "mislabelled" else 0
    held = (x[:taken], labels[:taken]) if taken else (x, labels)
    canaries = made(setting.source, setting.canaries, held, rng)
    x, labels = x[taken:], labels[taken:]
    num = setting.others
    public = x[num:], labels[num:]
    weights = initial = [w.astype(np.float32) for w in initial_weights(rng)]
    pool = (
        Vectors(setting, weights, rng)
        if setting.source == "vectors"
        else ImagePool(setting, canaries, public, rng)
    )
    deviation = np.float32(setting.clip * setting.noise)
    expected = SHARE * (num + setting.coin * setting.canaries)
    step = np.float32(setting.rate / setting.clip / expected)
    for _ in range(setting.rounds):
        real = np.flatnonzero(rng.random(num) < SHARE)
        present = np.flatnonzero(included & (rng.random(setting.canaries) < SHARE))
        clients = gradients(weights, (x[real], labels[real]), setting.clip)
        parts = clients.total(np.ones(len(real), np.float32)), pool.send(weights, present)
        noised = [
            a + b + deviation * rng.standard_normal(a.shape, np.float32)
            for a, b in zip(*parts, strict=True)
        ]
        pool.see(weights, noised)
        weights = [w - step * part for w, part in zip(weights, noised, strict=True)]
    right = np.mean(logits(weights, public[0]).argmax(1) == public[1])
    sys.stderr.write(f"accuracy {right:.3f}\n")
    inclusion: Inclusion = "coins" if setting.coin == 0.5 else "unequal_coins"
    return {
        name: CanaryScores(s[included], s[~included], inclusion, setting.coin)
        for name, s in pool.scores(initial, weights).items()
    }, pool.null()


def row(setting: Setting) -> str:
    """The source, the seed, and for each statistic its bounds in the order of `BOUNDS`."""
    scores, null = simulate(setting)
    cells = []
    for name, values in scores.items():
        audit = AuditSetting(values, DELTA, 0.95, null)
        found = " ".join(f"{METHODS[method](audit).epsilon:.3g}" for method in BOUNDS)
        cells.append(f"{name} {found}")
    return ", ".join([setting.source, str(setting.seed), *cells])


def main() -> None:
    """Prints the bounds of each statistic."""
    parser = argparse.ArgumentParser(description=__doc__)
    for field in fields(Setting):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    sys.stdout.write(f"{row(Setting(**vars(parser.parse_args())))}\n")


if __name__ == "__main__":
    main()
