"""Compares a file of a model with the run that should have trained it."""

from pathlib import Path

from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.model_file import candidates, model_digest, read_saved_arrays
from fl_audit.formats.run_record import read_record
from fl_audit.verification.findings import Verified


def verify_model(folder: RunFolder, path: Path, verified: Verified) -> None:
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
                f"and {record.model_sha256} by {folder.record.name}",
            )
        else:
            verified.note(f"{path.name}: is the model of the run, SHA-256 {record.model_sha256}")
