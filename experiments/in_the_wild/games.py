"""Canary games on released code: is a stated guarantee contradicted by what the library releases?

    python -m experiments.in_the_wild.games

Each is a `Game`. One of a library that needs an environment of its own is next to its features.
"""

import functools
import math

import numpy as np
from flwr.clientapp.mod import LocalDpMod

from experiments.in_the_wild import appfl, flower, opacus, pfl
from experiments.in_the_wild.feature import (
    CLIP_NORM,
    COHORT,
    NOISE_MULTIPLIER,
    SHAPES,
    pin_randomness,
)
from experiments.in_the_wild.game import DELTA, Game, print_verdicts

_SIZE = sum(math.prod(shape) for shape in SHAPES)
_DIRECTION = np.full(_SIZE, 1 / math.sqrt(_SIZE))
"""The direction of the canary."""


def _update(length: float) -> list[np.ndarray]:
    ends = np.cumsum([math.prod(shape) for shape in SHAPES])[:-1]
    parts = np.split(length * _DIRECTION, ends)
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES, strict=True)]


def _along(released: list[np.ndarray]) -> float:
    return float(np.concatenate([np.ravel(part) for part in released]) @ _DIRECTION)


def _pairs(number: int, length: float) -> list[list[np.ndarray]]:
    """Clients of so large an update that they are clipped, of which every two cancel."""
    return [_update(length if index % 2 else -length) for index in range(number)]


def _ratio(shifts: dict[float, float]) -> float:
    """The likelihood ratio's score of values by their shifts, both in standard deviations."""
    length = math.hypot(*shifts.values())
    return sum(value * shift for value, shift in shifts.items()) / length


# Flower.


def uneven(included: bool, random: np.random.Generator) -> float:
    """Flower, fixed clipping: the canary says that it has 1,000 examples, the others 100."""
    strategy = flower.fixed("ServerSide")()
    canary = _update(10 * CLIP_NORM if included else flower.NEXT_TO_NOTHING)
    _, released = flower.server(flower.uneven)(strategy, [canary], random)
    return _along(released) / (NOISE_MULTIPLIER * CLIP_NORM / COHORT)


def counted_by_flower(included: bool, random: np.random.Generator) -> float:
    """Flower, adaptive clipping: the sum, and the count that the new clip norm tells."""
    strategy = flower.adaptive("ServerSide")()
    others = _pairs(COHORT - 2, 10 * CLIP_NORM)
    canary = _update(10 * CLIP_NORM if included else flower.NEXT_TO_NOTHING)
    strategy, released = flower.server(flower.equal)(strategy, [canary, *others], random)
    fraction = strategy.target_clipped_quantile - (
        math.log(strategy.clipping_norm / CLIP_NORM) / strategy.clip_norm_lr
    )
    count = fraction * COHORT - len(others)
    stddev = strategy.noise_multiplier * strategy.clipping_norm / COHORT
    return _ratio(
        {
            _along(released) / stddev: CLIP_NORM / COHORT / stddev,
            count / strategy.clipped_count_stddev: 1 / strategy.clipped_count_stddev,
        }
    )


def local(epsilon: float, included: bool, random: np.random.Generator) -> float:
    """Flower, LocalDpMod: one upload, with the clip norm as its sensitivity."""
    pin_randomness(random)
    mod = LocalDpMod(CLIP_NORM, CLIP_NORM, epsilon, DELTA)
    sent = flower.reply(_update(10 * CLIP_NORM if included else flower.NEXT_TO_NOTHING), 1)
    reply = flower.clipped_by(mod, CLIP_NORM, sent)
    released = next(iter(reply.content.array_records.values())).to_numpy_ndarrays()
    return _along(released) / (CLIP_NORM * math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon)


# Opacus and pfl.


def counted_by_opacus(included: bool, random: np.random.Generator) -> float:
    """Opacus, AdaClipDPOptimizer: the gradient, and the count that the new clip norm tells.

    The canary is just short enough not to be clipped; all others are clipped.
    """
    pin_randomness(random)
    optimizer = opacus.optimizer(opacus.optimizers.AdaClipDPOptimizer, **opacus.ADAPTIVE)
    batch = _pairs(COHORT - 2, 10 * CLIP_NORM)
    if included:
        batch.append(_update(0.9999 * CLIP_NORM))
    released = opacus.step(optimizer, batch)
    fraction = optimizer.target_unclipped_quantile - (
        math.log(float(optimizer.max_grad_norm) / CLIP_NORM) / optimizer.clipbound_learning_rate
    )
    stddev = opacus.OF_SUM * CLIP_NORM / COHORT
    return _ratio(
        {
            _along(released) / stddev: CLIP_NORM / COHORT / stddev,
            fraction * len(batch) / opacus.UNCLIPPED_STD: 1 / opacus.UNCLIPPED_STD,
        }
    )


