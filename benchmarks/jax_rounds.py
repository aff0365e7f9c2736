"""The tables of `gpu.py`: rounds of next-word clients in JAX, by block, precision and size."""

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.equality import check
from benchmarks.next_word import BATCH_SIZE, GROWING, PAPER, Sizes, made_up_clients, model_of
from benchmarks.rows import Rows
from benchmarks.timing import seconds, wall_time
from fl_audit.canaries.families import CanaryFamily, GaussianFamily, HadamardFamily
from fl_audit.engines.client_blocks import clients_in_memory
from fl_audit.engines.jax.aggregation import Aggregation, Norms
from fl_audit.engines.jax.device_blocks import Blocks
from fl_audit.engines.jax.local_training import OptimizerSteps, sgd
from fl_audit.engines.jax.scoring import GaussianOnDevice, HadamardOnDevice, ScoredFamily, scored_on
from fl_audit.tasks.client_text import PADDING
from fl_audit.tasks.jax.jax_networks import as_jax_model

_CLIP = 1.0
_PAPER_CLIENTS = 10 * 342_000
"""Clients in the runs of Tables 2 and 3 of Andrew et al. (2023): ten epochs of Stack Overflow."""


@dataclass(frozen=True)
class NoNoise:
    """The noise of a round that has none."""

    sum_noise_multiplier: float = 0.0
    count_noise_stddev: float = 0.0


@dataclass(frozen=True)
class Plan:
    """What is measured on a kind of device.

    Attributes:
      sizes: The sizes of the model.
      clients: The number of clients in a round.
      batches: The number of batches of a client.
      blocks: Numbers of clients that train at once.
      growing: The sizes of growing models.
      products: The number of rows of the matrices whose product is the peak.
      canaries: The number of canaries that are scored.
      gaussian: The number of `gaussian` canaries that are scored on the device.
    """

    sizes: Sizes
    clients: int
    batches: int
    blocks: Sequence[int]
    growing: Sequence[Sizes]
    products: int
    canaries: int
    gaussian: int


_TINY = Sizes(60, 8, 12, 5)
ACCELERATOR = Plan(PAPER, 128, 4, (1, 4, 16, 64, 128), GROWING[:4], 8192, 2000, 2000)
CPU = Plan(GROWING[1], 8, 2, (1, 4), GROWING[:2], 1024, 2000, 16)
TINY = Plan(_TINY, 4, 2, (1, 4), (_TINY,), 64, 50, 4)


class Round:
    """A round of made-up clients on one device."""

    def __init__(
        self,
        sizes: Sizes,
        clients: int,
        batches: int,
        block: int,
        *,
        precision: str = "float32",
        side_by_side: bool | None = None,
    ) -> None:
        """Makes up the clients; functions are compiled when the round is first run.

        Args:
          sizes: The sizes of the model.
          clients: The number of clients.
          batches: The number of batches of each.
          block: The number of clients that train at once.
          precision: The precision of factors of products, as JAX names it.
          side_by_side: See `Blocks`.
        """
        model = model_of(sizes)
        self.weights = model.initial_weights
        self.clients = made_up_clients(sizes, clients, batches)
        self.flops = sizes.flops_per_batch * clients * batches
        self._training = OptimizerSteps(as_jax_model(model), sgd(0.1, 0.0), 0.0)
        self._norms = Norms(jnp.float32(_CLIP), jnp.float32(np.inf))
        self._aggregation = Aggregation(self._norms, 0.5, 0.2, None, NoNoise(), float(clients))
        self._block, self._precision, self._side_by_side = block, precision, side_by_side
        self.blocks = self._on(jax.devices()[0])

    def _on(self, device: Any) -> Blocks:
        return Blocks(
            self._training,
            self._aggregation,
            devices=[device],
            clients_per_block=self._block,
            batch_size=BATCH_SIZE,
            padding_label=PADDING,
            precision=self._precision,
            side_by_side=self._side_by_side,
        )

    def run(self, vectors: Sequence[Any] = ()) -> Any:
        """The sum of the clipped updates, and of canaries' vectors."""
        return self._sum(self.blocks, len(self.clients), vectors)

    def _sum(self, blocks: Blocks, count: int, vectors: Sequence[Any] = ()) -> Any:
        total = blocks.sum_of(self.weights, self._norms, self.clients[:count], iter(vectors))
        return flat(jax.block_until_ready(total).updates)

    def difference_from_cpu(self) -> float:
        """The distance of two clients' sum from the CPU's, over the CPU's."""
        count = min(2, len(self.clients))
        found = self._sum(self.blocks, count)
        expected = self._sum(self._on(jax.devices("cpu")[0]), count)
        return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def flat(arrays: Sequence[Any]) -> np.ndarray:
    """Arrays as one vector, float64."""
    return np.concatenate([np.ravel(np.asarray(array, np.float64)) for array in arrays])


