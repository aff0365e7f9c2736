"""The scores of a run, made again from the logs of its rounds."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.all_iterates import over_rounds
from fl_audit.attacks.attacker import AttackContext
from fl_audit.attacks.checkpoints import CHECKPOINTS_MAX, CHECKPOINTS_SUM
from fl_audit.attacks.compared_vectors import ComparedVectors, read_compared_vectors
from fl_audit.attacks.one_upload import ONE_UPLOAD
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import FinishedRounds
from fl_audit.attacks.statistics import Statistic
from fl_audit.attacks.threat_models import compared_by, make_attackers, scores_of, statistics_of
from fl_audit.attacks.update_logs import UpdateLogs
from fl_audit.attacks.uploads import CanaryUploads, PoolOfUploads, UploadScores
from fl_audit.canaries.families import FAMILIES
from fl_audit.canaries.pool import pair_names
from fl_audit.canaries.tables import Canaries, coin_probability, family_of
from fl_audit.config import Config
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.participation_files import CanaryRow
from fl_audit.formats.round_logs import ConcentrationLog, CosineLog
from fl_audit.formats.run_record import RunRecord
from fl_audit.formats.score_file import ScoreFile, read_score_file
from fl_audit.report.finished_run import read_scores_of
from fl_audit.verification.findings import Findings


class _NoCanaries:
    """Canaries whose vectors nobody needs, as all rounds are logged."""

    def cosines(self, target: Float32Array, /) -> FloatArray:
        """Raises a `ValueError`."""
        raise ValueError("the rounds of a log are over")

    def vector(self, canary: int, /) -> Float32Array:
        """Raises a `ValueError`."""
        raise ValueError("the rounds of a log are over")


def compare_scores(path: Path, derived: ScoreFile, findings: Findings) -> None:
    """Holds a score file against the scores that follow from coins and logged rounds.

    Args:
      path: The file.
      derived: The scores that follow.
      findings: What is wrong is added to it.

    Raises:
      InputError: The file cannot be read.
    """
    recorded = read_score_file(path)
    if recorded.canary_id != derived.canary_id:
        findings.add(path, "lists other canaries than the pool has, or in another order")
        return
    if (recorded.inclusion, recorded.pair) != (derived.inclusion, derived.pair):
        findings.add(path, "says otherwise than the pool how it was decided who takes part")
    coins = np.asarray(recorded.included) != np.asarray(derived.included)
    wrong = np.flatnonzero(coins | (np.asarray(recorded.score) != derived.score))
    if len(wrong) == 0:
        return
    at = int(wrong[0])
    follows = "; the logged rounds give " + repr(float(derived.score[at]))
    if coins[at]:
        follows = f"; by its coin it was {'included' if derived.included[at] else 'excluded'}"
    more = f" (and {len(wrong) - 1} other canaries)" if len(wrong) > 1 else ""
    findings.add(
        path,
        f"canary {derived.canary_id[at]} has included {int(recorded.included[at])} and score "
        f"{float(recorded.score[at])!r}{follows}{more}",
    )


@dataclass(frozen=True, eq=False)
class RunScores:
    """The scores of a run, as the logs of its rounds give them.

    Attributes:
      folder: The folder of the run.
      config: The config of the run.
      record: What the run did.
      pool: The canaries, each with its rounds.
    """

    folder: RunFolder
    config: Config
    record: RunRecord
    pool: Mapping[str, CanaryRow]

    @functools.cached_property
    def own(self) -> OwnRounds:
        """The rounds of every canary."""
        nothing = np.zeros(0, np.int64)
        rounds = (row.rounds for row in self.pool.values())
        return OwnRounds(
            tuple(nothing if own_rounds is None else own_rounds for own_rounds in rounds)
        )

    @functools.cached_property
    def rounds(self) -> FinishedRounds | None:
        """The cosines with the rounds' aggregates; None where the run logged none.

        Raises:
          InputError: A log is damaged.
        """
        folder = self.folder
        if not folder.round_cosines.exists():
            return None
        log = CosineLog.read(folder.round_cosines, self.record.num_canaries)
        path = folder.round_concentrations
        concentrations = ConcentrationLog.read(path, log.num_rounds) if path.exists() else None
        return FinishedRounds(log, concentrations, None)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics that the run logged."""
        return statistics_of(self.config.canaries, self.config.audit)

    def verify(
        self, findings: Findings
    ) -> tuple[dict[str, ScoreFile], Mapping[str, ComparedVectors]]:
        """Holds score files, and what is known of the vectors behind them, against the logs.

        Args:
          findings: What is wrong is added to it.

        Returns:
          The scores by statistic and what is known behind them: made again where the logs allow,
            else as the folder has them; without those that cannot be read.
        """
        derived: dict[str, FloatArray] = {}
        compared: Mapping[str, ComparedVectors] = {}
        with findings.reading(self.folder.round_cosines):
            derived, compared = self._from_rounds()
        steps, products = self.folder.release_cosines, self.folder.round_products
        with findings.reading(steps):
            if steps.exists():
                derived |= _from_steps(CosineLog.read(steps, self.record.num_canaries))
        with findings.reading(products):
            if products.exists():
                derived |= UpdateLogs.read(self.folder, self.record.num_canaries).scores(self.own)
        with findings.reading(self.folder.upload_cosines):
            of_uploads = self._from_uploads()
            if of_uploads is not None:
                derived |= {ONE_UPLOAD.name: of_uploads.values}
                compared = {**compared, ONE_UPLOAD.name: of_uploads.compared}
        left = [s.name for s in self.statistics if s.name not in derived]
        if left:
            findings.note(
                f"not made again, as the folder has neither the models nor the directions of "
                f"rounds or uploads: {', '.join(self.folder.scores(name).name for name in left)}"
            )
        scores = dict(self._files(derived, findings))
        return scores, self._compared(compared, findings)

    def _files(
        self, derived: Mapping[str, FloatArray], findings: Findings
    ) -> Iterator[tuple[str, ScoreFile]]:
        for statistic in self.statistics:
            path = self.folder.scores(statistic.name)
            values = derived.get(statistic.name)
            with findings.reading(path):
                if values is None:
                    yield statistic.name, read_scores_of(path, self.pool)
                    continue
                file = self._file(values)
                yield statistic.name, file
                compare_scores(path, file, findings)

    def _file(self, scores: FloatArray) -> ScoreFile:
        canaries = self.config.canaries
        return ScoreFile(
            tuple(self.pool),
            np.array([row.included for row in self.pool.values()], bool),
            scores,
            canaries.inclusion,
            coin_probability(canaries),
            pair_names(canaries.inclusion, len(self.pool)),
        )

    def _compared(
        self, derived: Mapping[str, ComparedVectors], findings: Findings
    ) -> Mapping[str, ComparedVectors]:
        path = self.folder.compared_vectors
        recorded: Mapping[str, ComparedVectors] = {}
        with findings.reading(path):
            recorded = read_compared_vectors(path)
            for name, vectors in derived.items():
                if recorded and recorded.get(name) != vectors:
                    findings.add(path, f"`statistics.{name}` is not what the logged rounds give")
        return {**recorded, **derived} if recorded else {}

    def _from_rounds(self) -> tuple[dict[str, FloatArray], Mapping[str, ComparedVectors]]:
        """The scores by attackers who see aggregates; without sums whose directions are gone."""
        if self.rounds is None:
            return {}, {}
        has_one = self.own.most <= 1
        statistics = [
            s
            for s in self.statistics
            if s.needs <= {"round_cosines", "canary_rounds"}
            and (has_one or "canary_rounds" not in s.needs)
        ]
        context = AttackContext(
            canaries=_NoCanaries(),
            num_canaries=self.record.num_canaries,
            num_rounds=self.record.rounds,
            audit=self.config.audit,
            initial=None,
            given_cosines=self.rounds,
            family=family_of(self.config.canaries),
            canary_rounds=self.own,
            seed=self.config.seed,
        )
        attackers = make_attackers(context, statistics)
        return dict(scores_of(attackers, None)), compared_by(attackers, None)

    def _from_uploads(self) -> UploadScores | None:
        """The scores of uploads, or None.

        There are none where a canary has several, whose directions a run does not keep, and where
        vectors were stored, which rounds them.
        """
        canaries = self.config.canaries
        if not self.folder.upload_cosines.exists() or not isinstance(canaries, Canaries):
            return None
        if self.own.most > 1 or canaries.store != "none":
            return None
        vectors = FAMILIES[canaries.family](self.config.seed, canaries.count, self.record.dim)
        pool = PoolOfUploads(vectors, canaries.family, self.config.seed, self.record.dim, self.own)
        return CanaryUploads.read(self.folder, pool, self.record.num_canaries).scores()


def _from_steps(log: CosineLog) -> dict[str, FloatArray]:
    """The scores by steps between released models."""
    steps = over_rounds(log.rows(), log.num_canaries)
    return {CHECKPOINTS_MAX.name: steps.maximum, CHECKPOINTS_SUM.name: steps.total}
