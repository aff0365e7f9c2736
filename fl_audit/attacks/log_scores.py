"""The scores of a log by the attackers of runs, and the files of scores."""

from collections.abc import Mapping
from dataclasses import dataclass

from fl_audit.accounting.release import Release
from fl_audit.array_types import Float32Array
from fl_audit.attacks.attacker import AttackContext
from fl_audit.attacks.compared_vectors import ComparedVectors, write_compared_vectors
from fl_audit.attacks.log_release import correlated_rounds, stated_rounds
from fl_audit.attacks.logs import SeenLog, read_vector
from fl_audit.attacks.one_upload import ONE_UPLOAD_MODEL
from fl_audit.attacks.secret_rounds import SECRET_ROUNDS, states_pattern
from fl_audit.attacks.statistics import Sight, Statistic
from fl_audit.attacks.threat_models import (
    STATISTICS,
    compared_by,
    make_attackers,
    scores_of,
    statistics_for,
)
from fl_audit.canaries.pool import CanaryPool, pair_names
from fl_audit.config_tables.audit import Audit
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.round_chain import ChainWriter, Scored, digests_of
from fl_audit.formats.score_file import ScoreFile, write_score_file


@dataclass(frozen=True, eq=False)
class ScoredLog:
    """The scores of a log, and the compared vectors, by statistic."""

    pool: CanaryPool
    num_rounds: int
    scores: Mapping[str, ScoreFile]
    compared: Mapping[str, ComparedVectors]


def score_log(log: SeenLog) -> ScoredLog:
    """Scores every canary of a log, by every statistic that the log allows; writes nothing.

    Memory grows neither with the number of rounds times dim nor with the number of canaries times
    dim.
    """
    folder = log.folder
    initial, final = (
        read_vector(path, log.pool.dim) if path.exists() else None
        for path in (folder.initial, folder.final)
    )
    seen = score_seen(log, initial, final)
    if not seen.scores:
        raise InputError(
            f"{folder.path}: shows nothing to score: needs {folder.aggregates.name}/"
            f"round_000001.npy, {folder.round_cosines.name}, {folder.upload_cosines.name} or "
            f"{folder.final.name}"
        )
    return seen


def score_seen(log: SeenLog, initial: Float32Array | None, final: Float32Array | None) -> ScoredLog:
    """Scores every canary of a log by every statistic that the log and the models allow.

    Models are float32 of shape (dim,), None if the model is not seen. Score files name canaries by
    number.
    """
    pool, own_rounds = log.pool, log.listed.own_rounds
    available: dict[Sight, bool] = {
        "round_cosines": log.num_rounds > 0,
        "canary_rounds": own_rounds is not None,
        "initial_model": initial is not None,
        "final_model": final is not None,
        "uploads": log.uploads is not None,
    }
    seen = {sight for sight, is_seen in available.items() if is_seen}
    release = _pattern_stated(log)
    statistics = [
        s
        for s in statistics_of_logs()
        if s.needs <= seen and (release is not None or s.threat_model != SECRET_ROUNDS.name)
    ]
    correlated = correlated_rounds(log.folder, log.cosines)
    context = AttackContext(
        canaries=pool,
        num_canaries=pool.count,
        num_rounds=log.num_rounds,
        audit=Audit(),
        initial=initial,
        given_cosines=log.cosines,
        family=pool.family,
        canary_rounds=own_rounds,
        seed=pool.seed,
        correlation=None if correlated is None else correlated.correlation,
        aggregate_lengths=None if correlated is None else correlated.lengths,
        given_uploads=log.uploads,
        release=release,
    )
    attackers = make_attackers(context, statistics)
    scores = scores_of(attackers, final)
    ids, pairs = tuple(map(str, range(pool.count))), pair_names(pool.inclusion, pool.count)
    files = {
        s.name: ScoreFile(ids, log.listed.included, scores[s.name], pool.inclusion, pair=pairs)
        for s in statistics
    }
    return ScoredLog(pool, log.num_rounds, files, compared_by(attackers, final))


def statistics_of_logs() -> tuple[Statistic, ...]:
    """The statistics that a log may have: all of threat models that need no key of [audit]."""
    models = (*Audit().threat_models, ONE_UPLOAD_MODEL.name, SECRET_ROUNDS.name)
    return statistics_for("vectors", Audit(threat_models=models))


def _pattern_stated(log: SeenLog) -> Release | None:
    """A log's release; None unless the log has `gaussian` canaries and states pattern and noise."""
    own = log.listed.own_rounds
    arms = () if own is None else own.arms
    if not log.num_rounds or not (arms or log.folder.participation.exists()):
        return None
    stated = stated_rounds(log)
    if stated is None or not (arms or stated.says_all_rounds):
        return None
    return stated.release if states_pattern(stated.release, log.pool.family, arms) else None


def write_scores(folder: LogFolder, scored: ScoredLog, chain: ChainWriter) -> None:
    """Replaces a folder's score files and, at the end, adds their digests to the folder's chain."""
    chain.add(Scored(rounds=0, files={}))
    for name in STATISTICS:
        folder.scores(name).unlink(missing_ok=True)
    folder.compared_vectors.unlink(missing_ok=True)
    for statistic, scores in scored.scores.items():
        write_score_file(folder.scores(statistic), scores)
    write_compared_vectors(folder.compared_vectors, scored.compared)
    written = [folder.scores(statistic) for statistic in scored.scores]
    side_files = [folder.compared_vectors, folder.direction_sum]
    state_files = [folder.path / name for name in (*folder.side_files(), *folder.terms())]
    files_of_scores = digests_of([*written, *side_files, *state_files])
    chain.add(Scored(rounds=scored.num_rounds, files=files_of_scores))
    chain.flush()
