"""tensorflow-privacy's queries, which TensorFlow Federated aggregates with, and optimizers."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_privacy as tfp

from experiments.in_the_wild.feature import (
    CLIP_NORM,
    COHORT,
    NOISE_MULTIPLIER,
    SHAPES,
    Feature,
    pin_randomness,
)
from fl_audit import Promise

_COUNT_STDDEV = 3.0


def _round(
    make: Callable[[], Any], _: Any, updates: list, random: np.random.Generator
) -> tuple[Any, list]:
    """A round of a query: preprocess and accumulate records, then the noised result."""
    pin_randomness(random)
    query = make()
    state = query.initial_global_state()
    like = [tf.zeros(shape) for shape in SHAPES]
    params = query.derive_sample_params(state)
    total = query.initial_sample_state(like)
    for update in updates:
        record = query.preprocess_record(params, [tf.constant(p, tf.float32) for p in update])
        total = query.accumulate_preprocessed_record(total, record)
    released, _, _ = query.get_noised_result(total, state)
    return None, [part.numpy() for part in released]


def _sum() -> Any:
    return tfp.GaussianSumQuery(CLIP_NORM, NOISE_MULTIPLIER * CLIP_NORM)


def _mean() -> Any:
    return tfp.NormalizedQuery(_sum(), denominator=COHORT)


def _adaptive() -> Any:
    return tfp.QuantileAdaptiveClipSumQuery(
        initial_l2_norm_clip=CLIP_NORM,
        noise_multiplier=NOISE_MULTIPLIER,
        target_unclipped_quantile=0.5,
        learning_rate=0.2,
        clipped_count_stddev=_COUNT_STDDEV,
        expected_num_records=COHORT,
        geometric_update=True,
    )


def _feature(make: Callable[[], Any], stated: str, denominator: float) -> Feature:
    kind = type(make()).__name__
    return Feature(
        name=kind,
        library="tensorflow-privacy",
        stated=stated,
        source=kind,
        reading="one record more or less",
        promise=Promise(
            clip_norm=CLIP_NORM, denominator=denominator, noise_multiplier=NOISE_MULTIPLIER
        ),
        server=functools.partial(_round, make),
    )


def _step(
    make: Callable[[], Any], _: Any, updates: list, random: np.random.Generator
) -> tuple[Any, list]:
    """The gradients of an optimizer, for a batch that is filled up with zeros."""
    pin_randomness(random)
    missing = [[np.zeros(shape) for shape in SHAPES]] * (COHORT - len(updates))
    batch = [
        tf.constant(np.stack(parts), tf.float32) for parts in zip(*updates, *missing, strict=True)
    ]
    variables = [tf.Variable(tf.zeros(shape)) for shape in SHAPES]
    with tf.GradientTape(persistent=True) as tape:
        products = [
            tf.reshape(part * variable, (len(part), -1))
            for part, variable in zip(batch, variables, strict=True)
        ]
        losses = tf.add_n([tf.reduce_sum(product, axis=1) for product in products])
    pairs = make()._compute_gradients(losses, variables, tape=tape)
    return None, [gradient.numpy() for gradient, _ in pairs]


def _optimizer(name: str) -> Feature:
    make = functools.partial(
        getattr(tfp, name),
        l2_norm_clip=CLIP_NORM,
        noise_multiplier=NOISE_MULTIPLIER,
        learning_rate=1.0,
    )

    return Feature(
        name=name,
        library="tensorflow-privacy",
        stated="Differentially private subclass ... l2_norm_clip: Clipping norm (max L2 norm of "
        "per microbatch gradients). noise_multiplier: Ratio of the standard deviation to the "
        "clipping norm.",
        source=name,
        reading="one example of the batch is replaced by one without a gradient",
        promise=Promise(clip_norm=CLIP_NORM, denominator=COHORT, noise_multiplier=NOISE_MULTIPLIER),
        server=functools.partial(_step, make),
        warned=("denominator",),
    )


FEATURES = (
    _feature(_sum, "Implements DPQuery interface for Gaussian sum queries.", 1),
    _feature(_mean, "DPQuery for queries with a DPQuery numerator and fixed denominator.", COHORT),
    _feature(_adaptive, "DPQuery for Gaussian sum queries with adaptive clipping.", 1),
    _optimizer("DPKerasSGDOptimizer"),
    _optimizer("DPKerasAdamOptimizer"),
    _optimizer("VectorizedDPKerasSGDOptimizer"),
)
