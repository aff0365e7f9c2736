"""The verification of a folder, whatever it is of."""

from pathlib import Path

from fl_audit.attacks.logs import Progress
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.verification.chain import verify_chain
from fl_audit.verification.commitment import verify_commitment
from fl_audit.verification.findings import Findings, Verified
from fl_audit.verification.log import verify_log
from fl_audit.verification.run import verify_run

NOT_SHOWN = (
    "not shown: that nobody wrote the whole folder anew, chain and all; that the logged rounds are "
    "those of a training; that there was no other run (docs/verify.md)"
)
"""What no verification of a folder can show."""


def verify_folder(
    path: Path, commitment: Path | None = None, progress: Progress = iter
) -> Verified:
    """Holds what a folder says against its logs.

    Args:
      path: The folder of a finished run, or of a log.
      commitment: The commitment that the run was begun under, as it was published; None takes what
        the folder has of it, if it has any.
      progress: The function that goes through the files of aggregates that are read.

    Raises:
      InputError: The folder is of neither, or the commitment cannot be read.
    """
    found = Findings()
    log, run = LogFolder(path), RunFolder(path)
    if log.pool.exists():
        if commitment is not None:
            raise InputError(f"--commitment: {path} is a log; only runs are made under one")
        verify_log(log, verify_chain(log, found), progress, found)
    elif run.record.exists() or run.chain.exists():
        for file in (run.config, run.canaries, run.metrics, run.record, run.report_json):
            if not file.exists():
                found.add(file, "is missing")
        chain = verify_chain(run, found)
        verify_commitment(run, chain, commitment, found)
        verify_run(run, chain, found)
    else:
        raise InputError(
            f"{path}: holds neither a finished run ({run.report_json.name}) nor a log "
            f"({log.pool.name})"
        )
    return Verified(tuple(found.found), tuple(found.notes))
