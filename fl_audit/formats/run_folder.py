"""The run folder: which file holds what, and the record of what a run did.

Training writes it and knows nothing of estimators; the report reads it and knows nothing of
TensorFlow.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from fl_audit.errors import InputError
from fl_audit.formats.atomic import write_text
from fl_audit.formats.scored_folder import ScoredFolder

FORMAT_VERSION = 1

ZeroingKind = Literal["none", "fixed", "adaptive"]
"""Whether updates are zeroed above a norm, and whether that moves, without noise, with updates."""


@dataclass(frozen=True)
class RunFolder(ScoredFolder):
    """Paths inside one run's folder."""

    @property
    def config(self) -> Path:
        """The resolved config (TOML)."""
        return self.path / "config.toml"

    @property
    def metrics(self) -> Path:
        """A row per round (CSV)."""
        return self.path / "metrics.csv"

    @property
    def round_products(self) -> Path:
        """Inner product of what every canary that holds examples would send with it (NPY)."""
        return self.path / "round_products.npy"

    @property
    def release_cosines(self) -> Path:
        """Cosine of every canary with every difference of released models: float32 (NPY)."""
        return self.path / "release_cosines.npy"

    @property
    def release_concentrations(self) -> Path:
        """The same of every difference of released models as `round_concentrations` (NPY)."""
        return self.path / "release_concentrations.npy"

    @property
    def aggregates(self) -> Path:
        """Of every round's aggregate, by variable: squared length, product with the last (NPY)."""
        return self.path / "aggregates.npy"

    @property
    def autocorrelation(self) -> Path:
        """The lag at which the first round's aggregate is most like itself (JSON)."""
        return self.path / "first_round_echo.json"

    @property
    def checkpoint(self) -> Path:
        """State after the last checkpointed round (NPZ, no pickle)."""
        return self.path / "checkpoint.npz"

    @property
    def record(self) -> Path:
        """What the run did (JSON), see `RunRecord`; written last by training."""
        return self.path / "run.json"

    @property
    def report_json(self) -> Path:
        """The report for programs; a run with this file is finished."""
        return self.path / "report.json"

    @property
    def report_html(self) -> Path:
        """The report for people."""
        return self.path / "report.html"

    @property
    def tensorboard(self) -> Path:
        """Folder of TensorBoard event files."""
        return self.path / "tensorboard"

    @property
    def worker_log(self) -> Path:
        """Output of TFF's worker process."""
        return self.path / "worker.log"

    def released_model(self, completed: int) -> Path:
        """The model after so many rounds, while the next one is not released: float32 (NPY)."""
        return self.path / f"released_model_{completed:06}.npy"

    def direction_sum(self, name: str, count: int) -> Path:
        """The sum of the directions of so many vectors, while a run trains: float64 (NPY).

        Args:
          name: what these are vectors of.
          count: how many are in it.
        """
        return self.path / f"direction_sum_{name}_{count:06}.npy"

    def direction_sums(self, name: str = "*") -> list[Path]:
        """The sums of directions that are there, of some vectors or of all."""
        return sorted(self.path.glob(f"direction_sum_{name}_[0-9]*.npy"))

    def released_models(self) -> list[Path]:
        """The released models that are there."""
        return sorted(self.path.glob("released_model_*.npy"))


@dataclass(frozen=True)
class RunRecord:
    """What one training run did: everything that the report needs beyond scores and metrics.

    Attributes:
      task: name of the task.
      runtime: which TFF runtime ran it.
      dim: number of trainable parameters.
      num_clients: real clients in the population.
      num_canaries: canaries in the pool.
      num_included: of them, how many the coins included.
      rounds: rounds of training.
      delta: delta that estimates are computed at.
      client_participations: rounds that a real client takes part in at most; None where only
        its distribution is known (sampling anew in each round).
      canary_participations: the same for an included canary.
      sampling_probability: of one client in one round under Poisson sampling, which holds for
        everybody whose participations are None; else None.
      noise_multiplier: effective noise multiplier of one round, everything released in the
        round counted.
      sum_noise_multiplier: noise on the sum of updates over the clip norm; on a node of a tree
        under tree aggregation.
      count_noise_stddev: noise on the adaptive clip's count, in clients; 0 without one.
      denominator: expected number of clients and canaries a round, which the sum is divided by; by
        the actual number under distributed noise.
      accuracy: on held-out data, after the last round.
      accuracy_description: what counts in it.
      training_seconds: spent in TFF rounds.
      scoring_seconds: spent on canary cosines.
      versions: of the packages that matter.
      sample_size: like `sampling_probability`, how many every round draws uniformly without
        replacement; None under other patterns.
      sampled_from: out of how many.
      noise_law: name of the law of the noise, one that accounting knows.
      zeroing: what is done to updates before they are clipped.
      client_squared_sensitivity: under tree aggregation, how far a real client moves the nodes of
        all trees together, squared, in clip norms; None where its rounds are random, and under
        other noise.
      canary_squared_sensitivity: the same for an included canary.
      variable_sizes: parameters in each variable of the model.
    """

    task: str
    runtime: str
    dim: int
    num_clients: int
    num_canaries: int
    num_included: int
    rounds: int
    delta: float
    client_participations: int | None
    canary_participations: int | None
    sampling_probability: float | None
    noise_multiplier: float
    sum_noise_multiplier: float
    count_noise_stddev: float
    denominator: float
    accuracy: float
    accuracy_description: str
    training_seconds: float
    scoring_seconds: float
    versions: dict[str, str]
    sample_size: int | None = None
    sampled_from: int | None = None
    noise_law: str = "gaussian"
    zeroing: ZeroingKind = "none"
    client_squared_sensitivity: int | None = None
    canary_squared_sensitivity: int | None = None
    variable_sizes: tuple[int, ...] = ()
    format_version: int = FORMAT_VERSION


def write_record(folder: RunFolder, record: RunRecord) -> None:
    """Writes `run.json`."""
    text = json.dumps(dataclasses.asdict(record), indent=2, allow_nan=False)
    write_text(folder.record, text + "\n")


def read_record(folder: RunFolder) -> RunRecord:
    """Reads `run.json`.

    Raises:
      InputError: it is missing, damaged, or of another format version.
    """
    try:
        fields: dict[str, Any] = msgspec.json.decode(folder.record.read_bytes(), type=dict)
        version = fields.get("format_version")
        if version != FORMAT_VERSION:
            raise InputError(
                f"{folder.record}: format_version is {version!r}, must be {FORMAT_VERSION}"
            )
        return msgspec.convert(fields, RunRecord)
    except OSError as error:
        raise InputError(f"{folder.record}: cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InputError(f"{folder.record}: is not a run record: {error}") from error
