"""The verification of the folder of a run or of a log.

`formats/folders.py` lists the hashed files, `chain.py` compares hashes, and `run.py` numbers.
"""

from pathlib import Path

from fl_audit.attacks.log_scores import score_log
from fl_audit.attacks.logs import Progress, read_log
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.formats.model_file import candidates, model_digest, read_saved_arrays
from fl_audit.formats.round_chain import Chain
from fl_audit.formats.run_record import read_record
from fl_audit.verification.chain import verify_chain
from fl_audit.verification.committed_run import verify_commitment
from fl_audit.verification.findings import Verified
from fl_audit.verification.run import verify_run
from fl_audit.verification.score_files import SCORE_ROUNDING, compare_scores, compare_vectors

NOT_SHOWN = (
    "not shown: that rounds, losses, accuracies and a replay come from a training on these data; "
    "that there was no other run (docs/verify.md)"
)
"""What no verification of a folder can show."""

WITHOUT_LINK = (
    "not covered without --link: a folder written anew as a whole, with its chain; losses, "
    "accuracies, times, versions and runtime; a round's concentration and tests of its noise"
)
"""What else a verification cannot show without the last link of the chain."""


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
      commitment: The commitment of the run as published before training; None for the copy in the
        folder, if any.
      progress: Wraps the iteration over files of aggregates.
      model: A file of the released model to compare with the run's, if any.
      link: The last link of the chain, if known to the verifier.
    """
    verified = Verified()
    log, run = LogFolder(path), RunFolder(path)
    if log.pool.exists():
        if commitment is not None:
            raise InputError(f"--commitment: {path} is a log; only runs have a commitment")
        if model is not None:
            raise InputError(f"--model: {path} is a log, which says nothing of the released model")
        chain = verify_chain(log, link, verified)
        if link is None:
            verified.not_made_again += [path.name for path in log.stated() if path.exists()]
        elif chain is not None and not chain.is_scored and log.has_aggregates:
            # No digest is of these files, and no scores are compared with theirs.
            verified.not_made_again.append(log.aggregates.name)
        _verify_log(log, chain, progress, verified)
    elif run.record.exists() or run.chain.exists():
        for file in (run.config, run.canaries, run.metrics, run.record, run.model, run.report_json):
            if not file.exists():
                verified.add(file, "is missing")
        chain = verify_chain(run, link, verified)
        verify_commitment(run, chain, commitment, verified)
        verify_run(run, chain, verified)
        if model is not None:
            _verify_model(run, model, verified)
    else:
        raise InputError(
            f"{path}: holds neither a finished run ({run.report_json.name}) nor a log "
            f"({log.pool.name})"
        )
    return verified


def _verify_model(folder: RunFolder, path: Path, verified: Verified) -> None:
    """Compares a model with the digest in the record of a run."""
    arrays = read_saved_arrays(path)
    with verified.reading(folder.record):
        record = read_record(folder)
        if not record.model_sha256:
            raise InputError(f"{folder.record}: lacks `model_sha256`, the digest of the model")
        tried = list(candidates(arrays, record.variable_sizes))
        if not tried:
            sizes = ", ".join(f"{size:,}" for size in record.variable_sizes)
            verified.add(path, f"holds no model whose variables have {sizes} parameters")
        elif all(model_digest(model) != record.model_sha256 for model in tried):
            verified.add(
                path,
                f"is another model than the run trained: its SHA-256 is {model_digest(tried[0])}, "
                f"but {record.model_sha256} according to {folder.record.name}",
            )
        else:
            verified.note(f"{path.name}: is the model of the run, SHA-256 {record.model_sha256}")


def _verify_log(
    folder: LogFolder, chain: Chain | None, progress: Progress, verified: Verified
) -> None:
    """Recomputes the scores of a log, and compares its score files with them."""
    log = None
    with verified.reading(folder.pool):
        log = read_log(folder, progress)
    if log is None:
        return
    wrong = (log.listed.included != log.pool.included).nonzero()[0]
    if len(wrong):
        side = "included" if log.listed.included[wrong[0]] else "excluded"
        words = f"canary {wrong[0]} is {side}, but not by the coins of {folder.pool.name}"
        if chain is not None:
            verified.add(folder.canaries, words)
        else:
            verified.note(
                f"{folder.canaries.name}: {words}: another system decided who participates"
            )
    written = sorted(folder.path.glob("scores_*.csv"))
    left_out = None
    if log.is_empty:
        left_out = "the folder shows no round"
    elif chain is not None and not chain.is_scored:
        left_out = "rounds were logged after the last scores, so that the scores are not compared"
    if left_out is not None:
        verified.note(left_out)
        verified.not_made_again.extend(path.name for path in written)
        return
    with verified.reading(folder.round_cosines):
        scored = score_log(log)
        for name, derived in scored.scores.items():
            path = folder.scores(name)
            with verified.reading(path):
                if path.exists():
                    compare_scores(path, derived, verified, SCORE_ROUNDING)
                elif chain is not None:
                    verified.add(path, "is missing, although its scores follow from the log")
        made = {folder.scores(name) for name in scored.scores}
        verified.not_made_again.extend(path.name for path in written if path not in made)
        if chain is not None:
            compare_vectors(folder.compared_vectors, scored.compared, verified)
