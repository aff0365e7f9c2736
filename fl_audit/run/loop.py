"""The loop over the rounds of a run: train, score, test, log, checkpoint.

The loop stops at a checkpoint after SIGTERM or Ctrl-C, and, if configured, as soon as the rounds so
far contradict the claim.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Self

import numpy as np

from fl_audit.accounting import noise_on_sum
from fl_audit.array_types import IntArray
from fl_audit.attacks.attacker import Attacker, SeenRound
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.live_test import LiveCanaries, LiveTest, ScoredRounds, why_no_live_test
from fl_audit.checks import AggregateLog, MechanismWatch, configured, why_not_checked
from fl_audit.config.design import RunDesign
from fl_audit.config_tables.audit import Audit
from fl_audit.engines.cohort import prefetched
from fl_audit.engines.engine import Engine, ReadRound
from fl_audit.engines.prepare import PreparedRun
from fl_audit.errors import InputError, Interrupted
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.metrics_file import RoundMetrics
from fl_audit.formats.round_chain import ChainWriter, Saved, digests_of
from fl_audit.formats.round_logs import mode_after
from fl_audit.formats.run_record import LiveRecord
from fl_audit.inner_products import euclidean_norm
from fl_audit.mechanisms import MECHANISMS
from fl_audit.run.attackers import TrainingContext
from fl_audit.run.folder_and_checkpoints import Checkpoint, kept_files, save_checkpoint
from fl_audit.run.observers import (
    CanaryCosines,
    FinishedRound,
    RoundObserver,
    flush_rows,
)
from fl_audit.secret_digits import p_value_rounded_up
from fl_audit.verdict.chosen_tests import shared_confidence
from fl_audit.verdict.claims import Claim, CurveClaim, claim_to_test


class StopRequest:
    """The signal that requested a stop; `signal_number` is None without one."""

    signal_number: int | None = None

    def _remember(self, signal_number: int, frame: FrameType | None) -> None:
        self.signal_number = signal_number
        signal.signal(signal_number, signal.SIG_DFL)  # a second signal ends the program at once


@contextlib.contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Records SIGTERM and SIGINT in the block instead of ending the program.

    Signals reach the main thread only, so in another thread none is recorded.
    """
    request = StopRequest()
    is_main = threading.current_thread() is threading.main_thread()
    signals = (signal.SIGTERM, signal.SIGINT) if is_main else ()
    previous = [signal.signal(number, request._remember) for number in signals]
    try:
        yield request
    finally:
        for number, handler in zip(signals, previous, strict=True):
            signal.signal(number, handler)


# Lower bounds by own-round scores while a run trains.


