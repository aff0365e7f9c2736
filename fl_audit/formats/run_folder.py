"""The run folder with its files, and the record of what a run did.

Training writes it and does not use estimators; the report reads it and does not use TensorFlow.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from fl_audit.errors import InputError
from fl_audit.formats.atomic import write_text
from fl_audit.formats.json_file import read_json
from fl_audit.formats.scored_folder import ScoredFolder

FORMAT_VERSION = 1

ZeroingKind = Literal["none", "fixed", "adaptive"]
"""Whether updates are zeroed above a norm, and whether it adapts, without noise, to updates."""

Blocks = tuple[tuple[int, int], ...]
"""Blocks of consecutive rounds: pairs of a length and the number of blocks of that length."""


@dataclass(frozen=True)
class RunFolder(ScoredFolder):
    """Paths inside one run's folder."""

    @property
    def config(self) -> Path:
        """The resolved config (TOML)."""
        return self.path / "config.toml"

    @property
    def metrics(self) -> Path:
        """The metrics, one row per round (CSV)."""
        return self.path / "metrics.csv"

    @property
    def round_products(self) -> Path:
        """The inner product of each example canary's would-be update with each aggregate (NPY)."""
        return self.path / "round_products.npy"

    @property
    def release_cosines(self) -> Path:
        """The cosine of every canary with every difference of released models, float32 (NPY)."""
        return self.path / "release_cosines.npy"

    @property
    def release_concentrations(self) -> Path:
        """The same of every difference of released models as `round_concentrations` (NPY)."""
        return self.path / "release_concentrations.npy"

    @property
    def aggregates(self) -> Path:
        """Every aggregate's squared length and product with the last one, by variable (NPY)."""
        return self.path / "aggregates.npy"

    @property
    def autocorrelation(self) -> Path:
        """The lag at which the first round's aggregate is most like itself (JSON)."""
        return self.path / "first_round_echo.json"

    @property
    def replay(self) -> Path:
        """What a replay of the first round found, before it was trained (JSON)."""
        return self.path / "replay.json"

    @property
    def checkpoint(self) -> Path:
        """The state after the last checkpointed round (NPZ, no pickle)."""
        return self.path / "checkpoint.npz"

    @property
    def record(self) -> Path:
        """The record of what the run did (JSON), see `RunRecord`; training writes it last."""
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
        """The folder of TensorBoard event files."""
        return self.path / "tensorboard"

    @property
    def worker_log(self) -> Path:
        """The output of TFF's worker process."""
        return self.path / "worker.log"

    def released_model(self, completed: int) -> Path:
        """The model after so many rounds, kept until the next one is released, float32 (NPY)."""
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

    def made_by_training(self) -> tuple[Path, ...]:
        """The files that belong together once training is over; each may be missing."""
        logs = (self.round_cosines, self.round_concentrations, self.round_products, self.aggregates)
        releases = (self.release_cosines, self.release_concentrations)
        scores = (self.compared_vectors, *self.path.glob("scores_*.csv"))
        return (self.config, self.canaries, self.metrics, *logs, *releases, *scores)

    def released_models(self) -> list[Path]:
        """The released models that exist."""
        return sorted(self.path.glob("released_model_*.npy"))


@dataclass(frozen=True)
class LiveRecord:
    """What own-round scores proved while the run trained, valid at all rounds together.

    Attributes:
      epsilon: The epsilon proven at the audit's confidence.
      claim_p_value: The p-value of the claimed epsilon; None without a claim.
      claim_epsilon: The epsilon proven by the test of the claim, at the confidence of the verdict;
        0 where the claim stands or there is none.
    """

    epsilon: float
    claim_p_value: float | None = None
    claim_epsilon: float = 0.0


@dataclass(frozen=True)
class RunRecord:
    """The facts of one training run that the report needs beyond scores and metrics.

    Attributes:
      task: The name of the task.
      runtime: The TFF runtime that ran it.
      dim: The number of trainable parameters.
      num_clients: The number of real clients in the population.
      num_canaries: The number of canaries in the pool.
      num_included: The number of canaries that the coins included.
      rounds: The number of rounds of training.
      delta: The delta that estimates are computed at.
      client_participations: The largest number of rounds that a real client takes part in; None
        where only its distribution is known (sampling anew in each round).
      canary_participations: The largest number of rounds that an included canary takes part in;
        None likewise.
      sampling_probability: The probability of one client in one round under Poisson sampling, which
        holds for everybody whose participations are None; else None.
      noise_multiplier: The effective noise multiplier of one round, everything released in the
        round counted.
      sum_noise_multiplier: The standard deviation of the noise on the sum of updates over the clip
        norm; under tree aggregation, of the noise on a node of a tree.
      count_noise_stddev: The standard deviation of the noise on the adaptive clip's count, in
        clients; 0 without a count.
      denominator: The number that the sum is divided by: the expected number of clients and
        canaries in a round; the actual number under distributed noise.
      accuracy: The accuracy on held-out data after the last round.
      accuracy_description: The meaning of accuracy for the task, in words.
      training_seconds: The time spent in TFF rounds, in seconds.
      scoring_seconds: The time spent on canary cosines, in seconds.
      versions: The versions of the packages that matter.
      sample_size: The number that every round draws uniformly without replacement, for everybody
        whose participations are None; None under other patterns.
      sampled_from: The number that these are drawn from; None where `sample_size` is.
      noise_law: The name of the law of the noise, one that accounting knows.
      zeroing: The kind of zeroing of updates before they are clipped.
      client_squared_sensitivity: Under tree aggregation, the squared distance by which a real
        client moves the nodes of all trees together, in clip norms; None where its rounds are
        random, and under other noise.
      canary_squared_sensitivity: The same distance for an included canary.
      canary_blocks: The blocks of rounds of each of which a canary is in one, drawn uniformly and
        independently of all else; None where canaries' rounds are drawn otherwise.
      variable_sizes: The number of parameters in each variable of the model.
      stopped_after: The number of rounds after which the run stopped, as its claim was
        contradicted; None where all rounds were done.
      live: What was proven round by round; None where that is not possible.
      finished: The time when the training was over, in UTC as ISO 8601 to the second; empty in runs
        of older versions.
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
    canary_blocks: Blocks | None = None
    variable_sizes: tuple[int, ...] = ()
    stopped_after: int | None = None
    live: LiveRecord | None = None
    finished: str = ""
    format_version: int = FORMAT_VERSION

    @property
    def rounds_done(self) -> int:
        """The number of rounds that were trained."""
        return self.rounds if self.stopped_after is None else self.stopped_after


def write_record(folder: RunFolder, record: RunRecord) -> None:
    """Writes `run.json`."""
    text = json.dumps(dataclasses.asdict(record), indent=2, allow_nan=False)
    write_text(folder.record, text + "\n")


def read_record(folder: RunFolder) -> RunRecord:
    """Reads `run.json`.

    Raises:
      InputError: The file is missing, damaged, or of another format version.
    """
    fields = read_json(folder.record, dict[str, Any], "a run record")
    version = fields.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder.record}: format_version is {version!r}, must be {FORMAT_VERSION}"
        )
    try:
        return msgspec.convert(fields, RunRecord)
    except msgspec.MsgspecError as error:
        raise InputError(f"{folder.record}: is not a run record: {error}") from error
