"""Logs of the rounds' signals about canaries that hold examples, and the scores that follow."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.attacks.all_iterates import over_rounds
from fl_audit.attacks.example_statistics import (
    WHITE_BOX,
    WHITE_BOX_MAX,
    WHITE_BOX_OWN,
    WHITE_BOX_RATIO,
)
from fl_audit.attacks.own_rounds import OwnRounds, sums_in_own_rounds
from fl_audit.attacks.round_cosines import numbered_rows
from fl_audit.attacks.update_ratio import Signals, log_likelihood_ratios
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_logs import CosineLog


@dataclass(frozen=True, eq=False)
class UpdateLogs:
    """Logs of float32 rows of shape (canaries,), one per round.

    Attributes:
      products: The inner products of clipped updates with aggregates.
      signals: The signals of `fl_audit.attacks.update_ratio`.
      energies: Their variances.
    """

    products: CosineLog
    signals: CosineLog
    energies: CosineLog

    @classmethod
    def at_round(
        cls, completed: int, folder: RunFolder, num_rounds: int, num_canaries: int
    ) -> "UpdateLogs":
        """Creates logs if no round is completed, otherwise opens the existing ones."""
        return cls(
            *(
                CosineLog.at_round(completed, path, num_rounds, num_canaries)
                for path in _paths(folder)
            )
        )

    @classmethod
    def read(cls, folder: RunFolder, num_canaries: int) -> "UpdateLogs":
        """Opens the logs of a finished run, read-only."""
        return cls(*(CosineLog.read(path, num_canaries) for path in _paths(folder)))

    def write_round(self, round_index: int, products: FloatArray, signals: Signals) -> None:
        self.products.write_round(round_index, products)
        self.signals.write_round(round_index, signals.signal)
        self.energies.write_round(round_index, signals.energy)

    def flush(self) -> None:
        for log in (self.products, self.signals, self.energies):
            log.flush()

    def scores(self, own: OwnRounds) -> Mapping[str, FloatArray]:
        """Scores by statistic, each float64 of shape (canaries,).

        They are the sum (Steinke et al. Algorithm 3, line 18) and the maximum of products over
        rounds, the sum of log likelihood ratios, and the sum of the signals of a canary's own
        rounds over the root of their variance.
        """
        over = over_rounds(self.products.rows(), self.products.num_canaries)
        present = np.concatenate([np.zeros(0, np.int64), *own.of_canary])
        probability = len(present) / max(len(own.of_canary) * self.products.num_rounds, 1)
        ratios = np.zeros(self.products.num_canaries)
        for rows in zip(self.signals.rows(), self.energies.rows(), strict=True):
            of_round = Signals(*(row.astype(np.float64) for row in rows))
            ratios += log_likelihood_ratios(of_round, probability)
        logs = self.signals, self.energies
        signal, energy = (sums_in_own_rounds(numbered_rows(log), own).totals for log in logs)
        in_own = signal / np.sqrt(np.maximum(energy, np.finfo(np.float32).tiny))
        return {
            WHITE_BOX.name: over.total,
            WHITE_BOX_MAX.name: over.maximum,
            WHITE_BOX_RATIO.name: ratios,
            WHITE_BOX_OWN.name: in_own,
        }


def _paths(folder: RunFolder) -> tuple[Path, ...]:
    """In the order of the fields of `UpdateLogs`."""
    return folder.round_products, folder.round_signals, folder.round_energies
