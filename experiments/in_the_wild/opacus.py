"""Opacus's optimizers, from per-sample gradients to the gradient that the optimizer steps with."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from opacus import optimizers

from experiments.in_the_wild.feature import (
    CLIP_NORM,
    COHORT,
    NOISE_MULTIPLIER,
    SHAPES,
    Feature,
    pin_randomness,
)
from fl_audit import Promise

UNCLIPPED_STD = 1.0


def optimizer(kind: type, **keys: Any) -> Any:
    """An optimizer of the small model."""
    parameters = [torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64)) for shape in SHAPES]
    return kind(
        torch.optim.SGD(parameters, lr=1.0),
        **{
            "noise_multiplier": NOISE_MULTIPLIER,
            "max_grad_norm": CLIP_NORM,
            "expected_batch_size": COHORT,
            **keys,
        },
    )


def _samples(updates: list, part: int) -> torch.Tensor:
    """The per-sample gradients of a parameter, of shape (samples, *shape)."""
    shape = (0, *SHAPES[part])
    if not updates:
        return torch.zeros(shape, dtype=torch.float64)
    return torch.tensor(np.stack([np.asarray(update[part], float) for update in updates]))


def step(optimizer: Any, updates: list) -> list[np.ndarray]:
    """One step on one batch."""
    for part, parameter in enumerate(optimizer.params):
        parameter.grad_sample = _samples(updates, part)
    optimizer.pre_step()
    return [parameter.grad.numpy() for parameter in optimizer.params]


def _virtual(optimizer: Any, updates: list) -> list[np.ndarray]:
    """One step on one batch in two physical ones, as BatchMemoryManager has it."""
    half = len(updates) // 2
    optimizer.signal_skip_step(do_skip=True)
    for part, parameter in enumerate(optimizer.params):
        parameter.grad_sample = _samples(updates[:half], part)
    optimizer.pre_step()
    optimizer.zero_grad()
    optimizer.signal_skip_step(do_skip=False)
    return step(optimizer, updates[half:])


def _accumulated(optimizer: Any, updates: list) -> list[np.ndarray]:
    """One step on two batches whose gradients were accumulated before it."""
    half = len(updates) // 2
    for part, parameter in enumerate(optimizer.params):
        parameter.grad_sample = [_samples(updates[:half], part), _samples(updates[half:], part)]
    optimizer.pre_step()
    return [parameter.grad.numpy() for parameter in optimizer.params]


def _server(one_step: Callable, make: Callable[[], Any]) -> Callable:
    """A round of an optimizer that is made anew, as PyTorch's cannot be copied."""

    def run(_: Any, updates: list, random: np.random.Generator) -> tuple[Any, Any]:
        pin_randomness(random)
        return None, one_step(make(), updates)

    return run


_STATED = (
    "noise_multiplier: The ratio of the standard deviation of the Gaussian noise to the "
    "L2-sensitivity of the function to which the noise is added"
)


def _feature(
    name: str, kind: type, one_step: Callable = step, promise: dict | None = None, **keys: Any
) -> Feature:
    numbers = {
        "clip_norm": CLIP_NORM,
        "denominator": COHORT,
        "noise_multiplier": NOISE_MULTIPLIER,
        **(promise or {}),
    }
    return Feature(
        name=name,
        library="opacus",
        stated=_STATED,
        source="PrivacyEngine.make_private",
        reading="one sample more or less, Poisson batches",
        promise=Promise(**numbers),
        server=_server(one_step, functools.partial(optimizer, kind, **keys)),
    )


OF_SUM = (NOISE_MULTIPLIER**-2 - (2 * UNCLIPPED_STD) ** -2) ** -0.5
_PER_LAYER = [0.1, 0.1, 0.2, 0.2]
ADAPTIVE = {
    "target_unclipped_quantile": 0.5,
    "clipbound_learning_rate": 0.2,
    "max_clipbound": 1e8,
    "min_clipbound": 1e-8,
    "unclipped_num_std": UNCLIPPED_STD,
}

FEATURES = (
    _feature("DPOptimizer, mean", optimizers.DPOptimizer),
    _feature(
        "DPOptimizer, sum", optimizers.DPOptimizer, promise={"denominator": 1}, loss_reduction="sum"
    ),
    _feature("DPOptimizer, virtual steps", optimizers.DPOptimizer, _virtual),
    _feature(
        "DPOptimizer, accumulated gradients",
        optimizers.DPOptimizer,
        _accumulated,
        {"denominator": 2 * COHORT},
    ),
    _feature("DPOptimizer, secure_mode", optimizers.DPOptimizer, secure_mode=True),
    _feature(
        "DPPerLayerOptimizer",
        optimizers.DPPerLayerOptimizer,
        promise={"clip_norm": float(np.linalg.norm(_PER_LAYER))},
        max_grad_norm=_PER_LAYER,
    ),
    _feature(
        "AdaClipDPOptimizer",
        optimizers.AdaClipDPOptimizer,
        promise={"noise_multiplier": OF_SUM, "smallest_cohort": 1},
        **ADAPTIVE,
    ),
    _feature(
        "AdaClipDPOptimizer, virtual steps",
        optimizers.AdaClipDPOptimizer,
        _virtual,
        promise={"noise_multiplier": OF_SUM, "smallest_cohort": 2},
        **ADAPTIVE,
    ),
)
