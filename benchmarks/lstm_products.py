"""The products of matrices of a step of the LSTM, in TensorFlow or in JAX, on one thread.

    python -m benchmarks.lstm_products tensorflow    # or jax

Printed are the least processor time of forty turns, for all products of a kind in a step of 16
sentences of 20 words, and their speed.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.next_word import BATCH_SIZE, PAPER

_TURNS = 40
_WORDS = BATCH_SIZE * PAPER.sequence_length
_GATES, _CLASSES = 4 * PAPER.lstm_size, PAPER.vocabulary_size + 3

LAYERS = {
    "inputs": (1, _WORDS, PAPER.embedding_size, _GATES),
    "recurrent": (PAPER.sequence_length, BATCH_SIZE, PAPER.lstm_size, _GATES),
    "narrow": (1, _WORDS, PAPER.lstm_size, PAPER.embedding_size),
    "output": (1, _WORDS, PAPER.embedding_size, _CLASSES),
}
"""How often a layer multiplies in a step, its rows, and the width of its inputs and outputs."""

Product = Callable[[Any, Any], Any]


def _in_tensorflow(transpose: bool) -> tuple[Product, Callable[[Any], Any]]:
    import tensorflow as tf

    return tf.function(lambda a, b: tf.matmul(a, b, transpose_b=transpose)), tf.constant


def _in_jax(transpose: bool) -> tuple[Product, Callable[[Any], Any]]:
    import jax
    import jax.numpy as jnp

    product = jax.jit(lambda a, b: a @ (b.T if transpose else b))
    return lambda a, b: product(a, b).block_until_ready(), jnp.asarray


def _row(name: str, framework: str, times: int, shape: tuple[int, int, int], last: bool) -> float:
    rows, inner, columns = shape
    product, placed = (_in_jax if framework == "jax" else _in_tensorflow)(last)
    random = np.random.default_rng(0)
    right = (columns, inner) if last else (inner, columns)
    factors = [placed(random.random(size, np.float32)) for size in ((rows, inner), right)]
    product(*factors)
    least = np.inf
    for _ in range(_TURNS):
        begin = time.process_time()
        product(*factors)
        least = min(least, time.process_time() - begin)
    speed = 2 * rows * inner * columns / least / 1e9
    print(f"{name:<34}{times * least * 1e3:7.2f} ms {speed:7.0f} GFLOP/s", flush=True)
    return times * least * 1e3


def main(framework: str) -> None:
    """Prints a row for each product, and their sum with the faster recurrent gradient."""
    total = 0.0
    for name, (times, rows, width, columns) in LAYERS.items():
        total += _row(name, framework, times, (rows, width, columns), False)
        back = (rows, columns, width)
        transposed = _row(f"{name}, back, second transposed", framework, times, back, True)
        beforehand = _row(f"{name}, back", framework, times, back, False)
        total += min(transposed, beforehand)
        total += _row(f"{name}, weights", framework, 1, (width, times * rows, columns), False)
    print(f"a step: {total:.1f} ms")


if __name__ == "__main__":
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = "1"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["XLA_FLAGS"] = (
        "--xla_force_host_platform_device_count=1 --xla_cpu_multi_thread_eigen=false"
    )
    main(sys.argv[1])
