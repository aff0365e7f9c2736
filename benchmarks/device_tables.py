"""The tables of `gpu.py`: what a device does in training and in scoring."""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from benchmarks.device_training import Cohort
from benchmarks.equality import check
from benchmarks.matrix_products import matrix_product_peak
from benchmarks.next_word import GROWING, PAPER, Sizes
from benchmarks.peak_memory import megabytes, peak_bytes
from benchmarks.peers import stateless_normal
from benchmarks.rows import Rows
from benchmarks.timing import race, seconds, wall_time
from fl_audit.canaries.families import HadamardFamily
from fl_audit.engines.tff.blocks import default_clients_per_block

_TINY_SIZES = Sizes(60, 8, 12, 5)


@dataclass(frozen=True)
class Plan:
    """What is measured on a kind of device.

    Attributes:
      sizes: Sizes of the model in the table by block.
      clients: Number of clients in the table by block.
      batches: Number of batches of a client in the table by block.
      blocks: Numbers of clients that train at once.
      cohorts: Numbers of clients in a round.
      growing: Sizes of growing models.
      dims: Numbers of parameters in the table of scoring, at 2,000 canaries.
      counts: Numbers of canaries in the table of scoring, at the third of `dims`.
      peers: Number of canaries that the peer scores; its time is scaled to the pool.
      peak_sizes: Numbers of rows of the matrices whose product is the peak.
    """

    sizes: Sizes
    clients: int
    batches: int
    blocks: Sequence[int]
    cohorts: Sequence[int]
    growing: Sequence[Sizes]
    dims: Sequence[int]
    counts: Sequence[int]
    peers: int
    peak_sizes: Sequence[int]


_COUNTS = (100, 1000, 10_000, 100_000)
_DIMS = (10**5, 10**6, 4_050_748, 10**7, 10**8)
GPU = Plan(
    PAPER, 64, 4, (1, 4, 16, 64), (10, 100, 1000), GROWING, _DIMS, _COUNTS, 200, (2048, 4096, 8192)
)
CPU = Plan(
    GROWING[1], 16, 2, (1, 4, 16), (10, 100), GROWING[:3], _DIMS[:3], _COUNTS, 20, (1024, 2048)
)
TINY = Plan(_TINY_SIZES, 4, 2, (1, 4), (3,), (_TINY_SIZES,), (1000,), (100,), 3, (64,))

COUNT = 2000


def print_tables(time_limit: float, tiny: bool) -> bool:
    """Prints everything, with and without TensorFloat-32.

    Args:
      time_limit: Seconds after which no row begins.
      tiny: Whether to use small sizes that only try the script.

    Returns:
      Whether every row has its numbers.
    """
    gpus = tf.config.list_physical_devices("GPU")
    print_device(gpus)
    if not gpus:
        built = "with" if tf.test.is_built_with_cuda() else "without"
        print(f"No GPU: TensorFlow, built {built} CUDA, sees none. This runs on the CPU, with")
        print("smaller sizes.")
    plan = TINY if tiny else GPU if gpus else CPU
    rows = Rows(time_limit)
    for tf32 in (False, True) if gpus else (False,):
        tf.config.experimental.enable_tensor_float_32_execution(tf32)
        print(f"\nTensorFloat-32 {'on' if tf32 else 'off'}")
        training_tables(rows, plan, tf32)
        scoring_tables(rows, plan, tf32)
    return rows.all_came_out


def print_device(gpus: Sequence[tf.config.PhysicalDevice]) -> None:
    """Prints the versions of the software and the names of the devices."""
    build = tf.sysconfig.get_build_info()
    print(f"TensorFlow {tf.__version__}, CUDA {build.get('cuda_version', 'none')}, ", end="")
    print(f"cuDNN {build.get('cudnn_version', 'none')}, NumPy {np.__version__}, ", end="")
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPU cores")
    for gpu in gpus:
        print(tf.config.experimental.get_device_details(gpu))
    if gpus and shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv"]
        print(subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip())


