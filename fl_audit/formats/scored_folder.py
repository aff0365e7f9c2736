"""The files that run folders and log folders have in common: canaries and their scores."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ScoredFolder:
    """The paths inside a folder whose canaries are scored."""

    path: Path

    @property
    def canaries(self) -> Path:
        """The pool, `canary_id,included,rounds` with rounds from 1, separated by spaces (CSV)."""
        return self.path / "canaries.csv"

    @property
    def round_cosines(self) -> Path:
        """The canaries' cosines with aggregates, float32 of shape (rounds, num_canaries) (NPY)."""
        return self.path / "round_cosines.npy"

    @property
    def round_concentrations(self) -> Path:
        """How much of each aggregate lies on few coordinates, float64 of shape (rounds, 2) (NPY).

        The file is missing where the null law of the canaries' family does not depend on it.
        """
        return self.path / "round_concentrations.npy"

    @property
    def round_directions(self) -> Path:
        """The aggregates' directions, for canaries with several rounds (see `DirectionLog`) (NPY).

        A run deletes it with the last round.
        """
        return self.path / "round_directions.npy"

    @property
    def compared_vectors(self) -> Path:
        """What is known of the vectors that canaries were compared with, by statistic (JSON)."""
        return self.path / "concentrations.json"

    @property
    def sources(self) -> Path:
        """The digests of the files that belong together (JSON), see `Sources`."""
        return self.path / "sources.json"

    def scores(self, statistic: str) -> Path:
        """The score file of one statistic, `canary_id,included,score` (CSV)."""
        return self.path / f"scores_{statistic}.csv"