def counted_by_pfl(included: bool, random: np.random.Generator) -> float:
    """pfl, adaptive clipping: the sum, and the indicator that the new clip norm tells."""
    mechanism = pfl.adaptive()
    others = [*_pairs(10, 10 * CLIP_NORM), *_pairs(10, 0.01 * CLIP_NORM)]
    scale = mechanism._get_clipping_indicator_scale()
    overall = mechanism._get_overall_clipping_bound()
    users = [*others, _update(10 * CLIP_NORM)] if included else others
    mechanism, released = pfl.round_of(mechanism, users, random)
    quantile = mechanism._adaptive_clipping_norm_quantile - (
        math.log(mechanism.mutable_clipping_bound.value() / CLIP_NORM)
        / mechanism._log_space_step_size
    )
    stddev = NOISE_MULTIPLIER * overall
    indicators = (2 * quantile - 1) * len(users) * scale
    return _ratio(
        {_along(released) / stddev: CLIP_NORM / stddev, indicators / stddev: -scale / stddev}
    )


def first_of_a_matrix(included: bool, random: np.random.Generator) -> float:
    """pfl, banded matrix factorisation: the canary takes part in the first iteration of 16."""
    mechanism, columns = pfl.matrix_stream(), pfl.matrix_mechanism().query_matrix
    sums = []
    for number in range(pfl.ROUNDS):
        user = _update(10 * CLIP_NORM if included and number == 0 else 0.0)
        mechanism, released = pfl.round_of(mechanism, [user], random)
        sums.append(_along(released))
    whitened = columns @ sums / (NOISE_MULTIPLIER * CLIP_NORM)
    return float(whitened @ columns[:, 0] / np.linalg.norm(columns[:, 0]))


# APPFL.

_APPFL_STDDEV = appfl.SENSITIVITY * math.sqrt(2 * math.log(1.25 / DELTA))


def perturbed(epochs: int, included: bool, random: np.random.Generator) -> float:
    """APPFL, output perturbation at ε = 1: an upload, of a client whose gradients are all alike."""
    sent = appfl.upload(appfl.Linear(), included, random, epsilon=1.0, epochs=epochs)
    return -float(sent["weights"].sum()) / math.sqrt(appfl.SIZE) / _APPFL_STDDEV


# The games.


def _of_count(count_stddev: float, sum_stddev: float) -> float:
    """The mu of a sum of clip norm 1 and of a count of sensitivity 1."""
    return math.hypot(1 / sum_stddev, 1 / count_stddev)


_MU = ("--claimed-mu", str(1 / NOISE_MULTIPLIER))
_LOCAL = 50.0

GAMES_PLAYED = (
    Game("flwr: fixed clipping, uneven examples", _MU, uneven, 10 * COHORT / (COHORT + 9)),
    Game(
        "flwr: adaptive clipping, the count has sensitivity 1",
        _MU,
        counted_by_flower,
        _of_count(
            COHORT / 20,
            float(flower.adaptive("ServerSide")().noise_multiplier) * math.exp(-0.2 * 0.5),
        ),
    ),
    Game(
        "flwr: LocalDpMod at ε = 50",
        ("--claimed-epsilon", str(_LOCAL)),
        functools.partial(local, _LOCAL),
        _LOCAL / math.sqrt(2 * math.log(1.25 / DELTA)),
    ),
    Game(
        "opacus: AdaClipDPOptimizer, the count has sensitivity 1",
        _MU,
        counted_by_opacus,
        _of_count(opacus.UNCLIPPED_STD, opacus.OF_SUM),
    ),
    *(
        Game(
            f"appfl: output perturbation, local epochs: {epochs}",
            ("--claimed-epsilon", "1"),
            functools.partial(perturbed, epochs),
            epochs * appfl.LEARNING_RATE * appfl.CLIP / _APPFL_STDDEV,
        )
        for epochs in (1, 20)
    ),
    Game("pfl: adaptive clipping (control)", _MU, counted_by_pfl, 1 / NOISE_MULTIPLIER),
    Game(
        "pfl: banded matrix factorisation, once in 16 iterations",
        _MU,
        first_of_a_matrix,
        float(np.linalg.norm(pfl.matrix_mechanism().query_matrix[:, 0])) / NOISE_MULTIPLIER,
    ),
)


if __name__ == "__main__":
    print_verdicts(GAMES_PLAYED)
