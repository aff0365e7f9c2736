"""One round with and without an audit."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow_federated as tff

from benchmarks.peers.stock_tff import StockRound, fed_avg_of_ours
from benchmarks.rounds import ROUNDS, OurRound
from fl_audit.canaries.family import CanaryFamily
from fl_audit.formats.cosine_log import CosineLog
from fl_audit.mechanism_checks import AggregateLog, measure
from fl_audit.training.run.prepare import PreparedRun
from fl_audit.training.runtimes.local_runtime import LocalContext, local_runtime


class AuditedRound:
    """A round with canaries, whose aggregate is scored and logged as the round loop does."""

    def __init__(
        self, ours: OurRound, family: CanaryFamily, canaries: Sequence[int], folder: Path
    ) -> None:
        """Opens the logs.

        Args:
          ours: The round of all clients.
          family: The family of the canaries.
          canaries: Indices of the canaries that take part.
          folder: The folder for the logs.
        """
        self._round, self._family, self._canaries = ours, family, canaries
        self._log = CosineLog.create(folder / "cosines.npy", ROUNDS, family.num_canaries)
        self._aggregate = self._last = np.zeros(family.dim, np.float32)
        self._sizes = ours.variable_sizes
        path = folder / "aggregates.npy"
        self._lengths = AggregateLog.at_round(0, path, ROUNDS, len(self._sizes))

    def __call__(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
        """Runs the round; returns its aggregate and every canary's cosine with it."""
        self._last = self._aggregate
        self._aggregate = self._round(canaries=self._canaries).aggregate
        return self._aggregate, self.score()

    def score(self) -> npt.NDArray[np.float64]:
        """Measures, scores and logs the last round's aggregate."""
        self._lengths.write_round(0, measure(self._aggregate, self._last, self._sizes))
        cosines = self._family.cosines(self._aggregate)
        self._log.write_round(0, cosines)
        return cosines


class UnauditedRound:
    """A round of TFF's federated averaging with our model, under the `local` runtime."""

    def __init__(self, run: PreparedRun) -> None:
        """Compiles the process."""
        loop = tff.learning.LoopImplementation.DATASET_ITERATOR  # as ours, and faster there
        process = fed_avg_of_ours(run, loop_implementation=loop)
        self._context = LocalContext(num_threads=os.cpu_count() or 1)
        with local_runtime(self._context):
            self._round = StockRound(process, run)

    def __call__(self) -> Any:
        """Runs the round and returns the state after it."""
        with local_runtime(self._context):
            return self._round.one_by_one()
