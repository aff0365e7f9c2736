"""run.json: what a run did, which training writes last and every report begins with."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal

from fl_audit.accounting.release import Release
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import read_json, write_text
from fl_audit.json_records import WRITTEN_IF_SET, from_json, to_json

FORMAT_VERSION = 1


@dataclass(frozen=True)
class LiveRecord:
    """What own-round scores proved while the run trained, valid at all rounds together."""

    epsilon: float  # the lower bound at the audit's confidence
    claim_p_value: float | None = None  # the p-value of the claimed epsilon; None without a claim
    # the lower bound of the claim's test at the verdict's confidence; 0 if the claim is not
    # contradicted, or none is made
    claim_epsilon: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The facts of one training run that the report needs beyond scores and metrics.

    Attributes:
      dim: The number of trainable parameters.
      num_clients: The number of real clients in the population.
      num_included: The number of canaries that the coins included.
      delta: The delta that estimates are computed at.
      release: What the run released; of a run that was stopped, what it would have released.
      accuracy: The accuracy on held-out data after the last round.
      accuracy_description: The meaning of accuracy for the task, in words.
      training_seconds: The time spent in rounds of the engine, in seconds.
      scoring_seconds: The time spent on canary cosines, in seconds.
      versions: The versions of the packages that matter.
      variable_sizes: The number of parameters in each variable of the model.
      stopped_after: The number of rounds after which the run stopped, as its claim was
        contradicted; None where all rounds were done.
      live: The lower bounds of each round; None if rounds cannot be tested.
      finished: The time when the training was over, in UTC as ISO 8601 to the second.
      compile_seconds: The seconds that the engine spent on compiling in its last session, part of
        the above; None, and left out of the file, where the engine does not tell.
      labels: The kind of the labels: classes, of which a guess hits one in so many, or numbers, as
        in a regression, for which the accuracy has no chance level.
      model_sha256: The digest of the model after the last round, see `formats.model_file`.
      schedule_secret: Whose secret the schedule was drawn from, the run's own or one that the
        config names; None, and left out of the file, where the seed draws it.
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
        """The number of rounds of training."""
        return self.release.rounds

    @property
    def rounds_done(self) -> int:
        """The number of rounds that were trained."""
        return self.rounds if self.stopped_after is None else self.stopped_after


# The file.


def record_text(record: RunRecord) -> str:
    """The text of `run.json`."""
    return json.dumps(to_json(record), indent=2, allow_nan=False) + "\n"


def write_record(folder: RunFolder, record: RunRecord) -> None:
    """Writes `run.json`."""
    write_text(folder.record, record_text(record))


def read_record(folder: RunFolder) -> RunRecord:
    """Reads `run.json`."""
    fields = read_json(folder.record, dict[str, Any], "a run record")
    version = fields.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder.record}: format_version is {version!r}, must be {FORMAT_VERSION}"
        )
    try:
        record: RunRecord = from_json(RunRecord, fields)
        return record
    except ValueError as error:
        raise InputError(f"{folder.record}: is not a run record: {error}") from error
