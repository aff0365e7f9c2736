"""The speed at which a device multiplies float32 matrices, a reference for training speed."""

import time
from concurrent.futures import ThreadPoolExecutor

import tensorflow as tf

_SIZES, _PRODUCTS = (1024, 2048), 4


def matrix_product_peak(side_by_side: int = 1) -> float:
    """The speed of the fastest of a few chains of products, in floating-point operations a second.

    Args:
      side_by_side: Number of chains at the same time, where TensorFlow gives an operation one core.
    """
    return max(_flops_per_second(size, side_by_side) for size in _SIZES)


def _flops_per_second(size: int, side_by_side: int) -> float:
    # With this deviation the entries of products are as large as those of the first factor.
    start = tf.random.normal([size, size])
    factor = tf.random.normal([size, size], stddev=size**-0.5)

    def chain_seconds() -> float:
        begin = time.perf_counter()
        for result in threads.map(lambda _: _chain(start, factor).numpy(), range(side_by_side)):
            del result
        return time.perf_counter() - begin

    with ThreadPoolExecutor(side_by_side) as threads:
        chain_seconds()
        best = min(chain_seconds() for _ in range(5))
    return 2 * size**3 * _PRODUCTS * side_by_side / best


@tf.function
def _chain(start: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """A number that needs all products, so that waiting for it waits for them."""
    for _ in range(_PRODUCTS):
        start = tf.matmul(start, factor)
    return start[0, 0]