def training_tables(rows: Rows, plan: Plan, tf32: bool) -> None:
    """Prints clients a second by block, cohort and size."""
    peaks: list[float] = []

    def peak() -> str:
        peaks.append(matrix_product_peak(plan.peak_sizes))
        return f"{peaks[0] / 1e9:,.0f} GFLOP/s"

    rows.row("Matrix-product peak", peak)
    # TensorFloat-32 rounds factors to 11 bits, 5e-4 of each, in a few steps of training.
    most = 1e-2 if tf32 else 1e-4
    print(f"Training the LSTM: updates within {most:g} of their length of those of clients that")
    print("trained one by one without TensorFloat-32; their sum stays on the device.")
    print(f"{'':34}{'clients/s':>12}{'GFLOP/s':>12}{'of peak':>10}{'difference':>12}{'memory':>14}")

    def row(name: str, sizes: Sizes, clients: int, batches: int, block: int) -> None:
        rows.row(name, lambda: _training(Cohort(sizes, clients, batches), block, most, peaks))

    for block in plan.blocks:
        name = f"{plan.clients} clients, {block} at once"
        row(name, plan.sizes, plan.clients, plan.batches, block)
    for cohort in plan.cohorts:
        row(f"{cohort} clients, 16 at once", plan.sizes, cohort, 1, 16)
    for sizes in plan.growing:
        block = default_clients_per_block(sizes.dim)
        row(f"d = {sizes.dim:,}, {block} at once", sizes, 2 * block, 2, block)


def _training(cohort: Cohort, block: int, most: float, peaks: Sequence[float]) -> str:
    difference = cohort.difference_from_one_by_one(block)
    check(difference, 0.0, most)
    _forget_peak_memory()
    took = min(wall_time(lambda: cohort.train(block)) for _ in range(3))
    flops = cohort.flops / took
    share = f"{flops / peaks[0]:.0%}" if peaks else "unknown"
    return (
        f"{cohort.num_clients / took:>12.4g}{flops / 1e9:>12,.0f}{share:>10}"
        f"{difference:>12.1e}{_peak_memory():>14}"
    )


def scoring_tables(rows: Rows, plan: Plan, tf32: bool) -> None:
    """Prints times of scoring Hadamard canaries by d, against the peer, and by k."""
    # The unit is the standard deviation of an excluded canary's cosine. Rounding to 11 bits before
    # each of the three products changed 2,000 cosines by 1.4e-3 at most (NumPy, d = 10^6).
    most = 3e-3 if tf32 else 1e-3
    print(f"Scoring hadamard canaries, within {most:g} standard deviations of explicit vectors;")
    print(f"peer: tf.random.stateless_normal one by one, from {plan.peers} in proportion")
    print(f"{'':34}{'ours':>10}  {'peer':>10}  how many times as fast (range), memory")
    for dim in plan.dims:
        name = f"d = {dim:,}, k = {COUNT:,}"
        rows.row(name, lambda dim=dim: _against_peer(dim, plan.peers, most))
    dim = plan.dims[min(2, len(plan.dims) - 1)]
    for count in plan.counts:
        rows.row(f"d = {dim:,}, k = {count:,}", lambda count=count: _scoring(dim, count))


def _against_peer(dim: int, peers: int, most: float) -> str:
    target = np.random.default_rng(1).standard_normal(dim, np.float32)
    tensor = tf.constant(target)
    pool = HadamardFamily(0, COUNT, dim)
    unit = target.astype(np.float64) / np.linalg.norm(target.astype(np.float64))
    some = [0, 1, COUNT - 1]
    expected = [float(pool.vector(j).astype(np.float64) @ unit) for j in some]
    check(pool.cosines(target)[some], expected, most / dim**0.5)
    numbers = stateless_normal.vector(dim, 1).numpy().astype(np.float64)
    found = stateless_normal.cosines(tensor, 2)[1]
    check(found, float(numbers @ unit) / np.linalg.norm(numbers), most / dim**0.5)
    _forget_peak_memory()
    taken = race(
        lambda: pool.cosines(target), lambda: stateless_normal.cosines(tensor, peers), turns=3
    )
    return f"{taken.per(1, peers / COUNT)}, {_peak_memory()}"


def _scoring(dim: int, count: int) -> str:
    target = np.random.default_rng(1).standard_normal(dim, np.float32)
    pool = HadamardFamily(0, count, dim)
    pool.cosines(target)
    return f"{seconds(wall_time(lambda: pool.cosines(target), 3)):>10}"


def _forget_peak_memory() -> None:
    if tf.config.list_physical_devices("GPU"):
        tf.config.experimental.reset_memory_stats("GPU:0")


def _peak_memory() -> str:
    """The peak memory of the GPU since its last reset, or of the process where there is no GPU."""
    if tf.config.list_physical_devices("GPU"):
        return megabytes(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    return megabytes(peak_bytes())