class LiveAudit:
    """Tests the rounds of a run one by one; does nothing if rounds cannot be tested.

    It reads the log of cosines, so a resumed run gets the same bounds.
    """

    def __init__(
        self,
        audit: Audit,
        claim: Claim | CurveClaim | None = None,
        test: LiveTest | None = None,
        rounds: ScoredRounds | None = None,
        *,
        are_rounds_secret: bool = False,
    ) -> None:
        self._audit = audit
        self._claim = claim
        self._test = test
        self._rounds = rounds
        self._are_rounds_secret = are_rounds_secret

    @classmethod
    def from_context(cls, context: TrainingContext) -> Self:
        """The live audit of a run, continued after its completed rounds."""
        family, dim = context.family, context.run.task.classifier.dim
        live = cls.on(context.run, family, dim, lambda: context.round_cosines)
        for index in range(context.completed):
            live.see_round(index)
        return live

    @classmethod
    def on(
        cls, design: RunDesign, family: str | None, dim: int, rounds: Callable[[], ScoredRounds]
    ) -> Self:
        """The live audit of a design, before its first round.

        `family` is None for canaries that hold examples; `rounds` opens the log of the rounds, and
        is called only if rounds can be tested.
        """
        audit, own = design.config.audit, design.own_rounds
        why_not = why_no_live_test(own, family)
        if family is None or why_not is not None or "known_rounds" not in audit.threat_models:
            return cls(audit)
        canaries = LiveCanaries(design.included, own, family, dim)
        claim = None
        if audit.is_claimed:
            claim = claim_to_test(audit, design.release, design.delta, [OWN_ROUNDS])
        point, curve = None, None
        if isinstance(claim, Claim):
            point = claim.epsilon
        elif claim is not None:
            curve = claim.curve(OWN_ROUNDS.name)
        test = LiveTest(canaries, design.delta, point, curve)
        return cls(audit, claim, test, rounds(), are_rounds_secret=design.secret is not None)

    def see_round(self, index: int) -> None:
        """Tests a scored round, counted from 0."""
        if self._test is not None and self._rounds is not None:
            self._test.add(self._rounds, range(index, index + 1))

    @property
    def epsilon(self) -> float | None:
        """The lower bound so far at the audit's confidence; None if nothing is tested."""
        return None if self._test is None else self._test.epsilon(self._audit.confidence)

    @property
    def must_stop(self) -> bool:
        return self.contradicted_at > 0

    @property
    def contradicted_at(self) -> float:
        """The lower bound that contradicts the claim and stops the run; else 0."""
        return self._claim_epsilon if self._audit.stop_when_contradicted else 0.0

    @property
    def record(self) -> LiveRecord | None:
        """The bounds for run.json, whose digits do not reveal secret rounds."""
        epsilon = self.epsilon
        if epsilon is None:
            return None
        p_value = self._claim_p_value
        if self._are_rounds_secret and p_value is not None:
            level = 1 - shared_confidence(self._audit)
            rounded = p_value_rounded_up(p_value)
            p_value = min(rounded, level) if p_value <= level else rounded
        return LiveRecord(epsilon, p_value, self._claim_epsilon)

    @property
    def _claim_p_value(self) -> float | None:
        """The p-value of the claim so far, valid at all rounds together; None without a claim."""
        if self._test is None or self._claim is None:
            return None
        if isinstance(self._claim, Claim):
            return self._test.p_value(self._claim.epsilon)
        return self._test.p_value_of_curve()

    @property
    def _claim_epsilon(self) -> float:
        """The lower bound that contradicts the claim (for a curve, the curve's epsilon); else 0."""
        if self._test is None or self._claim is None:
            return 0.0
        confidence = shared_confidence(self._audit)
        if isinstance(self._claim, Claim):
            return self._test.epsilon(confidence, at_least=self._claim.epsilon)
        is_contradicted = self._test.p_value_of_curve() <= 1 - confidence
        return self._claim.epsilon if is_contradicted else 0.0


# Logs of every round.


class SharedCosines:
    """Reads cosines from the attackers' shared log; without a log, gives None for every round."""

    def __init__(self, context: TrainingContext) -> None:
        has_log = context.run_folder.round_cosines.exists()
        self._log = context.round_cosines if has_log else None
        self._included = context.run.included

    def round_cosines(self, index: int, members: IntArray) -> CanaryCosines | None:
        """The cosines of a round, from 0, with canaries `members`; None if it was not scored."""
        scored = None if self._log is None else self._log.scored_round(index)
        if scored is None:
            return None
        cosines = scored.cosines.astype(np.float64)
        return CanaryCosines(in_round=cosines[members], excluded=cosines[~self._included])


class AggregateWatch:
    """Passes every round to a `MechanismWatch`; does nothing if the mechanism is not checked."""

    def __init__(self, run: PreparedRun, folder: RunFolder, completed: int) -> None:
        """Raises InputError if a log to continue is missing or damaged."""
        self._run = run
        self._log: AggregateLog | None = None
        if why_not_checked(run.config.mechanism) is None:
            sizes, rounds = run.task.classifier.variable_sizes, run.schedule.num_rounds
            self._log = AggregateLog.opened(mode_after(completed), folder, rounds, sizes)
            mechanism = run.config.mechanism
            self._watch = MechanismWatch(
                sizes,
                self._log,
                completed,
                correlation=run.release.correlation,
                stream=MECHANISMS.kind_of(mechanism).noise_stream(mechanism, rounds),
            )

    def see_round(self, seen: SeenRound, participants: int) -> None:
        if self._log is None:
            return
        expected = configured(
            seen.clip_norm,
            float(participants),
            sum_noise_multiplier=float(noise_on_sum(self._run.noise, participants)),
            denominator=self._run.schedule.expected_cohort,
        )
        self._watch.measure_round(
            seen.aggregate, noise_stddev=expected.stddev, norm_bound=expected.norm_bound
        )

    def flush(self) -> None:
        if self._log is not None:
            self._log.flush()


# The loop.


@dataclass(frozen=True, eq=False)
class ReachedRound:
    """A run between two rounds, with the engine's state."""

    completed_rounds: int
    state: Any