def print_tables(time_limit: float, tiny: bool) -> bool:
    """Prints everything.

    Args:
      time_limit: The seconds after which no row begins.
      tiny: Whether to use small sizes that only try the script.

    Returns:
      Whether every row has its numbers.
    """
    device = jax.devices()[0]
    print(f"JAX {jax.__version__}, NumPy {np.__version__}, Python {platform.python_version()}")
    print(f"{len(jax.devices())} x {device.device_kind} ({device.platform}), of which one is used")
    if device.platform == "cpu":
        print("No accelerator: this runs on the CPU, with smaller sizes.")
    plan = TINY if tiny else CPU if device.platform == "cpu" else ACCELERATOR
    rows = Rows(time_limit)
    peaks: list[float] = []
    rows.row("peak of float32 products", lambda: _peak(plan.products, peaks))
    shape = f"d = {plan.sizes.dim:,}, {plan.batches} batches of {BATCH_SIZE}"
    print(f"rounds of LSTM clients, {shape}; a sum of two within 1e-4 of the CPU's (float32)")
    print(f"{'':34}{'clients/s':>12}{'GFLOP/s':>12}{'of peak':>10}{'difference':>12}{'compile':>9}")
    rates: list[float] = []
    for block in plan.blocks:
        name = f"{plan.clients} clients, {block} at once"
        made = (plan.sizes, plan.clients, plan.batches, block)
        rows.row(name, lambda made=made: _trained(Round(*made), peaks, rates, 1e-4))
    rows.row("audited round over unaudited", lambda: _audited(plan))
    if rates:
        hours = _PAPER_CLIENTS / max(rates) / 3600
        print(
            f"training of 10 x 342,000 such clients: {hours:,.1f} hours on this device", flush=True
        )
    block = plan.blocks[-1]
    made = (plan.sizes, plan.clients, plan.batches, block)
    for precision in ("tensorfloat32", "bfloat16"):
        rows.row(
            f"{precision}, {block} at once",
            lambda precision=precision: _trained(Round(*made, precision=precision), peaks, [], 0.5),
        )
    rows.row(f"memory of {block} at once, by XLA", lambda: _planned(Round(*made)))
    for sizes in plan.growing:
        room = _memory(device)
        at_once = plan.blocks[1] if room is None else clients_in_memory(sizes.dim, room)
        rows.row(
            f"d = {sizes.dim:,}, {at_once} at once",
            lambda sizes=sizes, size=at_once: _trained(
                Round(sizes, 2 * size, 2, size), peaks, [], 1e-4
            ),
        )
    dim = plan.sizes.dim
    hadamard = HadamardFamily(0, plan.canaries, dim)
    gaussian = GaussianFamily(0, plan.gaussian, dim)
    for name, family, make in (
        ("hadamard", hadamard, lambda: HadamardOnDevice(hadamard, device)),
        ("gaussian", gaussian, lambda: GaussianOnDevice(gaussian, device, plan.gaussian)),
    ):
        rows.row(
            f"{family.num_canaries:,} {name}, on the device",
            lambda family=family, make=make: _scored(family, make),
        )
    return rows.all_came_out


