"""Scores a pool of canaries while another system trains."""

import functools
import logging
import math
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.release import Correlation
from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.arrays import Arrays, flatten
from fl_audit.attacks.compared_vectors import depends_on_vectors
from fl_audit.attacks.directions import RoundDirections, add_direction
from fl_audit.attacks.live_test import LiveCanaries, LiveTest, ScoredRound, why_no_live_test
from fl_audit.attacks.log_scores import score_seen, write_scores
from fl_audit.attacks.logs import (
    ListedCanaries,
    check_pool,
    needs_directions,
    pool_of_uploads,
    read_listed,
    read_log,
    write_listed,
)
from fl_audit.attacks.measured_canary_check import canary_check_in_rounds, logged_lengths
from fl_audit.attacks.round_cosines import RoundLog, logged_concentrations, numbered_rows
from fl_audit.attacks.uploads import CanaryUploads
from fl_audit.canaries.pool import CanaryPool, read_pool, write_pool
from fl_audit.checks import (
    AdaptiveClip,
    CanaryCheck,
    MeasuredRounds,
    checked_variables,
    write_adaptive_clip,
    write_variables,
)
from fl_audit.checks.canary_watch import CanaryWatch
from fl_audit.checks.measured_rounds import check_noise
from fl_audit.config_tables.audit import LostCanaries
from fl_audit.errors import InputError
from fl_audit.estimators.scores import check_confidence, check_delta
from fl_audit.formats.folders import LogFolder, WriteLock
from fl_audit.formats.noise_correlation import write_correlation
from fl_audit.formats.participation_files import Participation, write_participation
from fl_audit.formats.round_chain import ChainWriter, Line, Scoring, read_chain
from fl_audit.formats.round_logs import ConcentrationLog, CosineLog, LengthLog, LoggedTotal
from fl_audit.formats.text_files import new_folder, unfinished_files
from fl_audit.inner_products import euclidean_norm

_LOG = logging.getLogger("fl_audit")


def check_stated(
    canary_length: float | None, noise_stddev: float | None, norm_bound: float | None
) -> None:
    """Refuses numbers out of range in a server's statement of a round's mechanism."""
    if canary_length is not None and not 0 < canary_length < math.inf:
        raise InputError(f"canary_length: must be positive and finite, got {canary_length}")
    if noise_stddev is not None:
        check_noise(noise_stddev, norm_bound)
    elif norm_bound is not None:
        raise InputError("noise_stddev: is required with norm_bound")


