"""Scoring a pool of canaries while another system trains."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.arrays import Arrays, flatten
from fl_audit.attacks.compared_vectors import (
    concentration_row,
    depends_on_vectors,
    unknown_rows,
    write_compared_vectors,
)
from fl_audit.attacks.listed_canaries import read_listed, write_listed
from fl_audit.attacks.log_folder import logged_rounds, score_files, score_seen
from fl_audit.attacks.logged_sum import LoggedSum
from fl_audit.canaries.pool import CanaryPool, read_pool, write_pool
from fl_audit.errors import InputError
from fl_audit.formats.concentration_log import ConcentrationLog
from fl_audit.formats.cosine_log import CosineLog
from fl_audit.formats.log_folder import LogFolder
from fl_audit.formats.score_file import write_score_file


class RoundScorer:
    """A server's side of an audit: scores each round's aggregate, keeps the cosines in a folder.

    What is scored survives kill -9; `open` goes on. The folder is one that `fl-audit estimate`
    takes at any time, from the first round on.

    Attributes:
      folder: where everything lies.
      pool: the canaries.
      num_rounds: rounds that there is room for.
    """

    def __init__(self, folder: LogFolder, pool: CanaryPool, log: CosineLog) -> None:
        """Of a folder that is there; see `create` and `open`."""
        self.folder = folder
        self.pool = pool
        self.num_rounds = log.num_rounds
        self._log = log
        self._concentrations: ConcentrationLog | None = None
        if folder.round_concentrations.exists():
            self._concentrations = ConcentrationLog.open(
                folder.round_concentrations, log.num_rounds
            )
        self._sum = LoggedSum(folder.direction_sum, pool.dim)

    @classmethod
    def create(
        cls,
        folder: Path | str,
        pool: CanaryPool,
        num_rounds: int,
        canary_rounds: Sequence[Sequence[int]] | None = None,
    ) -> "RoundScorer":
        """Starts an audit in a new or empty folder, which appears whole.

        Args:
          folder: to make; 4 bytes a round and canary, and 8 a parameter.
          pool: the canaries.
          num_rounds: rounds to make room for; fewer may come.
          canary_rounds: The rounds of each canary, included or not, from 1, such as
            `CanaryClients.rounds`; with them `own_rounds` is scored. An excluded canary's are those
            that it would have taken part in, drawn as those of included ones.

        Raises:
          InputError: the folder holds something already, the coins all fell alike, or the number of
            rounds is below 1.
        """
        path = Path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(
                f"{path}: must be a new or empty folder; RoundScorer.open goes on with an audit"
            )
        if num_rounds < 1:
            raise InputError(f"num_rounds: must be at least 1, got {num_rounds}")
        _ = pool.included  # before training, not after it, if the coins all fell alike
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as beside:
            made = LogFolder(Path(beside) / path.name)
            made.path.mkdir()
            CosineLog.create(made.round_cosines, num_rounds, pool.count).flush()
            if depends_on_vectors(pool.family):
                ConcentrationLog.create(made.round_concentrations, num_rounds).flush()
            LoggedSum.create(made.direction_sum)
            write_pool(made.pool, pool)
            if canary_rounds is not None:
                write_listed(made, pool, canary_rounds, num_rounds)
            made.path.rename(path)
        return cls.open(path)

    @classmethod
    def open(cls, folder: Path | str) -> "RoundScorer":
        """Goes on with an audit after a crash or a restart.

        Raises:
          InputError: the folder holds none, or a file in it is damaged.
        """
        at = LogFolder(Path(folder))
        pool = read_pool(at.pool)
        num_rounds = CosineLog.read(at.round_cosines, pool.count).num_rounds
        return cls(at, pool, CosineLog.open(at.round_cosines, num_rounds, pool.count))

    def score_round(self, round_number: int, aggregate: Arrays) -> npt.NDArray[np.float64]:
        """Scores every canary against a round's aggregate, and writes that to the disk.

        A round that is scored again (the server fell back to its last checkpoint) is replaced; the
        null of `sum` is then known from excluded canaries alone. One that gives out nothing is left
        out.

        Args:
          round_number: from 1 on.
          aggregate: what the round gave out, with its noise, AS THE MODEL MOVES: the new model
            minus the old one, or any positive multiple of it; not a pseudo-gradient, which is its
            negative. One array of `dim` numbers, or a list of arrays in the order in which canary
            clients cut up their vectors; float32 or float64.

        Returns:
          The cosines, float64 of shape (count,).

        Raises:
          InputError: there is no room for the round, or the aggregate is of another size or type or
            is not finite; nothing is written then.
        """
        if not 1 <= round_number <= self.num_rounds:
            raise InputError(
                f"round_number: must be in 1 to {self.num_rounds} (num_rounds), got {round_number}"
            )
        name = f"aggregate of round {round_number}"
        vector = flatten(aggregate, self.pool.dim, name)
        cosines = self.pool.cosines(vector)
        self._write(round_number - 1, vector, cosines)
        return cosines

    def _write(self, index: int, vector: Float32Array, cosines: FloatArray) -> None:
        """Writes a round so that no crash leaves cosines with what is known of other vectors."""
        self._sum.forget(index)
        if self._concentrations is not None:
            self._concentrations.write_round(index, unknown_rows(1)[0])
        self._log.write_round(index, cosines)
        self._log.flush()
        if self._concentrations is not None:
            self._concentrations.write_round(index, concentration_row(vector))
            self._concentrations.flush()
        self._sum.add(index, vector)

    @property
    def scored_rounds(self) -> list[int]:
        """Numbers of the rounds that are scored, in order."""
        return [int(index) + 1 for index in np.flatnonzero(self._log.written())]

    def finish(
        self, *, initial: Arrays | None = None, final: Arrays | None = None
    ) -> dict[str, Path]:
        """Writes a score file per statistic, as `fl-audit run` does, and may be called again.

        Args:
          initial: the model before the first round, laid out like an aggregate; where it and
            `final` are there, `final_minus_initial` is scored.
          final: the model after the last round; where it is there, `final` is scored.

        Returns:
          The path of `scores_STATISTIC.csv` by statistic: `max` and `sum` over the rounds that are
          scored, and what the models allow. What is known of the vectors behind them goes into
          `concentrations.json`.

        Raises:
          InputError: a model is of another size or type or is not finite, there is an initial
            one only, or there is nothing to score.
        """
        if initial is not None and final is None:
            raise InputError("final: must be handed over where initial is")
        models = {
            name: None if model is None else flatten(model, self.pool.dim, name)
            for name, model in (("initial", initial), ("final", final))
        }
        rounds = logged_rounds(self.folder, self.pool, self._log)
        listed = read_listed(self.folder, self.pool)
        seen = score_seen(
            self.pool, rounds, len(self.scored_rounds), own_rounds=listed.own_rounds, **models
        )
        if not seen.scores:
            raise InputError(f"{self.folder.path}: no round is scored yet")
        paths = {}
        # First away, last there: a crash leaves no scores with what is known of other vectors.
        self.folder.compared_vectors.unlink(missing_ok=True)
        for statistic, scored in score_files(listed.included, seen.scores).items():
            paths[statistic] = self.folder.scores(statistic)
            write_score_file(paths[statistic], scored)
        write_compared_vectors(self.folder.compared_vectors, seen.compared)
        return paths
