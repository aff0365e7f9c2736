"""Whole federated runs of one config, each with a part of the clients: shadow models of clients.

Each run is the process that `fl-audit run` trains, compiled once for all of them, with its own seed
for cohorts, orders and noise. A client that is left out keeps its place in the schedule and sends
nothing, as an excluded canary does: two runs that differ in one client are neighbours in the sense
of the config's accounting.

Of each run, what attacks need is kept: its losses on each client's examples, and its accuracy.
"""

import dataclasses
import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.shadow_recipe import InitialWeights, initial_weights
from fl_audit.engines.tff.compiled import NotCompilableError, SeededRounds
from fl_audit.engines.tff.local import clients_in_parallel, local_of
from fl_audit.engines.tff.measures import Evaluator, MeanLosses
from fl_audit.engines.tff.rounds import model_weights
from fl_audit.engines.tff.shadow_models import AfterBlock, cached_arrays, digest_of, name_of
from fl_audit.errors import InputError
from fl_audit.formats.npy_file import AnyArray
from fl_audit.membership.outputs import margin_of_loss
from fl_audit.participation import Cohort, make_schedule
from fl_audit.resources import num_cores
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.tf.networks import as_classifier

BoolArray = npt.NDArray[np.bool_]

_VERSION = 1
"""The version of the training procedure, to be raised by a change that alters its numbers."""


@dataclass(frozen=True, eq=False)
class RunOutputs:
    """Outputs of the final models of runs, for each client."""

    margins: FloatArray  # (runs, clients), the log-odds of e^-loss; minus the loss without log-odds
    losses: FloatArray  # mean on the client's examples, (runs, clients)
    accuracy: FloatArray  # on held-out examples, (runs,)


class FederatedRuns:
    """Runs of one config, trained one after another."""

    def __init__(self, run: PreparedRun, start: InitialWeights) -> None:
        """Compiles the process of a run with all clients and without canaries."""
        self._run = run
        self._start = start
        self._runtime = local_of(run)
        try:
            self._rounds = SeededRounds(
                self._runtime.process.next, clients_in_parallel(num_cores())
            )
        except NotCompilableError as error:
            raise InputError(f"an attack cannot run this process: {error}") from error
        task, self._classifier = run.task, as_classifier(run.task.classifier)
        self._clients = [task.population.examples(c) for c in range(run.num_clients)]
        self._losses = MeanLosses(self._classifier, self._clients)
        self._evaluator = Evaluator(self._classifier, task.held_out)

    def train(
        self, training: BoolArray, first: int, folder: Path, after_run: AfterBlock
    ) -> RunOutputs:
        """Trains runs of clients (runs, clients) from number `first`, or reads trained ones."""
        clients = training.shape[1:]
        shapes = {"margins": clients, "losses": clients, "accuracy": ()}
        outputs = []
        for number, mask in enumerate(training, start=first):
            path = folder / f"run-{name_of(self._digest, mask[None], number)}"
            is_new = not path.exists()
            outputs.append(
                cached_arrays(path, shapes, functools.partial(self._outputs, mask, number))
            )
            after_run(1, int(is_new))
        margins, losses, accuracy = (np.stack([run[name] for run in outputs]) for name in shapes)
        return RunOutputs(margins, losses, accuracy)

    @functools.cached_property
    def _digest(self) -> "hashlib._Hash":
        everything = Examples.concatenate([*self._clients, self._run.task.held_out])
        sizes = [len(examples) for examples in self._clients]
        config = msgspec.to_builtins(self._run.config)
        config.pop("attack", None)  # a run does not depend on the number of runs
        return digest_of(
            [_VERSION, config, sizes, self._start],
            [everything.inputs, everything.labels, *self._run.task.classifier.initial_weights],
        )

    def _outputs(self, mask: BoolArray, number: int) -> dict[str, AnyArray]:
        weights = self._trained(mask, number)
        losses = self._losses.evaluate(weights).label
        if not np.isfinite(losses).all():
            raise InputError(
                "training diverged: a run's losses are not finite; use a smaller "
                "client.learning_rate"
            )
        accuracy = np.array(self._evaluator.accuracy(weights))
        margins = margin_of_loss(losses) if self._classifier.has_log_odds else -losses
        return {"margins": margins, "losses": losses, "accuracy": accuracy}

    def _trained(self, mask: BoolArray, number: int) -> list[Float32Array]:
        """The weights after all rounds of one run."""
        run, seed = self._seeded(number), self._run.config.seed
        noise = int(generator(seed, Stream.MODEL_NOISE, number).integers(1, 2**31))
        one_round, read = self._rounds.begun(noise), run.cohort_data.round_data
        state = self._initial_state(number)
        for index in range(run.num_rounds):
            clients = run.schedule.clients(index)
            cohort = Cohort(clients[mask[clients]], np.zeros(0, np.int64))
            data = self._runtime.participants(state, read(cohort, index))
            state = one_round(state, data).state
        return model_weights(state)

    def _seeded(self, number: int) -> PreparedRun:
        """The run with its own seed for cohorts and for the order of clients' examples."""
        random = generator(self._run.config.seed, Stream.MODEL_ORDER, number)
        config = msgspec.structs.replace(self._run.config, seed=int(random.integers(2**62)))
        ids = self._run.task.population.client_ids
        schedule = make_schedule(
            config.participation,
            config.canaries,
            config.seed,
            ids,
            self._run.included,
            dropouts=config.dropouts,
        )
        return dataclasses.replace(self._run, config=config, schedule=schedule)

    def _initial_state(self, number: int) -> Any:
        """The state before the first round, new for each run: some mechanisms draw noise here."""
        with self._runtime.session():
            state = self._runtime.process.initialize()
        if self._start == "same":
            return state
        initial = initial_weights(self._run.task.classifier, self._run.config.seed, number)
        model = state.global_model_weights
        return state._replace(global_model_weights=model._replace(trainable=tuple(initial)))