class RoundScorer:
    """The server's side of an audit: scores each round's aggregate, and keeps scores in a folder.

    Scored rounds survive kill -9, and `open` continues the audit. `fl-audit estimate` can read the
    folder at any time after the first round.

    Attributes:
      folder: The folder of the audit.
      pool: The canaries.
      num_rounds: The largest number of rounds.
    """

    def __init__(
        self,
        folder: LogFolder,
        pool: CanaryPool,
        log: CosineLog,
        *,
        last: Line,
        lost_canaries: LostCanaries,
    ) -> None:
        """Opens the logs of a folder that exists; use `create` or `open` instead."""
        self.folder = folder
        self.pool = pool
        self.num_rounds = log.num_rounds
        self._log = log
        self._opened_at = last.link
        self._cut = last.round if isinstance(last, Scoring) else None
        concentrations = logged_concentrations(folder.round_concentrations, log, "r+")
        self._rounds = RoundLog(pool.cosines, log, concentrations)
        if (path := folder.round_directions).exists():
            self._rounds.keep_directions(
                RoundDirections.opened("r+", path, log.num_rounds, pool.seed, pool.dim)
            )
        self._lengths = LengthLog.opened("r+", folder.round_lengths, log.num_rounds)
        self._sum = LoggedTotal(folder.direction_sum, pool.dim)
        self._measured = MeasuredRounds(folder, log.num_rounds, pool.dim)
        self._num_scored = int(log.written().sum())
        self._watch = CanaryWatch(
            log.num_rounds,
            choice=lost_canaries,
            warn=_LOG.warning,
            key="lost_canaries",
            scored=self._num_scored,
        )

    @classmethod
    def create(
        cls,
        folder: Path | str,
        pool: CanaryPool,
        num_rounds: int,
        canary_rounds: Sequence[Sequence[int]] | None = None,
        *,
        variable_sizes: Sequence[int] | None = None,
        frozen: Sequence[int] = (),
        participation: Participation | None = None,
        canary_arms: Sequence[str] = (),
        noise_correlation: Correlation | None = None,
        adaptive_clip: AdaptiveClip | None = None,
        lost_canaries: LostCanaries = "warn",
    ) -> "RoundScorer":
        """Starts an audit in a new or empty folder, created atomically.

        Args:
          folder: The folder to create; it needs 4 bytes per round and canary and 8 per parameter,
            and more if canaries have several rounds, noise is correlated, or `gaussian` canaries'
            rounds follow a stated pattern.
          pool: The canaries.
          num_rounds: The largest number of rounds; fewer may be scored.
          canary_rounds: The rounds of each canary, included or not, from 1, such as
            `CanaryClients.rounds`; required for the statistic `own_rounds`. An excluded canary's
            rounds, drawn in the same way, are those in which it would participate if included.
          variable_sizes: The number of parameters in each variable of the model, in the order of
            the aggregate, for the checks of the mechanism; by default the sizes of the arrays in
            the first checked aggregate.
          frozen: The numbers, from 1, of variables that are not trained and have no noise.
          participation: How clients may participate, and whether a claim relies on their sampling.
            By default a claim may rely on it, so that a verdict does not use `own_rounds`.
          canary_arms: The name of the arm to which each canary was assigned at random, if there are
            several ways to participate; with `canary_rounds` the report compares the arms.
          noise_correlation: The matrix (`accounting.toeplitz.Toeplitz`) or the trees
            (`accounting.tree_nodes.Trees`) that correlate noise over rounds, for the checks of the
            mechanism and the weights of `own_rounds`; by default noise is independent.
          adaptive_clip: The update rule of the clip norm (`fl_audit.checks.AdaptiveClip`), to check
            the noise on the counts that move this norm. By default no count is checked.
          lost_canaries: What `score_round` does, once, if canaries do not reach the aggregates as
            they should: "warn" logs a warning (logger `fl_audit`), "error" raises
            CanariesLostError, an InputError. Lost canaries are noticed only with `canary_rounds`
            and with the expected norm in each round (`canary_length`).

        Raises:
          InputError: The folder is not empty, all coins are the same, or an argument is out of
            range or does not fit the pool.
        """
        path = Path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(
                f"{path}: must be a new or empty folder; RoundScorer.open continues an audit"
            )
        if not isinstance(num_rounds, int | np.integer) or num_rounds < 1:
            raise InputError(f"num_rounds: must be a whole number, at least 1, got {num_rounds!r}")
        num_rounds = operator.index(num_rounds)
        variables = None
        if variable_sizes is not None:
            name = "variable_sizes and frozen"
            variables = checked_variables(variable_sizes, frozen, pool.dim, name)
        elif frozen:
            raise InputError("variable_sizes: is required with frozen")
        if canary_arms and canary_rounds is None:
            raise InputError("canary_rounds: is required with canary_arms")
        _ = pool.included  # raises now, not after training, if all coins are the same
        with new_folder(path) as made:
            new = LogFolder(made)
            CosineLog.opened("w+", new.round_cosines, num_rounds, pool.count).flush()
            LengthLog.opened("w+", new.round_lengths, num_rounds).flush()
            if depends_on_vectors(pool.family):
                ConcentrationLog.opened("w+", new.round_concentrations, num_rounds).flush()
            LoggedTotal.create(new.direction_sum)
            write_pool(new.pool, pool)
            if variables is not None:
                write_variables(new, variables)
            if participation is not None:
                write_participation(new.participation, participation)
            if noise_correlation is not None:
                write_correlation(new, noise_correlation)
            if adaptive_clip is not None:
                write_adaptive_clip(new, adaptive_clip)
            if canary_rounds is not None:
                write_listed(new, pool, canary_rounds, num_rounds, canary_arms)
                own = read_listed(new, pool).own_rounds
                is_correlated = noise_correlation is not None
                if own is not None and needs_directions(new, pool.family, own, is_correlated):
                    RoundDirections.opened(
                        "w+", new.round_directions, num_rounds, pool.seed, pool.dim
                    ).flush()
            ChainWriter.begin(new.chain, new.identity())
        return cls.open(path, lost_canaries)

    @classmethod
    def open(cls, folder: Path | str, lost_canaries: LostCanaries = "warn") -> "RoundScorer":
        """Continues an audit after a crash or a restart, or reads one while another process scores.

        Nothing is written before a round is scored.

        Args:
          folder: The folder of the audit.
          lost_canaries: As in `create`.

        Raises:
          InputError: The folder holds no audit, a file in it is damaged, or its canaries changed.
        """
        at = LogFolder(Path(folder))
        pool = read_pool(at.pool)
        check_pool(at)
        chain = read_chain(at.chain)
        log = CosineLog.opened("r+", at.round_cosines, "rounds", pool.count)
        return cls(at, pool, log, last=chain.lines[-1], lost_canaries=lost_canaries)

    @functools.cached_property
    def _chain(self) -> ChainWriter:
        """The folder's chain of rounds (round_chain.py); an interrupted round is entered as it is.

        The chain is opened at the first write, with the folder's lock: a process that only reads
        cannot tell a round in progress from one that a kill interrupted. Raises InputError if
        another process writes, or has written since the folder was opened here.
        """
        path = self.folder.chain
        lock = WriteLock.of(self.folder.path)
        chain, read = ChainWriter.go_on(path), read_chain(path)
        if chain.head != self._opened_at:
            raise InputError(
                f"{self.folder.path}: has changed since this RoundScorer opened it; open it again"
            )
        self._lock = lock
        for path in unfinished_files(self.folder.path):
            path.unlink()
        if self._cut is not None:
            cut, self._cut = self._cut, None
            changed = {row.round for row in read.changed_rows(self.folder.path)}
            for number in sorted({cut, *(n for n in changed if n > cut)}):
                chain.log_round(number, self.folder.round_logs())
        return chain

    def score_round(
        self,
        round_number: int,
        aggregate: Arrays,
        *,
        canary_length: float | None = None,
        noise_stddev: float | None = None,
        norm_bound: float | None = None,
    ) -> npt.NDArray[np.float64]:
        """Scores every canary against a round's aggregate, and writes the cosines to the disk.

        A round that is scored again, after the server went back to its last checkpoint, is
        replaced; if the new aggregate differs, the null distribution of the statistic `sum` then
        comes from excluded canaries alone. Do not score a round that releases nothing.

        Args:
          round_number: The round, counted from 1.
          aggregate: The round's release, with its noise and with the sign of the model's movement:
            the new model minus the old one, or any positive multiple of this difference; not a
            pseudo-gradient, which is its negative. One array of `dim` numbers, or a list of arrays
            in the order in which canary clients split their vectors; float32 or float64.
          canary_length: The largest norm of a client in the aggregate: clip norm over denominator
            for a mean of clipped updates, even if canaries send shorter vectors. With it and
            `canary_rounds`, the canary check measures at what share of this norm canaries reach
            the aggregate (docs/canary_check.md). None if the norm is not known.
          noise_stddev: The intended standard deviation of the noise on each coordinate of this
            aggregate; under correlated noise, of the independent noise before it is correlated.
            With it the mechanism is checked as in a run (docs/checks.md); otherwise the verdict
            *consistent* says that the mechanism was not checked. None if the noise is not known.
          norm_bound: The largest norm of the aggregate without noise: participants times clip norm,
            over the denominator. None if this norm is not known; it is then not checked.

        Returns:
          The cosines, float64 of shape (num_canaries,).

        Raises:
          InputError: The round is out of range; the aggregate has another size or dtype or is not
            finite; or a number is out of range. Nothing is written then.
          CanariesLostError: The canaries do not reach the aggregates, and `lost_canaries` is
            "error"; the round is written.
        """
        round_number = self._checked_number(round_number)
        check_stated(canary_length, noise_stddev, norm_bound)
        name = f"aggregate of round {round_number}"
        vector = flatten(aggregate, self.pool.dim, name)
        cosines = self.pool.cosines(vector)
        self._chain.add(Scoring(round=round_number))
        self._num_scored += self._log.row(round_number - 1) is None
        changed = self._write(round_number - 1, vector, cosines, canary_length)
        if noise_stddev is not None:
            arrays = [aggregate] if isinstance(aggregate, np.ndarray) else aggregate
            sizes = [size for part in arrays if (size := np.size(part))]
            self._measured.write(round_number - 1, vector, sizes, noise_stddev, norm_bound)
        for index in (round_number - 1, *changed):
            self._chain.log_round(index + 1, self.folder.round_logs())
        self._watch.see(self._num_scored, round_number, self._canary_check)
        return cosines

    def _checked_number(self, round_number: int) -> int:
        """The number of a round as a Python number, because the chain takes no NumPy types."""
        if not 1 <= round_number <= self.num_rounds:
            raise InputError(
                f"round_number: must be in 1 to {self.num_rounds} (num_rounds), got {round_number}"
            )
        return operator.index(round_number)

    @functools.cached_property
    def _listed(self) -> ListedCanaries:
        """The canaries' inclusion and rounds, which must not change while rounds are scored."""
        return read_listed(self.folder, self.pool)

    def _canary_check(self, false_alarm: float) -> CanaryCheck | None:
        """The canary check of the rounds so far; None if the canaries' rounds are not known."""
        listed = self._listed
        if listed.own_rounds is None:
            return None
        return canary_check_in_rounds(
            numbered_rows(self._log),
            listed.own_rounds,
            listed.included,
            lambda: logged_lengths(self.folder, np.zeros(0)),
            dim=self.pool.dim,
            family=self.pool.family,
            false_alarm=false_alarm,
        )

    def _write(
        self, index: int, vector: Float32Array, cosines: FloatArray, canary_length: float | None
    ) -> list[int]:
        """Writes a round in such an order that no crash leaves it with facts of two aggregates.

        Returns the later rounds, from 0, whose rows changed too.
        """
        length = euclidean_norm(vector)
        row = self._log.row(index)
        is_same = row is not None and np.array_equal(row, cosines.astype(row.dtype))
        if not (is_same and self._lengths.array[index, 0] == length):
            self._sum.forget(index)
        changed = self._measured.forget(index)
        self._lengths.write_round(index, np.nan)
        self._lengths.flush()
        self._rounds.forget_vector(index)
        self._rounds.write_round(index, vector, cosines)
        self._rounds.flush()
        of_canary = np.nan if canary_length is None else canary_length
        self._lengths.write_round(index, (length, of_canary))
        self._lengths.flush()
        self._sum.add(index, functools.partial(add_direction, vector=vector))
        return changed

    def score_uploads(self, round_number: int, uploads: Mapping[int, Arrays]) -> None:
        """Scores canaries against the noised uploads of their own clients (docs/threat_models.md).

        Args:
          round_number: The round, counted from 1.
          uploads: By canary, what left the client's device, with noise and with the sign of the
            model's movement; for an excluded canary what its client sent instead (noise alone, or
            an update with noise), or no entry. An upload that is passed again is replaced.

        Raises:
          InputError: The round is out of range; an upload has another size or dtype or is not
            finite; or a canary may have no upload in that round. No upload is written then.
        """
        round_number = self._checked_number(round_number)
        vectors = {}
        for canary, upload in uploads.items():
            name = f"upload of canary {canary} in round {round_number}"
            self._check_upload(name, round_number - 1, int(canary))
            vectors[int(canary)] = flatten(upload, self.pool.dim, name)
        chain, log = self._chain, self._uploads
        chain.add(Scoring(round=round_number))
        for canary, vector in vectors.items():
            log.add(round_number - 1, canary, vector)
        log.flush()
        chain.log_round(round_number, self.folder.round_logs())

    def _check_upload(self, name: str, index: int, canary: int) -> None:
        """Refuses an upload outside a canary's rounds, or a second upload if rounds are unknown."""
        if not 0 <= canary < self.pool.count:
            raise InputError(f"{name}: there are canaries 0 to {self.pool.count - 1}")
        own = self._listed.own_rounds
        if own is not None:
            if index not in own.of_canary[canary]:
                raise InputError(
                    f"{name}: this canary does not participate in that round (canary_rounds)"
                )
        elif self.folder.upload_cosines.exists():
            others = np.setdiff1d(self._uploads.rounds_of(canary), [index])
            if len(others):
                raise InputError(
                    f"{name}: this canary has an upload already, in round {others[0] + 1}; "
                    "canaries with several uploads need canary_rounds in RoundScorer.create"
                )

    @functools.cached_property
    def _uploads(self) -> CanaryUploads:
        """The log of uploads, created at the first upload."""
        pool = pool_of_uploads(self.pool, self._listed.own_rounds)
        return CanaryUploads.opened("a+", self.folder, pool, self.num_rounds, self.pool.count)

    @property
    def scored_rounds(self) -> list[int]:
        """The scored rounds, from 1, in order.

        After `open`, a round that a kill interrupted is left out: score it again, if you can.
        """
        written = [int(index) + 1 for index in np.flatnonzero(self._log.written())]
        return [number for number in written if number != self._cut]

    def scored_round(self, index: int) -> ScoredRound | None:
        """A round's cosines and compared vector; None if the round, from 0, is not scored."""
        return self._rounds.scored_round(index)

    def lower_bound_epsilon(self, delta: float, confidence: float = 0.95) -> float:
        """The lower bound on epsilon from own-round scores so far, valid however often it is read.

        It needs `canary_rounds` with at most one round for each canary (docs/live_verdict.md).

        Args:
          delta: The delta of differential privacy, in [0, 1).
          confidence: The confidence that the bounds after all rounds hold together, in (0, 1).

        Returns:
          The lower bound against an attacker who knows the participation schedule; 0 if scores show
          nothing.

        Raises:
          InputError: An argument is out of range; the canaries' rounds are not known; no canary has
            a round, or one has several; or their family has no known null distribution.
        """
        check_delta(delta)
        check_confidence(confidence)
        listed = self._listed
        why_not = why_no_live_test(listed.own_rounds, self.pool.family)
        if listed.own_rounds is None or why_not is not None:
            raise InputError(f"{self.folder.path}: no lower bound yet: {why_not}")
        canaries = LiveCanaries(listed.included, listed.own_rounds, self.pool.family, self.pool.dim)
        test = LiveTest(canaries, delta)
        test.add(self, range(self.num_rounds))
        return test.epsilon(confidence)

    def finish(
        self, *, initial: Arrays | None = None, final: Arrays | None = None
    ) -> dict[str, Path]:
        """Writes a score file per statistic, as `fl-audit run` does; may be called again.

        Args:
          initial: The model before the first round, laid out like an aggregate; with it and
            `final`, the statistic `final_minus_initial` is scored.
          final: The model after the last round; with it, the statistic `final` is scored.

        Returns:
          The path of `scores_STATISTIC.csv` by statistic, for all statistics that the folder and
          the models allow. The concentrations of the compared vectors, which null distributions
          need, are written to `concentrations.json`.

        Raises:
          InputError: A model has another size or dtype or is not finite, the initial model is given
            without the final one, or there is nothing to score.
        """
        if initial is not None and final is None:
            raise InputError("final: is required with initial")
        models = {
            name: None if model is None else flatten(model, self.pool.dim, name)
            for name, model in (("initial", initial), ("final", final))
        }
        chain = self._chain
        scored = score_seen(read_log(self.folder, iter), **models)
        if not scored.scores:
            raise InputError(f"{self.folder.path}: no round is scored yet")
        write_scores(self.folder, scored, chain)
        return {statistic: self.folder.scores(statistic) for statistic in scored.scores}
