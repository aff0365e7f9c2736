"""The background of canaries (verdict/exposure.py) in the measured rounds of a run or a log."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from fl_audit.accounting.noise_distributions import CLIENT_GAUSSIAN, noise_on_sum
from fl_audit.accounting.release import Release
from fl_audit.accounting.sampling import UnknownRounds
from fl_audit.array_types import FloatArray, IntArray
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.log_release import correlated_rounds, stated_rounds, stated_uploads
from fl_audit.attacks.logs import SeenLog
from fl_audit.attacks.measured_canary_check import RoundLengths, logged_lengths
from fl_audit.attacks.own_rounds import NumberedRow, OwnRounds, RoundWeights
from fl_audit.attacks.round_cosines import numbered_rows
from fl_audit.canaries.canary_tables import Canaries
from fl_audit.config import ServerSgd
from fl_audit.formats.participation_files import read_participation
from fl_audit.formats.round_logs import CosineLog
from fl_audit.report.checks import run_lengths
from fl_audit.report.finished_run import FinishedRun
from fl_audit.verdict.exposure import Background


def background_of_run(run: FinishedRun) -> Background | None:
    """The background of a run's canaries; None if canaries hold examples, or no norms are known."""
    if not isinstance(run.config.canaries, Canaries):
        return None
    path, release = run.folder.round_cosines, run.record.release
    log = CosineLog.read(path, run.record.num_canaries) if path.exists() else None
    scored = np.arange(run.record.rounds_done) if log is None else np.flatnonzero(log.written())
    empty = Background(
        OwnRounds(run.rounds_of_canaries), run.included, run.record.dim, release.correlation
    )
    found = _measured(empty, scored, run_lengths(run))
    if found is None:
        return None
    of_clients = noise_on_sum(release.noise, run.rounds.participants)[found.rounds]
    is_of_uploads = release.noise.distribution == CLIENT_GAUSSIAN.name
    server = run.config.server
    weights: FloatArray | None = None
    if isinstance(server, ServerSgd):
        weights = server.weights_in_model(run.record.rounds_done)[found.rounds]
    found = dataclasses.replace(
        found,
        noise=of_clients * found.client_lengths,
        weights=weights,
        uploads=_as_canaries(release) if is_of_uploads else None,
        release=_as_canaries(release),
    )
    if log is None:
        return found
    return _with_common(found, numbered_rows(log), _sum_lengths(run, found, log))


def _sum_lengths(run: FinishedRun, found: Background, log: CosineLog) -> FloatArray | None:
    """For each canary, the norm of the weighted sum of its rounds' aggregates, from scores.

    None without `own_rounds` scores of the canaries, or if norms are unknown in a logged round.
    """
    own = run.scores.get(OWN_ROUNDS.name)
    if own is None or len(own.score) != len(run.included):
        return None
    if len(found.rounds) < int(log.written().sum()):
        return None
    totals = _weights(found).totals(numbered_rows(log))
    lengths = np.divide(totals, own.score, out=np.zeros(len(totals)), where=own.score != 0)
    return np.asarray(np.abs(lengths) * _scale(found))


def background_of_log(log: SeenLog) -> Background | None:
    """The background of a log's canaries; None if the log states too little of its rounds."""
    own = log.listed.own_rounds
    if own is None or log.num_rounds == 0:
        return None
    scored = np.array([index for index, _ in log.cosines.numbered_rows()], np.int64)
    correlated = correlated_rounds(log.folder, log.cosines)
    correlation = None if correlated is None else correlated.correlation
    known = logged_lengths(log.folder, log.cosines.measured_lengths())
    empty = Background(own, log.listed.included, log.pool.dim, correlation)
    found = _measured(empty, scored, known)
    if found is None:
        return None
    stated, uploads = stated_rounds(log), stated_uploads(log)
    found = dataclasses.replace(
        found,
        weights=np.ones(len(found.rounds)),
        uploads=None if uploads is None else _as_canaries(uploads),
        client_sensitivity=_client_sensitivity(log, found),
    )
    if stated is not None:
        found = found.with_noise(stated.release.noise.noise_multiplier)
        found = dataclasses.replace(found, release=_as_canaries(stated.release))
    lengths = None
    if len(found.rounds) == len(scored) and (own.most > 1 or correlation is not None):
        sums = log.cosines.weighted_sums(_weights(found))
        lengths = None if sums is None else sums.lengths * _scale(found)
    return _with_common(found, log.cosines.numbered_rows(), lengths)


