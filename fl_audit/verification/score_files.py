"""The scores of a run, recomputed from its models and from the logs of its rounds."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.all_iterates import SUM, WINDOW_SUM, over_rounds
from fl_audit.attacks.attacker import AttackContext, Attacker
from fl_audit.attacks.checkpointed_array import read_state
from fl_audit.attacks.checkpoints import CHECKPOINTS_MAX, CHECKPOINTS_SUM
from fl_audit.attacks.compared_vectors import ComparedVectors, read_compared_vectors
from fl_audit.attacks.directions import sum_of_cosines
from fl_audit.attacks.known_rounds import CorrelatedRounds, lengths_in_metrics
from fl_audit.attacks.one_upload import ONE_UPLOAD
from fl_audit.attacks.own_rounds import OwnRounds, RoundWeights
from fl_audit.attacks.own_sums import KeptSums
from fl_audit.attacks.round_cosines import LoggedRounds, logged_concentrations
from fl_audit.attacks.secret_rounds import SECRET_ROUNDS
from fl_audit.attacks.statistics import Sight, Statistic
from fl_audit.attacks.threat_models import compared_by, make_attackers, scores_of, statistics_of
from fl_audit.attacks.update_ratio import UpdateLogs
from fl_audit.attacks.uploads import CanaryUploads, PoolOfUploads
from fl_audit.canaries.canary_tables import Canaries, family_of, score_file_of
from fl_audit.canaries.families import FAMILIES, CanaryFamily
from fl_audit.config import Config
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.model_file import read_model
from fl_audit.formats.participation_files import CanaryRow
from fl_audit.formats.round_logs import LOGGED_SUM, CosineLog
from fl_audit.formats.run_record import RunRecord
from fl_audit.formats.score_file import ScoreFile, read_score_file, score_text
from fl_audit.formats.text_files import read_foreign
from fl_audit.inner_products import euclidean_norm
from fl_audit.report.finished_run import read_scores_of
from fl_audit.verification.findings import Difference, Verified, differences


def compare_scores(
    path: Path, derived: ScoreFile, verified: Verified, error: float = 0.0
) -> ScoreFile:
    """Compares a score file with the scores from coins and logs, up to a rounding `error`.

    Returns the recorded scores if they fit, else the recomputed scores.
    """
    recorded = read_score_file(path)
    if recorded.canary_id != derived.canary_id:
        verified.add(path, "lists other canaries than the pool has, or in another order")
        return derived
    drawn = [(one.inclusion, one.inclusion_probability, one.pair) for one in (recorded, derived)]
    if drawn[0] != drawn[1]:
        verified.add(path, "states another kind of inclusion, probability or pair than the pool")
    coins = np.asarray(recorded.included) != np.asarray(derived.included)
    differ = ~(np.abs(np.asarray(recorded.score) - derived.score) <= error)
    wrong = np.flatnonzero(coins | differ)
    if len(wrong) == 0:
        return recorded
    at = int(wrong[0])
    follows = "; the logs give " + repr(float(derived.score[at]))
    if coins[at]:
        follows = (
            f"; by its coin the canary was {'included' if derived.included[at] else 'excluded'}"
        )
    more = f" (and {len(wrong) - 1} other canaries)" if len(wrong) > 1 else ""
    verified.add(
        path,
        f"canary {derived.canary_id[at]} has `included` {int(recorded.included[at])} and score "
        f"{float(recorded.score[at])!r}{follows}{more}",
    )
    return derived


def compare_vectors(
    path: Path, derived: Mapping[str, ComparedVectors], verified: Verified
) -> dict[str, ComparedVectors]:
    """Returns recorded compared vectors, replaced by those from logs where the two differ."""
    recorded: dict[str, ComparedVectors] = {}
    with verified.reading(path):
        recorded = dict(read_compared_vectors(path))
        for name in sorted({*derived, *recorded}):
            if name not in derived:
                if f"scores_{name}.csv" not in verified.not_made_again:
                    verified.not_made_again.append(f"{path.name}: {name}")
            elif name not in recorded or not _are_alike(recorded[name], derived[name]):
                verified.add(path, f"`statistics.{name}` is not what the logs give")
                recorded[name] = derived[name]
    return recorded


def _are_alike(recorded: ComparedVectors, derived: ComparedVectors) -> bool:
    """Whether both are equal except for last digits, as on another processor."""
    unequal = differences(msgspec.to_builtins(recorded), msgspec.to_builtins(derived))
    return all(
        difference.kind == "last digits" or _is_rounding_of_factor(difference)
        for difference in unequal
    )


_FACTOR_ROUNDING = 1e-7
"""The largest error by rounding of the log of a factor, which may itself be as small as 1e-9."""


def _is_rounding_of_factor(difference: Difference) -> bool:
    values = (difference.recorded, difference.derived)
    if not difference.place.endswith(".log_factor"):
        return False
    ours, theirs = (value if isinstance(value, float) else math.nan for value in values)
    return abs(ours - theirs) <= _FACTOR_ROUNDING


@dataclass(frozen=True, eq=False)
class Derived:
    """A statistic's scores from logs or models.

    Attributes:
      scores: The scores, float64 of shape (num_canaries,).
      compared: The compared vectors, which determine the null; None if unknown.
      error: The largest rounding error of a score.
    """

    scores: FloatArray
    compared: ComparedVectors | None
    error: float = 0.0


def _derived(
    attackers: Sequence[Attacker], final: Float32Array | None = None, error: float = 0.0
) -> dict[str, Derived]:
    scores, compared = scores_of(attackers, final), compared_by(attackers, final)
    return {name: Derived(values, compared.get(name), error) for name, values in scores.items()}


SCORE_ROUNDING = 1e-9
"""Allowed rounding of a score that linear algebra computes from logs; generous."""

_ROUNDING = 1e-3
"""Allowed rounding of a cosine in float32, in standard deviations under the null; generous."""

_ROUNDING_OF_STORED = 0.05
"""The same for vectors stored with 16 bits a coordinate."""


@dataclass(frozen=True, eq=False)
class RunScores:
    """The scores of a run from its models and logs; `pool` has the canaries with their rounds."""

    folder: RunFolder
    config: Config
    record: RunRecord
    pool: Mapping[str, CanaryRow]

    @functools.cached_property
    def own(self) -> OwnRounds:
        nothing = np.zeros(0, np.int64)
        rows = self.pool.values()
        return OwnRounds(
            tuple(nothing if row.rounds is None else row.rounds for row in rows),
            tuple(row.arm for row in rows if row.arm),
        )

    @functools.cached_property
    def rounds(self) -> LoggedRounds | None:
        """The cosines with aggregates; None without their log, InputError if it holds no round."""
        folder = self.folder
        if not folder.round_cosines.exists():
            return None
        shape = self.record.rounds, self.record.num_canaries
        log = CosineLog.opened("r", folder.round_cosines, *shape)
        if not (written := log.written()).any():
            raise InputError(f"{folder.round_cosines}: holds no round")
        if written[self.record.rounds_done :].any():
            raise InputError(f"{folder.round_cosines}: holds a round after the last of the run")
        concentrations = logged_concentrations(folder.round_concentrations, log)
        return LoggedRounds(log, concentrations, None, self.kept)

    @functools.cached_property
    def kept(self) -> KeptSums | None:
        """The kept sums of directions, if any (own_sums.py); InputError if they are damaged."""
        path = self.folder.kept_directions
        return KeptSums.read(path) if path.exists() else None

    @functools.cached_property
    def vectors(self) -> CanaryFamily | None:
        """The canaries' vectors, drawn again from the seed; None if canaries hold examples."""
        canaries = self.config.canaries
        if not isinstance(canaries, Canaries):
            return None
        return FAMILIES[canaries.family](self.config.seed, canaries.count, self.record.dim)

    @property
    def rounding(self) -> float:
        """Allowed difference between a recomputed and a logged cosine."""
        canaries = self.config.canaries
        is_stored = isinstance(canaries, Canaries) and canaries.store != "none"
        return (_ROUNDING_OF_STORED if is_stored else _ROUNDING) / math.sqrt(self.record.dim)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return statistics_of(self.config.canaries, self.config.audit)

    def verify(
        self, verified: Verified
    ) -> tuple[dict[str, ScoreFile], Mapping[str, ComparedVectors]]:
        """Compares score files and compared vectors with models and logs.

        Returns the scores and compared vectors by statistic, as recorded, or recomputed where they
        differ; unreadable scores are left out.
        """
        derived: dict[str, Derived] = {}
        sources: tuple[tuple[Path, Callable[[], Mapping[str, Derived]]], ...] = (
            (self.folder.round_cosines, self._from_rounds),
            (self.folder.model, self._from_models),
            (self.folder.release_cosines, self._from_steps),
            (self.folder.round_products, self._from_updates),
            (self.folder.upload_cosines, self._from_uploads),
        )
        for path, derive in sources:
            with verified.reading(path):
                if path.exists():
                    derived |= derive()
        with verified.reading(self.folder.round_cosines):
            derived |= self._with_sums(derived, verified)
            self._verify_kept_sums(verified)
        self._verify_used(verified)
        scores = dict(self._files(derived, verified))
        return scores, self._compared(derived, verified)

    def _files(
        self, derived: Mapping[str, Derived], verified: Verified
    ) -> Iterator[tuple[str, ScoreFile]]:
        for statistic in self.statistics:
            path, made = self.folder.scores(statistic.name), derived.get(statistic.name)
            with verified.reading(path):
                if made is None:
                    source = self._source(statistic)
                    if not source.exists():
                        verified.add(source, f"is missing, but {path.name} is computed from it")
                    verified.not_made_again.append(path.name)
                    yield statistic.name, read_scores_of(path, self.pool)
                    continue
                file = compare_scores(path, self._file(made.scores), verified, made.error)
                is_named = path.name in {one.file for one in verified.findings}
                if not is_named and read_foreign(path) != score_text(file).encode():
                    verified.add(path, "has other columns or text than a run writes")
                yield statistic.name, file

    def _source(self, statistic: Statistic) -> Path:
        """The model or log from which the scores of a statistic follow."""
        folder = self.folder
        of_steps = folder.round_products if self.vectors is None else folder.release_cosines
        of_sight: dict[Sight, Path] = {
            "uploads": folder.upload_cosines,
            "round_cosines": folder.round_cosines,
            "rounds": of_steps,
        }
        found = (path for sight, path in of_sight.items() if sight in statistic.needs)
        return next(found, folder.model)

    def _verify_used(self, verified: Verified) -> None:
        """Finds files of scores and cosines that no statistic of the config uses."""
        folder, used = self.folder, {self._source(one) for one in self.statistics}
        used |= {folder.scores(one.name) for one in self.statistics}
        logs = (folder.upload_cosines, folder.round_cosines, folder.round_products)
        for path in (*logs, folder.release_cosines, *sorted(folder.path.glob("scores_*.csv"))):
            if path.exists() and path not in used:
                verified.add(path, "is of no statistic that the config asks for")

    def _file(self, scores: FloatArray) -> ScoreFile:
        included = np.array([row.included for row in self.pool.values()], bool)
        return score_file_of(self.config.canaries, included, scores)

    def _compared(
        self, derived: Mapping[str, Derived], verified: Verified
    ) -> Mapping[str, ComparedVectors]:
        """The compared vectors: as recorded, or recomputed where they differ."""
        made = {name: one.compared for name, one in derived.items() if one.compared is not None}
        return compare_vectors(self.folder.compared_vectors, made, verified)

    def _context(self, vectors: CanaryFamily, **known: Any) -> AttackContext:
        return AttackContext(
            canaries=vectors,
            num_canaries=self.record.num_canaries,
            num_rounds=self.record.rounds,
            audit=self.config.audit,
            family=family_of(self.config.canaries),
            canary_rounds=self.own,
            seed=self.config.seed,
            release=self.record.release,
            **known,
        )

    def _needing(self, *sights: Sight) -> list[Statistic]:
        """The run's statistics whose attackers need only these inputs."""
        return [statistic for statistic in self.statistics if statistic.needs <= {*sights}]

    def _from_rounds(self) -> dict[str, Derived]:
        """The scores from aggregates; those that need directions only if these are kept."""
        if self.vectors is None:
            return {}
        correlation = self.record.release.correlation
        of_sums = correlation is not None or self.own.most > 1
        statistics = self._needing("round_cosines", "canary_rounds")
        directed = {
            one.name
            for one in statistics
            if "canary_rounds" in one.needs and (of_sums or one.threat_model == SECRET_ROUNDS.name)
        }
        if self.kept is None:
            statistics = [one for one in statistics if one.name not in directed]
        context = self._context(
            self.vectors,
            initial=None,
            given_cosines=self.rounds,
            correlation=correlation,
            aggregate_lengths=functools.partial(lengths_in_metrics, self.folder.metrics),
        )
        return {
            name: dataclasses.replace(made, error=SCORE_ROUNDING if name in directed else 0.0)
            for name, made in _derived(make_attackers(context, statistics)).items()
        }

    def _from_models(self) -> dict[str, Derived]:
        """The scores by attackers who see the final model, and possibly the initial one."""
        if self.vectors is None:
            return {}
        final, initial = read_model(self.folder.model, self.record.dim), None
        sights: list[Sight] = ["final_model"]
        if self.folder.initial_model.exists():
            initial = read_model(self.folder.initial_model, self.record.dim)
            sights.append("initial_model")
        attackers = make_attackers(
            self._context(self.vectors, initial=initial), self._needing(*sights)
        )
        return _derived(attackers, final, self.rounding)

    def _from_steps(self) -> dict[str, Derived]:
        """The scores by steps between released models."""
        log = CosineLog.read(self.folder.release_cosines, self.record.num_canaries)
        concentrations = logged_concentrations(self.folder.release_concentrations, log)
        steps = over_rounds(log.rows(), log.num_canaries)
        return {
            CHECKPOINTS_MAX.name: Derived(
                steps.maximum, LoggedRounds(log, concentrations).largest()
            ),
            CHECKPOINTS_SUM.name: Derived(steps.total, None),
        }

    def _from_updates(self) -> dict[str, Derived]:
        """The scores of canaries that hold examples."""
        logs = UpdateLogs.opened("r", self.folder, "rounds", self.record.num_canaries)
        return {name: Derived(scores, None) for name, scores in logs.scores(self.own).items()}

    def _from_uploads(self) -> dict[str, Derived]:
        """The scores of uploads; empty if a canary has several without kept directions."""
        canaries, folder = self.config.canaries, self.folder
        needs_directions = self.own.most > 1 and not folder.kept_upload_directions.exists()
        if self.vectors is None or not isinstance(canaries, Canaries) or needs_directions:
            return {}
        pool = PoolOfUploads(
            self.vectors, canaries.family, self.config.seed, self.record.dim, self.own
        )
        uploads = CanaryUploads.opened("r", folder, pool, "rounds", self.record.num_canaries)
        made = uploads.scores()
        return {ONE_UPLOAD.name: Derived(made.values, made.compared, self.rounding)}

    def _with_sums(
        self, derived: Mapping[str, Derived], verified: Verified
    ) -> Iterator[tuple[str, Derived]]:
        """The statistics that are sums of cosines, with the null from the sum of directions.

        A sum of directions is compared with the logged cosines: its inner product with each canary
        is the sum of that canary's cosines.
        """
        if self.vectors is None:
            return
        for name in (SUM.name, WINDOW_SUM.name, CHECKPOINTS_SUM.name):
            files = self.folder.direction_sums(name)
            if name not in derived or not files:
                continue
            total = read_state(files[-1], LOGGED_SUM, np.float64, self.record.dim)
            made = derived[name]
            products = self.vectors.inner_products(total.astype(np.float32))
            allowed = self.rounding * max(1.0, euclidean_norm(total))
            if not (np.abs(products - made.scores) <= allowed).all():
                verified.add(files[-1], "is not the sum of the directions of the logged rounds")
            compared = sum_of_cosines(family_of(self.config.canaries), total)
            yield name, dataclasses.replace(made, compared=compared)

    def _verify_kept_sums(self, verified: Verified) -> None:
        """Compares the kept sums over canaries' rounds with the logged cosines."""
        kept, family, rounds = self.kept, self.vectors, self.rounds
        if family is None or rounds is None or kept is None:
            return
        numbered = list(rounds.numbered_rows())
        if len(numbered) != len(kept.products):
            what = f"holds {len(kept.products)} rounds, but {len(numbered)} rounds have cosines"
            verified.add(self.folder.kept_directions, what)
            return
        scored, rows = zip(*numbered, strict=True)
        weights = RoundWeights.from_presences(self.own, np.array(scored))
        if (correlation := self.record.release.correlation) is not None:
            lengths = functools.partial(lengths_in_metrics, self.folder.metrics)
            known = CorrelatedRounds(correlation, lengths).weights(weights, np.array(scored))
            weights = weights if known is None else known
        squares = np.einsum("st,st->s", weights.of_set @ kept.products, weights.of_set)
        for worst in kept.worst:
            norm = euclidean_norm(worst)
            sets = weights.of_set[np.isclose(squares, norm**2, rtol=1e-6)]
            products = family.inner_products(worst.astype(np.float32))
            errors = np.abs(sets @ np.stack(rows) - products)
            if not (errors <= self.rounding * max(1.0, norm)).all(axis=1).any():
                what = "has a sum of directions that is of no canary's logged rounds"
                verified.add(self.folder.kept_directions, what)
