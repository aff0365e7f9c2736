"""run.json: the facts of a run. Training writes it last, and a report of a run needs it."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal

from fl_audit.accounting.release import Release
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import check_format_version, read_json
from fl_audit.json_records import WRITTEN_IF_SET, from_json, to_json

FORMAT_VERSION = 1


@dataclass(frozen=True)
class LiveRecord:
    """Lower bounds from own-round scores during training, valid at all rounds together."""

    epsilon: float  # the lower bound at the audit's confidence
    claim_p_value: float | None = None  # the p-value of the claimed epsilon; None without a claim
    # the lower bound by the claim's test at the verdict's confidence; 0 unless the claim is
    # contradicted
    claim_epsilon: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The facts of one training run, besides scores and metrics.

    Attributes:
      dim: The number of trainable parameters.
      num_clients: The number of real clients in the population.
      delta: The delta of estimates.
      release: The release of the run; for a stopped run, of all planned rounds.
      accuracy: The accuracy on held-out data after the last round.
      accuracy_description: The meaning of accuracy for the task, in words.
      training_seconds: The time spent in rounds of the engine, in seconds.
      scoring_seconds: The time spent on scoring rounds, in seconds.
      versions: The versions of the packages that affect results.
      variable_sizes: The number of parameters in each variable of the model.
      stopped_after: The number of rounds after which the run stopped because its claim was
        contradicted; None if all rounds were trained.
      live: The lower bounds from all rounds; None if rounds are not tested.
      finished: The end of training, in UTC as ISO 8601 to the second.
      compile_seconds: The seconds for which the engine compiled in its last session, mostly part of
        `training_seconds`; None, and omitted in the file, if not measured.
      labels: The kind of the labels: "classes", whose number gives the chance level of accuracy, or
        "numbers", as in a regression, without a chance level.
      model_sha256: The digest of the model after the last round (`formats.model_file`).
      schedule_secret: The origin of the schedule's secret, "run" or "config"; None, and omitted in
        the file, if the seed draws the schedule.
      format_version: The version of the file's format.
    """

    task: str
    runtime: str
    dim: int
    num_clients: int
    num_canaries: int
    num_included: int
    delta: float
    release: Release
    accuracy: float
    accuracy_description: str
    training_seconds: float
    scoring_seconds: float
    versions: dict[str, str]
    finished: str
    variable_sizes: tuple[int, ...] = ()
    stopped_after: int | None = None
    live: LiveRecord | None = None
    compile_seconds: float | None = dataclasses.field(default=None, metadata=WRITTEN_IF_SET)
    labels: Literal["classes", "numbers"] = "classes"
    model_sha256: str = dataclasses.field(default="", metadata=WRITTEN_IF_SET)
    schedule_secret: Literal["run", "config"] | None = dataclasses.field(
        default=None, metadata=WRITTEN_IF_SET
    )
    format_version: int = FORMAT_VERSION

    @property
    def rounds(self) -> int:
        """The number of planned rounds."""
        return self.release.rounds

    @property
    def rounds_done(self) -> int:
        """The number of rounds that were trained."""
        return self.rounds if self.stopped_after is None else self.stopped_after


# The file.


def record_text(record: RunRecord) -> str:
    """The text of `run.json`."""
    return json.dumps(to_json(record), indent=2, allow_nan=False) + "\n"


def read_record(folder: RunFolder) -> RunRecord:
    """Reads `run.json`."""
    fields = read_json(folder.record, dict[str, Any], "a run record")
    check_format_version(folder.record, fields.get("format_version"), FORMAT_VERSION)
    try:
        record: RunRecord = from_json(RunRecord, fields)
        return record
    except ValueError as error:
        raise InputError(f"{folder.record}: is not a run record: {error}") from error
