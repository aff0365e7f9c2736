"""The verification of the folder of a run or of a log."""

from pathlib import Path

from fl_audit.attacks.log_scores import score_log
from fl_audit.attacks.logs import Progress, read_log
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.formats.round_chain import Chain
from fl_audit.verification.chain import verify_chain
from fl_audit.verification.commitment import verify_commitment
from fl_audit.verification.findings import Findings, Verified
from fl_audit.verification.model import verify_model
from fl_audit.verification.run import verify_run
from fl_audit.verification.scores import compare_scores

NOT_SHOWN = (
    "not shown: that the folder was not written anew as a whole, with its chain, but for --link; "
    "that the logged rounds, losses and accuracies are those of a training; versions and times; "
    "that there was no other run (docs/verify.md)"
)
"""What no verification of a folder can show."""


def verify_folder(
    path: Path,
    commitment: Path | None = None,
    progress: Progress = iter,
    *,
    model: Path | None = None,
    link: str | None = None,
) -> Verified:
    """Compares a folder's results with its logs.

    Args:
      path: The folder of a finished run, or of a log.
      commitment: The commitment of the run as published before training; None uses that of the
        folder, if it has one.
      progress: Wraps the iteration over files of aggregates.
      model: A file of the released model, which must be the run's; None for none.
      link: The last link of the chain as it was handed over; None if it was not.

    Raises:
      InputError: The folder is of neither, or the commitment or the model cannot be read.
    """
    findings = Findings()
    log, run = LogFolder(path), RunFolder(path)
    if log.pool.exists():
        if commitment is not None:
            raise InputError(f"--commitment: {path} is a log; only runs are made under one")
        if model is not None:
            raise InputError(f"--model: {path} is a log, which says nothing of the released model")
        _verify_log(log, verify_chain(log, link, findings), progress, findings)
    elif run.record.exists() or run.chain.exists():
        for file in (run.config, run.canaries, run.metrics, run.record, run.model, run.report_json):
            if not file.exists():
                findings.add(file, "is missing")
        chain = verify_chain(run, link, findings)
        verify_commitment(run, chain, commitment, findings)
        verify_run(run, chain, findings)
        if model is not None:
            verify_model(run, model, findings)
    else:
        raise InputError(
            f"{path}: holds neither a finished run ({run.report_json.name}) nor a log "
            f"({log.pool.name})"
        )
    return Verified(
        tuple(findings.wrong),
        tuple(findings.notes),
        tuple(findings.not_made_again),
        None if findings.wrong else findings.report,
    )


def _verify_log(
    folder: LogFolder, chain: Chain | None, progress: Progress, findings: Findings
) -> None:
    """Recomputes the scores of a log, and compares its score files with them."""
    log = None
    with findings.reading(folder.pool):
        log = read_log(folder, progress)
    if log is None:
        return
    wrong = (log.listed.included != log.pool.included).nonzero()[0]
    if len(wrong):
        side = "included" if log.listed.included[wrong[0]] else "excluded"
        words = f"canary {wrong[0]} is {side}, and by the coins of {folder.pool.name} it is not"
        if chain is not None:
            findings.add(folder.canaries, words)
        else:
            findings.note(
                f"{folder.canaries.name}: {words}: another system decided who participates"
            )
    if log.is_empty:
        findings.note("the folder shows no round")
        return
    if chain is not None and not chain.is_scored:
        findings.note("rounds were logged after the last scores, which are not compared")
        return
    with findings.reading(folder.round_cosines):
        scored = score_log(log)
        for name, derived in scored.scores.items():
            path = folder.scores(name)
            with findings.reading(path):
                if path.exists():
                    compare_scores(path, derived, findings)
        names = {folder.scores(name).name for name in scored.scores}
        left = [p.name for p in sorted(folder.path.glob("scores_*.csv")) if p.name not in names]
        findings.not_made_again.extend(left)