class RoundLoop:
    """Trains, scores and logs every round; evaluates and checkpoints at set intervals."""

    def __init__(
        self,
        run: PreparedRun,
        folder: RunFolder,
        engine: Engine,
        *,
        attackers: Sequence[Attacker],
        live: LiveAudit,
        cosines: SharedCosines,
        observers: Sequence[RoundObserver],
        chain: ChainWriter,
        start: ReachedRound,
        stop: StopRequest,
    ) -> None:
        """Opens the logs of a run folder, new or after a checkpoint."""
        self._run = run
        self._folder = folder
        self._engine = engine
        self._attackers = attackers
        self._live = live
        self._cosines = cosines
        self._observers = observers
        self._stop = stop
        self._read = engine.reader(run)
        self._accuracy_of = engine.evaluator(run)
        self._watch = AggregateWatch(run, folder, start.completed_rounds)
        self._chain = chain
        self._last = run.schedule.num_rounds

    def run_rounds(self, start: ReachedRound) -> ReachedRound:
        """Runs the remaining rounds, or as many as a session or the live audit allows."""
        state, first = start.state, start.completed_rounds
        end = min(first + (self._engine.rounds_per_session or self._last), self._last)

        def read(index: int) -> ReadRound:
            return self._read(self._run.schedule.cohort(index), index)

        with prefetched(read, range(first, end)) as rounds:
            for index, data in enumerate(rounds, start=first):
                state = self._round(state, data, index)
                completed = index + 1
                is_last = completed == self._last or self._live.must_stop
                is_due = completed % self._run.config.log.checkpoint_every == 0
                if is_due or is_last or self._stop.signal_number:
                    self._save(completed, state)
                if is_last:
                    return ReachedRound(completed, state)
                if self._stop.signal_number:
                    raise Interrupted(completed, self._stop.signal_number)
        return ReachedRound(end, state)

    def _save(self, completed: int, state: Any) -> None:
        """Saves a checkpoint after all logs have reached the disk."""
        self._watch.flush()
        for attacker in self._attackers:
            attacker.flush()
        flush_rows(self._folder)
        audit, to_come = self._run.config.audit, range(completed, self._last)
        digests = digests_of(kept_files(self._folder, audit, to_come))
        self._chain.add(Saved(rounds=completed, files=digests))
        self._chain.flush()
        checkpoint = Checkpoint(completed, self._engine.leaves(state), self._chain.head)
        save_checkpoint(self._folder.checkpoint, checkpoint)

    def _log(self, completed: int) -> None:
        """Adds the written rows of a round to the chain."""
        every, release = self._run.config.audit.release_every, None
        if every is not None and (completed % every == 0 or completed == self._last):
            release = -(-completed // every)
        logs, release_logs = self._folder.round_logs(), self._folder.release_logs()
        self._chain.log_round(completed, logs, release, release_logs)

    def _round(self, state: Any, data: ReadRound, index: int) -> Any:
        """Runs and logs one round; `index` counts from 0, the number in the metrics from 1."""
        started = time.perf_counter()
        result = self._engine.run_round(state, data, index)
        trained, seen = time.perf_counter(), result.seen
        _check_finite(seen)
        self._watch.see_round(seen, participants=len(data.clients) + len(data.canaries))
        for attacker in self._attackers:
            attacker.see_round(seen)
        self._live.see_round(index)
        scored = time.perf_counter()
        metrics = RoundMetrics(
            round=index + 1,
            num_clients=len(data.clients),
            num_canaries=len(data.canaries),
            clip_norm=seen.clip_norm,
            noise_stddev=result.noise_stddev,
            aggregate_norm=euclidean_norm(seen.aggregate),
            train_loss=result.train_loss,
            accuracy=self._accuracy(result.state, index + 1),
            seconds_training=trained - started,
            seconds_scoring=scored - trained,
            epsilon_lower_bound=self._live.epsilon,
        )
        is_secret = self._run.secret is not None
        cosines = None if is_secret else self._cosines.round_cosines(index, data.canaries)
        finished = FinishedRound(metrics, cosines, self._live.contradicted_at, is_secret)
        for observer in self._observers:
            observer.round_finished(finished)
        self._log(index + 1)
        return result.state

    def _accuracy(self, state: Any, completed: int) -> float | None:
        is_due = completed % self._run.config.log.evaluate_every == 0
        if is_due or completed == self._last or self._live.must_stop:
            return self._accuracy_of(self._engine.weights(state))
        return None


def _check_finite(seen: SeenRound) -> None:
    """Raises InputError if the aggregate or the model is not finite."""
    for name, vector in (("aggregate", seen.aggregate), ("model", seen.after)):
        if not np.isfinite(vector).all():
            raise InputError(
                f"round {seen.index + 1}: the training diverged: its {name} has numbers that are "
                "infinite or not a number; lower client.learning_rate or server.learning_rate"
            )
