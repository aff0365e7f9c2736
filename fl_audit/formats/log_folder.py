"""The folder of a log and the files in it.

The folder is written by a production system in any language or by `RoundScorer`; docs/logs.md
describes its format.
"""

from dataclasses import dataclass
from pathlib import Path

from fl_audit.formats.scored_folder import ScoredFolder


@dataclass(frozen=True)
class LogFolder(ScoredFolder):
    """The paths inside a log's folder, whose `canaries.csv` may lack the column `rounds`."""

    @property
    def pool(self) -> Path:
        """The file of the pool: format_version, family, seed, count and dim (JSON)."""
        return self.path / "pool.json"

    @property
    def aggregates(self) -> Path:
        """The folder of the rounds' noised aggregates, named `round_000001.npy` and so on."""
        return self.path / "aggregates"

    @property
    def round_lengths(self) -> Path:
        """The length of each aggregate and of a canary in it, float64 of shape (rounds, 2) (NPY).

        The second is what the mechanism promises, clip norm over denominator. NaN where a length is
        not known; the file may be missing.
        """
        return self.path / "round_lengths.npy"

    @property
    def round_mechanism(self) -> Path:
        """The noise on a coordinate and the norm bound, float64 of shape (rounds, 2) (NPY).

        The first is the standard deviation of the noise on each coordinate of a round's aggregate,
        the second the largest norm that the aggregate can have without noise. NaN where one is not
        known; the file may be missing.
        """
        return self.path / "round_mechanism.npy"

    @property
    def variables(self) -> Path:
        """The sizes of the model's variables, and which are frozen (JSON); may be missing."""
        return self.path / "variables.json"

    @property
    def round_measures(self) -> Path:
        """What `RoundScorer` has measured of each aggregate, as a run's `aggregates.npy` (NPY)."""
        return self.path / "round_measures.npy"

    @property
    def coordinate_lengths(self) -> Path:
        """What rounds leave on each coordinate, as `RoundScorer` keeps it (NPY)."""
        return self.path / "coordinate_lengths.npy"

    @property
    def autocorrelation(self) -> Path:
        """The strongest autocorrelation of a round, as `RoundScorer` has found it (JSON)."""
        return self.path / "round_echo.json"

    @property
    def direction_sum(self) -> Path:
        """The sum of the directions of the aggregates so far, as `RoundScorer` keeps it (NPY)."""
        return self.path / "direction_sum.npy"

    @property
    def initial(self) -> Path:
        """The model before the first round, float32 of shape (dim,) (NPY); may be missing."""
        return self.path / "initial.npy"

    @property
    def final(self) -> Path:
        """The model after the last round, float32 of shape (dim,) (NPY); may be missing."""
        return self.path / "final.npy"

    @property
    def participation(self) -> Path:
        """How clients may take part, and whether a claim counts on it (JSON); may be missing."""
        return self.path / "participation.json"

    @property
    def faults(self) -> Path:
        """What went wrong in the audit itself while training went on, a line each; or missing."""
        return self.path / "faults.txt"

    @property
    def optional(self) -> tuple[str, ...]:
        """The names of what another system may put beside the pool; each may be missing."""
        vectors = (self.aggregates, self.round_cosines, self.initial, self.final)
        told = (self.canaries, self.round_lengths, self.round_mechanism, self.variables)
        return tuple(path.name for path in (*vectors, *told, self.participation))
