"""Trains a prepared run and fills its folder; a killed run resumes from the last checkpoint."""

import contextlib
import datetime
import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fl_audit.array_types import FloatArray
from fl_audit.attacks.compared_vectors import ComparedVectors, write_compared_vectors
from fl_audit.attacks.threat_models import compared_by, scores_of, statistics_of
from fl_audit.canaries.canary_tables import score_file_of
from fl_audit.checks import write_replay
from fl_audit.engines.engine import Engine, Weights, as_vector
from fl_audit.engines.prepare import PreparedRun
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.metrics_file import read_metrics
from fl_audit.formats.model_file import model_digest, write_model
from fl_audit.formats.round_chain import ChainWriter, Scored, digest, digests_of
from fl_audit.formats.run_record import LiveRecord, RunRecord, record_text
from fl_audit.formats.score_file import write_score_file
from fl_audit.formats.text_files import OWNER_ALONE, keep_to_owner, write_text
from fl_audit.progress import doing, hint, warn
from fl_audit.run.attackers import attack_context, make_attackers
from fl_audit.run.folder_and_checkpoints import check_logs, load_checkpoint, open_chain
from fl_audit.run.loop import LiveAudit, ReachedRound, RoundLoop, SharedCosines, stop_request
from fl_audit.run.observers import (
    CanaryLines,
    FaultLines,
    MetricsCsv,
    ProgressDisplay,
    RoundObserver,
    StartedRun,
    VerdictLine,
)
from fl_audit.run.trackers import TensorBoard

_PACKAGES_BEFORE, _PACKAGES_AFTER = ("fl-audit", "numpy"), ("dp-accounting",)
"""Packages whose versions are recorded before, and after, the engine's packages."""


def train(
    run: PreparedRun, engine: Engine, folder: RunFolder, observers: Sequence[RoundObserver] = ()
) -> None:
    """Trains a run, scores its canaries and fills its folder; continues after a checkpoint.

    `observers` are added to those of every run.
    """
    hint(f"runtime: {'; '.join(filter(None, (engine.description, engine.first_round)))}")
    replay_first_round(run, engine, folder)
    with stop_request() as stop:
        with doing("preparing the first round"), engine.session():
            reached = _starting_point(folder, engine)
        chain = open_chain(folder, reached.completed_rounds)
        context = attack_context(run, engine, folder, reached.completed_rounds)
        attackers, live = make_attackers(context), LiveAudit.from_context(context)
        all_observers = (*observers_of_every(run, engine), *observers)
        loop = RoundLoop(
            run,
            folder,
            engine,
            attackers=attackers,
            live=live,
            cosines=SharedCosines(context),
            observers=all_observers,
            chain=chain,
            start=reached,
            stop=stop,
        )
        num_rounds = run.schedule.num_rounds
        started = StartedRun(folder, run.config, num_rounds, reached.completed_rounds)
        with observing(all_observers, started):
            if run.secret is not None:  # the logs reveal who, or how many, participated in a round
                keep_to_owner((*folder.round_logs(), *folder.release_logs()))
            while reached.completed_rounds < num_rounds and not live.must_stop:
                with engine.session():
                    reached = loop.run_rounds(reached)
    if engine.compile_seconds is not None:
        hint(f"compiled for {engine.compile_seconds:.1f} s in all")
    with doing("scoring the canaries"):
        model = engine.weights(reached.state)
        final = as_vector(model)
        scores, compared = scores_of(attackers, final), compared_by(attackers, final)
    done = _Done(reached.completed_rounds, engine, live.record, chain, model)
    _write_results(run, folder, done, scores, compared)


def _starting_point(folder: RunFolder, engine: Engine) -> ReachedRound:
    state = engine.begin()
    if not folder.checkpoint.exists():
        return ReachedRound(0, state)
    checkpoint = load_checkpoint(folder.checkpoint, engine.leaves(state))
    check_logs(folder, checkpoint)
    state = engine.from_leaves(state, checkpoint.leaves)
    return ReachedRound(checkpoint.completed_rounds, state)


