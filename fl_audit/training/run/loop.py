"""The loop over the rounds of a run."""

import time
from collections.abc import Sequence
from typing import Any

from fl_audit.array_types import Float32Array
from fl_audit.attacks.attacker import Attacker, SeenRound
from fl_audit.errors import Interrupted
from fl_audit.formats.folders import RunFolder
from fl_audit.inner_products import euclidean_norm
from fl_audit.training.algorithm.round import flatten_weights, model_weights, run_round
from fl_audit.training.data.prefetch import prefetched
from fl_audit.training.observers.metrics_csv import flush_rows
from fl_audit.training.observers.observer import FinishedRound, RoundMetrics, RoundObserver
from fl_audit.training.run.aggregate_watch import AggregateWatch
from fl_audit.training.run.checkpoint import Checkpoint, save_checkpoint
from fl_audit.training.run.evaluation import Evaluator
from fl_audit.training.run.interruption import StopRequest
from fl_audit.training.run.live_audit import LiveAudit
from fl_audit.training.run.prepare import PreparedRun
from fl_audit.training.run.sealed_logs import seal_logs
from fl_audit.training.run.shared_cosines import SharedCosines
from fl_audit.training.runtimes.runtime import ReadRound, Runtime


class RoundLoop:
    """Trains, scores and logs every round; evaluates and checkpoints at set intervals."""

    def __init__(
        self,
        run: PreparedRun,
        folder: RunFolder,
        runtime: Runtime,
        *,
        attackers: Sequence[Attacker],
        live: LiveAudit,
        cosines: SharedCosines,
        observers: Sequence[RoundObserver],
        start: Checkpoint,
        stop: StopRequest,
    ) -> None:
        """Opens the logs of a run folder, which are new or continue after a checkpoint.

        Args:
          run: The prepared run.
          folder: The folder with this run's config and canaries.
          runtime: The runtime that runs the rounds.
          attackers: The attackers that are shown every round.
          live: The test of the rounds so far, which may stop the run.
          cosines: The cosines that observers are shown.
          observers: The observers, who know that the run has started.
          start: The checkpoint that the run starts from.
          stop: The record of a signal that asked for a stop.
        """
        self._run = run
        self._folder = folder
        self._runtime = runtime
        self._attackers = attackers
        self._live = live
        self._cosines = cosines
        self._observers = observers
        self._stop = stop
        self._read = runtime.reader(run)
        self._evaluator = Evaluator(run.task.classifier, run.task.held_out)
        self._watch = AggregateWatch(run, folder, start.completed_rounds)
        self._seals = start.seals
        self._last = run.schedule.num_rounds

    def run_rounds(self, start: Checkpoint) -> Checkpoint:
        """Runs the remaining rounds, or as many as a session or the live audit allow.

        Args:
          start: The checkpoint before the first of these rounds.

        Returns:
          The checkpoint after the last of these rounds.

        Raises:
          Interrupted: A signal asked for a stop; the state is saved.
        """
        state, first = start.state, start.completed_rounds
        end = min(first + (self._runtime.rounds_per_session or self._last), self._last)
        with prefetched(self._data, range(first, end)) as rounds:
            for index, data in enumerate(rounds, start=first):
                state = self._round(state, data, index)
                completed = index + 1
                is_last = completed == self._last or self._live.must_stop
                is_due = completed % self._run.config.log.checkpoint_every == 0
                if is_due or is_last or self._stop.signal_number:
                    self._save(completed, state)
                if is_last:
                    return Checkpoint(completed, state)
                if self._stop.signal_number:
                    raise Interrupted(completed, self._stop.signal_number)
        return Checkpoint(end, state)

    def _save(self, completed: int, state: Any) -> None:
        """Saves a checkpoint, after all that it counts has reached the disk."""
        self._watch.flush()
        for attacker in self._attackers:
            attacker.flush()
        flush_rows(self._folder)
        audit, to_come = self._run.config.audit, range(completed, self._last)
        self._seals = seal_logs(self._folder, audit, to_come, self._seals)
        save_checkpoint(self._folder.checkpoint, Checkpoint(completed, state, self._seals))

    def _data(self, round_index: int) -> ReadRound:
        return self._read(self._run.schedule.cohort(round_index), round_index)

    def _round(self, state: Any, data: ReadRound, index: int) -> Any:
        """Runs and logs one round; `index` counts from 0, the number in the metrics from 1."""
        started = time.perf_counter()
        client_data = self._runtime.participants(state, data)
        result = run_round(self._runtime.process, self._run.config.mechanism, state, client_data)
        trained = time.perf_counter()
        after = model_weights(result.state)
        seen = SeenRound(
            index=index,
            before=flatten_weights(model_weights(state)),
            aggregate=result.aggregate,
            after=flatten_weights(after),
            clip_norm=result.clip_norm,
        )
        self._watch.see_round(seen, participants=len(data.clients) + len(data.canaries))
        for attacker in self._attackers:
            attacker.see_round(seen)
        self._live.see_round(index)
        scored = time.perf_counter()
        metrics = RoundMetrics(
            round=index + 1,
            num_clients=len(data.clients),
            num_canaries=len(data.canaries),
            clip_norm=result.clip_norm,
            noise_stddev=result.noise_stddev,
            aggregate_norm=euclidean_norm(result.aggregate),
            train_loss=result.train_loss,
            accuracy=self._accuracy(after, index + 1),
            seconds_training=trained - started,
            seconds_scoring=scored - trained,
            epsilon_proven=self._live.epsilon,
        )
        finished = FinishedRound(
            metrics, self._cosines.of(index, data.canaries), self._live.contradicted_at
        )
        for observer in self._observers:
            observer.round_finished(finished)
        return result.state

    def _accuracy(self, weights: Sequence[Float32Array], completed: int) -> float | None:
        is_due = completed % self._run.config.log.evaluate_every == 0
        if is_due or completed == self._last or self._live.must_stop:
            return self._evaluator.accuracy(weights)
        return None
