"""The engine in JAX: rounds of federated training on one device or on many."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import monitoring
from jax.tree_util import tree_flatten, tree_map, tree_unflatten

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.arrays import unflatten
from fl_audit.attacks.attacker import SeenRound
from fl_audit.attacks.uploads import ScoredCanaries
from fl_audit.checks import Check, replay_round
from fl_audit.engines import engine
from fl_audit.engines.client_blocks import BlockShape, PaddedBlock, pad_block
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.engine import Weights, promise_of, trial_updates
from fl_audit.engines.jax.aggregation import Norms
from fl_audit.engines.jax.device_blocks import NO_KEY, Blocks, default_clients_per_block
from fl_audit.engines.jax.from_config import aggregation_of, local_training, server_optimizer
from fl_audit.engines.jax.noise_processes import NoiseKeys, fresh_keys, keys_of
from fl_audit.engines.jax.scoring import scored_on
from fl_audit.engines.prepare import PreparedRun
from fl_audit.mechanisms import MECHANISMS
from fl_audit.mechanisms.mechanism_of_run import canary_length
from fl_audit.resources import set_jax_defaults
from fl_audit.tasks.jax.jax_classifier import JaxModel, in_full_precision
from fl_audit.tasks.jax.jax_networks import as_jax_model
from fl_audit.tasks.learning_task import Examples

# Measures of models: accuracy, and the losses for attacks.


_AT_ONCE = 64


def accuracy_on(
    held_out: Examples, model: JaxModel, padding_label: int
) -> Callable[[Weights], float]:
    """A function from weights to the share of counted labels that are predicted, in [0, 1].

    The share is 0 if no label counts.
    """
    count = jax.jit(model.accuracy_counts)

    def accuracy(weights: Weights) -> float:
        arrays, total = jax.device_put(list(weights)), np.zeros(2)
        with in_full_precision():
            for batch in _batches(held_out, padding_label):
                counts = count(arrays, batch.inputs[0, 0], batch.labels[0, 0])
                total += np.asarray(counts, np.float64)
        correct, counted = total
        return float(correct / counted) if counted else 0.0

    return accuracy


def mean_losses_on(
    owners: Sequence[Examples], model: JaxModel, padding_label: int
) -> Callable[[Weights], FloatArray]:
    """A function from weights to the mean of `attacked_losses` over each owner's tokens.

    It is in nats, float64 of shape (owners,); the mean is over examples where these have one label.
    """
    everything = Examples.concatenate(owners)
    owner = np.repeat(np.arange(len(owners)), [len(examples) for examples in owners])
    losses_of = jax.jit(model.attacked_by_example)

    def mean_losses(weights: Weights) -> FloatArray:
        arrays = jax.device_put(list(weights))
        with in_full_precision():
            parts = [
                np.asarray(losses_of(arrays, b.inputs[0, 0], b.labels[0, 0]), np.float64)
                for b in _batches(everything, padding_label)
            ]
        by_example = np.concatenate(parts, axis=1)[:, : len(everything)]
        losses, tokens = (np.bincount(owner, row) for row in by_example)
        return np.asarray(losses / tokens)

    return mean_losses


def _batches(examples: Examples, padding_label: int) -> Iterator[PaddedBlock]:
    """The examples in batches of one shape, the last batch padded, for one compiled program."""
    shape = BlockShape(1, 1, min(_AT_ONCE, len(examples)))
    for start in range(0, len(examples), _AT_ONCE):
        part = examples.take(np.arange(start, min(start + _AT_ONCE, len(examples))))
        yield pad_block([part], shape, padding_label)


# The time that JAX spends on compiling, from its own monitoring events.


_seconds_of = {
    "/jax/core/compile/jaxpr_to_mlir_module_duration": 0.0,
    "/jax/core/compile/backend_compile_duration": 0.0,
}
"""The seconds so far of lowering, and of XLA; not of tracing, whose events are nested."""


def _count(event: str, seconds: float, **of_event: object) -> None:
    if event in _seconds_of:
        _seconds_of[event] += seconds


# JAX cannot remove a single listener, so the process has one listener for all engines.
monitoring.register_event_duration_secs_listener(_count)


# The engine.


class State(NamedTuple):
    """The state of training before a round."""

    weights: Any  # a list of float32 arrays
    slots: Any  # the state of the server's optimizer
    norms: Norms  # the norms by which the round clips and zeroes
    noise: Any  # the state of correlated or client-side noise; else empty


class JaxEngine(engine.Engine):
    """Clients, aggregation and the server's step as compiled functions of JAX."""

    first_round = "in the first round JAX compiles its functions, which takes some seconds"
    packages = ("jax", "jaxlib")

    def __init__(
        self,
        run: PreparedRun,
        devices: Sequence[Any] | None = None,
        noise_keys: NoiseKeys | None = None,
    ) -> None:
        """The functions of a run, by default on all devices and with fresh noise keys."""
        self._seconds_before = sum(_seconds_of.values())
        config, model = run.config, run.task.classifier
        functions = as_jax_model(model)
        self._aggregation = aggregation_of(
            config.mechanism,
            run.noise,
            run.schedule.expected_cohort,
            run.num_rounds,
            [array.shape for array in model.initial_weights],
        )
        self._run = run
        self._devices = list(devices or jax.devices())
        self._keys = noise_keys or fresh_keys()
        self._optimizer = server_optimizer(config.server)
        size = config.clients_per_block or default_clients_per_block(model.dim, self._devices[0])
        self._blocks = Blocks(
            local_training(config.client, functions),
            self._aggregation,
            devices=self._devices,
            clients_per_block=size,
            batch_size=config.client.batch_size,
            padding_label=model.padding_label,
        )
        self._functions = functions
        self._finish = jax.jit(self._finished)
        self._noise_of = jax.jit(self._aggregation.noise_of)
        kind, count = self._devices[0].device_kind, len(self._devices)
        self.description = f"jax, on {count} x {kind}, {size} clients at once on each"

    @property
    def compile_seconds(self) -> float:
        return sum(_seconds_of.values()) - self._seconds_before

    def begin(self) -> State:
        weights = [jnp.asarray(array) for array in self._run.task.classifier.initial_weights]
        noise = self._aggregation.process.begin(weights, self._keys(0))
        slots = self._optimizer.begin(weights)
        return self._placed(State(weights, slots, self._aggregation.begin, noise))

    def _placed(self, state: State) -> State:
        """The state on the first device, where rounds end."""
        placed: State = jax.device_put(state, self._devices[0])
        return placed

    def reader(self, run: PreparedRun) -> engine.CohortReader:
        return run.cohort_data.round_data

    def run_round(self, state: State, data: RoundData, index: int) -> engine.TrainedRound:
        """Runs a round on all devices."""
        weights = self.weights(state)
        clip = float(state.norms.clip)
        length = canary_length(
            self._run.config.mechanism, clip, float(self._aggregation.zeroing_norm(state.norms))
        )
        key = self._aggregation.process.key_of_round(state.noise, self._keys(index))
        total = self.sum_of(weights, state.norms, data, length, key)
        after, aggregate = self._finish(state, total, key)
        loss, tokens = np.asarray(total.totals, np.float64)
        seen = SeenRound(
            index=index,
            before=engine.as_vector(weights),
            aggregate=engine.as_vector([np.asarray(part) for part in aggregate]),
            after=engine.as_vector([np.asarray(array) for array in after.weights]),
            clip_norm=clip,
            uploads=self._uploads(state, data, length, key),
        )
        stddev = clip * self._aggregation.noise.sum_noise_multiplier if np.isfinite(clip) else 0.0
        if self._aggregation.process.is_at_clients:
            stddev *= math.sqrt(len(data.clients) + len(data.canaries))
        return engine.TrainedRound(
            after, seen, noise_stddev=stddev, train_loss=float(loss / tokens) if tokens else 0.0
        )

    def sum_of(
        self, weights: engine.Weights, norms: Norms, data: Any, length: float, key: Any = NO_KEY
    ) -> Any:
        """The `Summed` of a round's participants, on the first device."""
        vectors = (
            unflatten(self._run.family.vector(int(canary)) * np.float32(length), weights)
            for canary in data.vectors
        )
        return self._blocks.sum_of(weights, norms, data.trained, vectors, key)

    def _uploads(
        self, state: State, data: RoundData, length: float, key: Any
    ) -> dict[int, Float32Array]:
        """Canaries' noised uploads if clients add noise and attackers see uploads; else none."""
        if not (self._aggregation.process.is_at_clients and engine.shows_uploads(self._run)):
            return {}
        uploads = {}
        for number, canary in enumerate(data.vectors, start=len(data.trained)):
            noise = self._noise_of(state.norms, list(state.weights), number, key)
            clipped = self._run.family.vector(int(canary)) * min(length, float(state.norms.clip))
            uploads[int(canary)] = clipped + engine.as_vector([np.asarray(part) for part in noise])
        return uploads

    def _finished(self, state: State, total: Any, key: Any) -> tuple[State, Any]:
        """The state after a round, and the aggregate that it releases."""
        aggregate, norms, noise = self._aggregation.release(state.norms, state.noise, total, key)
        # Optimizers descend along gradients; the aggregate points where the model moves.
        gradients = tree_map(jnp.negative, aggregate)
        slots, weights = self._optimizer.step(state.slots, list(state.weights), gradients)
        return State(weights, slots, norms, noise), aggregate

    def weights(self, state: State) -> engine.Weights:
        return [np.asarray(array) for array in state.weights]

    def leaves(self, state: State) -> list[engine.Leaf]:
        """The parts of a state, in JAX's order."""
        return [np.asarray(leaf) for leaf in tree_flatten(state)[0]]

    def from_leaves(self, like: State, leaves: Sequence[engine.Leaf]) -> State:
        return self._placed(tree_unflatten(tree_flatten(like)[1], list(leaves)))

    def replay(self, run: PreparedRun) -> tuple[Check, ...]:
        """Replays the first round with vectors as updates, so that nothing is trained."""
        if why_not := MECHANISMS.kind_of(run.config.mechanism).why_not_replayed:
            return (engine.not_replayed(why_not),)
        process = self._aggregation.process
        state, like = self.begin(), run.task.classifier.initial_weights

        def server(state: State, updates: Any, random: np.random.Generator) -> tuple[State, Any]:
            vectors = ([np.asarray(part, np.float32) for part in update] for update in updates)
            total = self._blocks.sum_of(self.weights(state), state.norms, [], vectors)
            key = process.key_of_round(state.noise, keys_of(random)(0))
            after, aggregate = self._finish(state, total, key)
            return after, [np.asarray(part) for part in aggregate]

        def clip_norm_of(state: State) -> float:
            return float(state.norms.clip)

        def zeroing_norm_of(state: State) -> float:
            return float(self._aggregation.zeroing_norm(state.norms))

        promise = promise_of(run, clip_norm_of(state), zeroing_norm_of(state))
        updates = trial_updates([array.shape for array in like], promise, run.config.seed)
        # A state fixes correlated noise, so two states are needed.
        begun = None if promise.correlation is None else (self.begin(), self.begin())
        return replay_round(
            server,
            state,
            updates,
            run.config.seed,
            promise,
            begun=begun,
            clip_norm_of=clip_norm_of,
            zeroing_norm_of=zeroing_norm_of,
        ).findings

    def scored_canaries(self, run: PreparedRun) -> ScoredCanaries:
        """The canaries, scored on the accelerator where `scored_on` can do so, else on the CPU."""
        return scored_on(run.family, self._devices[0]) or run.family

    def losses(self, run: PreparedRun) -> Callable[[engine.Weights], FloatArray]:
        padding = run.task.classifier.padding_label
        return mean_losses_on(run.canary_examples, self._functions, padding)

    def client_updates(self, run: PreparedRun) -> engine.ClientUpdates:
        initial = run.task.classifier.initial_weights
        return lambda model, clients: self._blocks.updates(unflatten(model, initial), clients)

    def evaluator(self, run: PreparedRun) -> Callable[[engine.Weights], float]:
        padding = run.task.classifier.padding_label
        return accuracy_on(run.task.held_out, self._functions, padding)


def make(run: PreparedRun, worker_log: Path, why: str) -> JaxEngine:
    """The engine of a run on all devices that JAX sees."""
    set_jax_defaults()
    return JaxEngine(run)
