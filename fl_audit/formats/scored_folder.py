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

    def scores(self, statistic: str) -> Path:
        """The score file of one statistic (CSV: canary_id, included, score)."""
        return self.path / f"scores_{statistic}.csv"