def _peak(rows: int, peaks: list[float]) -> str:
    random = np.random.default_rng(0)
    factors = [jnp.asarray(random.standard_normal((rows, rows), np.float32)) for _ in range(2)]
    with jax.default_matmul_precision("float32"):
        product = jax.jit(jnp.matmul)
        product(*factors).block_until_ready()
        took = min(wall_time(lambda: product(*factors).block_until_ready()) for _ in range(5))
    peaks.append(2 * rows**3 / took)
    return f"{peaks[0] / 1e9:>12,.0f} GFLOP/s"


def _trained(made: Round, peaks: Sequence[float], rates: list[float], most: float) -> str:
    first = wall_time(made.run)
    difference = made.difference_from_cpu()
    check(difference, 0.0, most)
    took = min(wall_time(made.run) for _ in range(3))
    rate, flops = len(made.clients) / took, made.flops / took
    rates.append(rate)
    share = f"{flops / peaks[0]:.0%}" if peaks else "unknown"
    used = _used(jax.devices()[0])
    return (
        f"{rate:>12.4g}{flops / 1e9:>12,.0f}{share:>10}{difference:>12.1e}"
        f"{seconds(max(first - took, 0.0)):>9}{used}"
    )


def _planned(made: Round) -> str:
    return f"{made.blocks.planned_bytes(made.weights, made.clients[0]) / 1e6:>12,.0f} MB"


def _audited(plan: Plan) -> str:
    """The time of a round with two canaries, all scored where runs do it, over that without."""
    made = Round(plan.sizes, plan.clients, plan.batches, plan.blocks[-1])
    family = HadamardFamily(0, plan.canaries, plan.sizes.dim)
    on_device = scored_on(family, jax.devices()[0])
    scored, where = (family, "host") if on_device is None else (on_device, "device")
    ends = np.cumsum([weight.size for weight in made.weights])[:-1]

    def canary(at: int) -> list[np.ndarray]:
        parts = np.split(family.vector(at) * np.float32(1e6), ends)
        return [p.reshape(w.shape) for p, w in zip(parts, made.weights, strict=True)]

    def audited() -> None:
        scored.cosines(made.run([canary(0), canary(1)]).astype(np.float32))

    audited()
    made.run()
    ratios = sorted(wall_time(audited) / wall_time(made.run) for _ in range(5))
    scoring = wall_time(lambda: scored.cosines(np.ones(plan.sizes.dim, np.float32)))
    return (
        f"{ratios[2]:>12.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}); scoring of {plan.canaries:,} "
        f"canaries on the {where} {seconds(scoring)}"
    )


def _scored(family: CanaryFamily, make: Callable[[], ScoredFamily]) -> str:
    """The time of scores on the device and on the host, and how far they are apart."""
    target = np.random.default_rng(1).standard_normal(family.dim).astype(np.float32)
    target[: family.dim // 2] *= 10
    started = time.perf_counter()
    scored = make()
    found = scored.cosines(target)
    first = time.perf_counter() - started
    took = min(wall_time(lambda: scored.cosines(target)) for _ in range(3))
    started = time.perf_counter()
    expected = family.cosines(target)
    on_host = time.perf_counter() - started
    apart = float(np.abs(found - expected).max() * family.dim**0.5)
    check(apart, 0.0, 1e-4)
    return (
        f"{seconds(took):>12}, on the host {seconds(on_host)}; {apart:.1e} standard deviations "
        f"apart; before the first {seconds(max(first - took, 0.0))}"
    )


def _memory(device: Any) -> int | None:
    stats = device.memory_stats()
    return stats["bytes_limit"] if stats else None


def _used(device: Any) -> str:
    """The largest memory of the process on the device so far, where it is known."""
    stats = device.memory_stats()
    return f", at most {stats['peak_bytes_in_use'] / 1e6:,.0f} MB so far" if stats else ""
