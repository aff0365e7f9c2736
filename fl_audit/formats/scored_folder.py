"""The part that run folders and log folders have in common: canaries and their scores."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ScoredFolder:
    """Paths inside a folder whose canaries are scored."""

    path: Path

    @property
    def canaries(self) -> Path:
        """The pool: `canary_id,included,rounds`, the rounds (from 1) separated by spaces (CSV)."""
        return self.path / "canaries.csv"

    @property
    def round_cosines(self) -> Path:
        """The cosine of every canary with every aggregate: float32, rounds x canaries (NPY)."""
        return self.path / "round_cosines.npy"

    @property
    def round_concentrations(self) -> Path:
        """How much of every round's aggregate lies on few coordinates: float64, rounds x 2 (NPY).

        Missing where canaries are of a family whose null law does not depend on it.
        """
        return self.path / "round_concentrations.npy"

    @property
    def compared_vectors(self) -> Path:
        """What is known of the vectors that canaries were compared with, by statistic (JSON)."""
        return self.path / "concentrations.json"

    def scores(self, statistic: str) -> Path:
        """The score file of one statistic (CSV: canary_id, included, score)."""
        return self.path / f"scores_{statistic}.csv"
