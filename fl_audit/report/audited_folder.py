"""A folder of scores, of a log or of a run, of which each part is read once."""

import functools
from dataclasses import dataclass
from pathlib import Path

from fl_audit.attacks.seen_log import Progress, SeenLog, read_log
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.report.finished_run import FinishedRun, read_finished_run


@dataclass(frozen=True, eq=False)
class AuditedFolder:
    """A folder that an audit has left.

    Attributes:
      path: The folder of a log (docs/logs.md), of a run of `fl-audit run`, or of scores alone.
      progress: The function that goes through the files of aggregates that are read.
    """

    path: Path
    progress: Progress = iter

    @functools.cached_property
    def log(self) -> SeenLog | None:
        """What the log shows; None for a folder without one.

        Raises:
          InputError: A file of the log is damaged.
        """
        folder = LogFolder(self.path)
        return read_log(folder, self.progress) if folder.pool.exists() else None

    @functools.cached_property
    def run(self) -> FinishedRun | None:
        """The finished run; None for a folder without one.

        Raises:
          InputError: A file of the run is missing or damaged.
        """
        folder = RunFolder(self.path)
        return read_finished_run(folder) if folder.record.exists() else None