def replay_first_round(run: PreparedRun, engine: Engine, folder: RunFolder) -> None:
    """Replays the first round if the config asks for it, and writes the findings.

    Failures are printed on standard error and in the report; the run goes on. Findings of an
    earlier session are kept.
    """
    if not run.config.audit.replay or folder.replay.exists():
        return
    findings = engine.replay(run)
    write_replay(folder.replay, findings)
    wrong = [finding for finding in findings if finding.failed]
    for finding in wrong:
        warn(f"replay of round 1: {finding}")
    if not wrong:
        answered = [finding for finding in findings if finding.is_conclusive]
        hint(f"replay of round 1: no fault; {len(answered)} of {len(findings)} questions answered")


@dataclass(frozen=True)
class _Done:
    """A trained run: its number of rounds, engine, live audit, chain and model."""

    rounds: int
    engine: Engine
    live: LiveRecord | None
    chain: ChainWriter
    model: Weights


def _write_results(
    run: PreparedRun,
    folder: RunFolder,
    done: _Done,
    scores: Mapping[str, FloatArray],
    compared: Mapping[str, ComparedVectors],
) -> None:
    """Writes models, scores, compared vectors, the chain's line on scores, and last the record."""
    canaries = run.config.canaries
    statistics = statistics_of(canaries, run.config.audit)
    write_model(folder.model, done.model)
    write_model(folder.initial_model, run.task.classifier.initial_weights)
    of_rounds = 0o666 if run.secret is None else OWNER_ALONE
    for statistic in statistics:
        scored = score_file_of(canaries, run.included, scores[statistic.name])
        mode = of_rounds if statistic.tells_rounds else 0o666
        write_score_file(folder.scores(statistic.name), scored, mode)
    if compared:
        write_compared_vectors(folder.compared_vectors, compared, of_rounds)
    made = _record(run, folder, done)
    record = record_text(made)
    files = digests_of(folder.training_outputs()) | {folder.record.name: digest(record.encode())}
    done.chain.add(Scored(rounds=done.rounds, files=files, model_sha256=made.model_sha256))
    done.chain.flush()
    write_text(folder.record, record)


def _record(run: PreparedRun, folder: RunFolder, done: _Done) -> RunRecord:
    """The record of a run after its last round, with the totals of metrics.csv."""
    rows = read_metrics(folder.metrics)
    accuracy = rows[-1].accuracy
    assert accuracy is not None  # every run evaluates its last round
    packages = (*_PACKAGES_BEFORE, *done.engine.packages, *_PACKAGES_AFTER)
    return RunRecord(
        task=run.task.name,
        runtime=done.engine.description,
        dim=run.task.classifier.dim,
        num_clients=run.num_clients,
        num_canaries=run.num_canaries,
        num_included=int(run.included.sum()),
        delta=run.delta,
        release=run.release,
        variable_sizes=tuple(run.task.classifier.variable_sizes),
        accuracy=accuracy,
        accuracy_description=run.task.classifier.accuracy_description,
        training_seconds=sum(row.seconds_training for row in rows),
        scoring_seconds=sum(row.seconds_scoring for row in rows),
        stopped_after=done.rounds if done.rounds < run.schedule.num_rounds else None,
        live=done.live,
        labels=run.task.labels,
        model_sha256=model_digest(done.model),
        schedule_secret=run.secret_from,
        finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        compile_seconds=done.engine.compile_seconds,
        versions={name: importlib.metadata.version(name) for name in packages},
    )


# The observers of every run.


def observers_of_every(run: PreparedRun, engine: Engine) -> tuple[RoundObserver, ...]:
    """The observers of every run; metrics.csv is first, as others read it when the run starts."""
    display = ProgressDisplay(engine.first_round)
    lines = (FaultLines(run), VerdictLine(), CanaryLines(run))
    return MetricsCsv(), TensorBoard(), display, *lines


@contextlib.contextmanager
def observing(observers: Sequence[RoundObserver], run: StartedRun) -> Iterator[None]:
    """Calls `run_started`, and `run_ended` on any exit from the block."""
    is_finished = False

    def end(observer: RoundObserver) -> None:
        observer.run_ended(finished=is_finished)

    with contextlib.ExitStack() as started:
        for observer in observers:
            observer.run_started(run)
            started.callback(end, observer)
        yield
        is_finished = True