def _measured(empty: Background, scored: IntArray, lengths: RoundLengths) -> Background | None:
    """The background in scored rounds of known norms; None without such rounds or canaries."""
    of_aggregate, of_client = lengths.at(scored)
    known = np.isfinite(of_aggregate) & np.isfinite(of_client) & (of_aggregate > 0)
    rounds = scored[known & (of_client > 0)]
    if not len(rounds) or not empty.included.any():
        return None
    of_aggregate, of_client = lengths.at(rounds)
    return empty.with_rounds(rounds, of_aggregate, of_client)


_ERRORS = 3.0
"""Standard errors by which `surely_common` is below the estimated common part of rounds."""


def _with_common(
    found: Background, rows: Iterable[NumberedRow], sum_lengths: FloatArray | None
) -> Background:
    """The background with `sum_lengths`, and with what aggregates of different rounds share.

    The shared part, a mean cosine between rounds' aggregates, is estimated from `sum_lengths` if
    they are known, otherwise from excluded canaries, whose vectors are independent of all rounds:
    the sum of an excluded canary's cosines with T aggregates has variance (T + sum of the cosines
    of ordered pairs of rounds) / dim. It is not estimated under correlated noise, for a single
    round, or without excluded canaries.
    """
    rounds, excluded = set(found.rounds.tolist()), ~found.included
    number, total = len(rounds), np.zeros(int(excluded.sum()))
    if found.correlation is not None or number < 2 or not len(total):
        return dataclasses.replace(found, sum_lengths=sum_lengths)
    for index, row in rows:
        if index in rounds:
            total += row[excluded]
    share = (found.dim * float(np.mean(total**2)) / number - 1) / (number - 1)
    error = (np.sqrt(2 / len(total)) + np.sqrt(2 / found.dim)) / (number - 1)
    surely = share - _ERRORS * error
    if sum_lengths is not None:
        by_lengths = found.common_share(sum_lengths)
        share = share if by_lengths is None else by_lengths
    squares = found.aggregate_lengths**2
    return dataclasses.replace(
        found,
        in_common=min(max(share, 0.0), 1.0) * squares,
        surely_common=min(max(surely, 0.0), 1.0) * squares,
        sum_lengths=sum_lengths,
    )


def _as_canaries(release: Release) -> Release:
    """The release; if clients' rounds are unknown, clients are taken to participate as canaries."""
    if not isinstance(release.client.sampling, UnknownRounds):
        return release
    return dataclasses.replace(release, client=release.canary)


def _client_sensitivity(log: SeenLog, found: Background) -> float:
    """The number of a client's rounds if stated, else the largest number of a canary's rounds.

    Under correlated noise: the largest squared sensitivity of a canary.
    """
    participation = read_participation(log.folder.participation)
    rounds = None if participation is None else participation.client_rounds
    most = found.most_rounds
    if found.correlation is None or not most:
        return float(rounds or most or 1)
    counts = [len(own) for own in found.own.of_canary]
    until = max(
        int(found.rounds[-1]) + 1, *(int(own.max()) + 1 for own in found.own.of_canary if len(own))
    )
    over_all = found.correlation.until(until)
    members = np.repeat(np.arange(len(counts)), counts)
    return float(over_all.worst_of(members, np.concatenate(found.own.of_canary)))


def _weights(found: Background) -> RoundWeights:
    """The weights of rounds in canaries' `own_rounds` scores, which sum cosines with aggregates."""
    if found.correlation is None:
        return found.presences
    return found.presences.whitened(found.correlation, found.rounds, found.aggregate_lengths)


def _scale(found: Background) -> FloatArray:
    """The ratio, by canary, of the background's weights to the weights in scores (`_weights`)."""
    if found.correlation is None:
        return np.ones(len(found.presences.set_of))
    largest = np.abs(found.own_weights * found.aggregate_lengths).max(axis=1)
    return np.asarray(largest[found.presences.set_of])
