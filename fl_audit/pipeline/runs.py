"""An audited run from start to end: check, train with canaries, score, estimate, report."""

import contextlib
import importlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fl_audit.comparison import read_report
from fl_audit.config import Config
from fl_audit.config.commitment import check_committed, check_committed_inputs
from fl_audit.config.inputs import Inputs, check_same_inputs, read_inputs, write_recorded_inputs
from fl_audit.config.tries import begin_try, check_listed, check_same_try
from fl_audit.engines.engine import Engine
from fl_audit.engines.prepare import PreparedRun, canaries_csv, prepare
from fl_audit.engines.runtimes import make_runtime
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder, locked
from fl_audit.formats.round_chain import ChainWriter, Reported, digests_of
from fl_audit.formats.text_files import unfinished_files
from fl_audit.progress import doing, hint
from fl_audit.report import Report, write_report
from fl_audit.resources import set_tensorflow_defaults
from fl_audit.run.folder_and_checkpoints import (
    check_new,
    check_resumable,
    check_same_canaries,
    check_same_config,
    entries,
    secret_of,
    write_identity,
)
from fl_audit.run.observers import RoundObserver, TryLister
from fl_audit.verdict.chosen_tests import check_claim
from fl_audit.version import code_digest

_MANY_ROUNDS = 100_000
"""From this number of rounds on, drawing cohorts takes seconds."""


def start_run(
    config: Config,
    out: Path,
    observers: Sequence[RoundObserver] = (),
    commitment: Path | None = None,
) -> Report:
    """Runs a config in a new folder and returns the report.

    Args:
      config: The config of the run.
      out: A folder that is new or empty.
      observers: Called after every round (docs/observers.md).
      commitment: The file of `fl-audit commit` for the run (docs/verify.md).

    Raises:
      InputError: The folder is in use, the config or its data are invalid, or the commitment is to
        another config; nothing is written then. Also if training ends by an OSError, such as a full
        disk; the files then stay if there is a checkpoint.
      Interrupted: A signal requested a stop; `continue_run` resumes.
    """
    folder = check_new(out)
    under = None if commitment is None else (commitment, check_committed(commitment, config))
    run, inputs, engine = _loaded(config, folder)
    if under is not None:
        check_committed_inputs(*under, inputs)
    with at_work(folder):
        check_new(out)  # another process may have taken the folder meanwhile
        with _emptied_if_refused(folder):
            write_identity(folder, config, canaries_csv(run), run.secret)
            write_recorded_inputs(folder, inputs)
            if under is not None:
                begin_try(*under, folder)
            _train(run, engine, folder, observers, commitment)
        return _report(folder)


def continue_run(
    config: Config,
    out: Path,
    observers: Sequence[RoundObserver] = (),
    commitment: Path | None = None,
) -> Report:
    """Continues an interrupted run from its last checkpoint and returns the report.

    A finished run is left unchanged, so a job may be restarted at any time.

    Args:
      config: The config with which the run was started.
      out: The run's folder.
      observers: Called after every further round.
      commitment: The commitment under which the run was started; None for no check, once a round
        is logged.

    Raises:
      InputError: The folder holds no run of this config, or one under another commitment, or one
        that may not be listed under its commitment yet, and `commitment` is None.
      Interrupted: A signal requested a stop again.
    """
    under = None if commitment is None else (commitment, check_committed(commitment, config))
    if under is not None and RunFolder(out).chain.exists():
        check_same_try(*under, RunFolder(out))
    if RunFolder(out).report_json.exists():
        check_same_config(RunFolder(out), config)
        hint(f"{out}: holds the finished run; nothing is left to do")
        return read_report(RunFolder(out))
    with at_work(check_resumable(out, config)) as folder:
        if folder.record.exists():
            return _report(folder)
        if commitment is None:
            check_listed(folder)
        run, inputs, engine = _loaded(config, folder)
        check_same_canaries(folder, canaries_csv(run), run.secret)
        check_same_inputs(folder, inputs)
        if under is not None and not folder.chain.exists():
            # The process was killed before the run's chain began.
            begin_try(*under, folder)
        _train(run, engine, folder, observers, commitment)
        return _report(folder)


def _loaded(config: Config, folder: RunFolder) -> tuple[PreparedRun, Inputs, Engine]:
    """The run of a config, its inputs and its engine, with hints at what takes long."""
    set_tensorflow_defaults()
    if "tensorflow_federated" not in sys.modules:
        hint("loading TensorFlow Federated, about ten seconds")
    # `rounds` is unset if participation is replayed from a log, which determines the number.
    rounds = config.participation.rounds or 0
    if rounds >= _MANY_ROUNDS:
        hint(f"drawing the cohorts of {rounds:,} rounds, which takes a while")
    with doing("loading libraries and data"):
        importlib.import_module("fl_audit.run.train")  # TensorBoard is missed before files exist
        run = prepare(config, secret_of(folder, config))
        check_claim(run)
        return run, read_inputs(config, run.task), make_runtime(run, folder.worker_log)


def _train(
    run: PreparedRun,
    engine: Engine,
    folder: RunFolder,
    observers: Sequence[RoundObserver],
    commitment: Path | None,
) -> None:
    """Trains a run with these observers, and the one that lists it under a commitment, if any."""
    from fl_audit.run.train import train  # imports TensorBoard

    listed = [] if commitment is None else [TryLister(commitment)]
    train(run, engine, folder, [*listed, *observers])


def _report(folder: RunFolder) -> Report:
    """Writes the report of a run with a complete record, and deletes the logs of directions."""
    folder.round_directions.unlink(missing_ok=True)
    folder.upload_directions.unlink(missing_ok=True)
    with doing("estimating epsilon and writing the report"):
        report = write_report(folder)
    chain = ChainWriter.go_on(folder.chain)
    files = digests_of([folder.report_html, folder.report_json])
    chain.add(Reported(files=files, code=code_digest()))
    return report


@contextlib.contextmanager
def _emptied_if_refused(folder: RunFolder) -> Iterator[None]:
    """Deletes a run's files if an InputError or OSError ends it before its first checkpoint."""
    try:
        yield
    except (InputError, OSError):
        if not folder.checkpoint.exists():
            for path in entries(folder.path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


@contextlib.contextmanager
def at_work(folder: RunFolder) -> Iterator[RunFolder]:
    """Makes a folder, holds its lock, and deletes a killed process's temporary files.

    A folder created here is removed again if it stays empty.
    """
    existed = folder.path.exists()
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        with locked(folder.path):
            for path in unfinished_files(folder.path):
                path.unlink()
            yield folder
    except BrokenPipeError:
        raise
    except OSError as error:
        what = f"{error.filename or folder.path}: {error.strerror or error}"
        then = "start the run again"
        if folder.config.exists():
            saved = folder.checkpoint.exists()
            then = f"--resume continues {'from the last checkpoint' if saved else 'it'}"
        raise InputError(f"{what}; once that is fixed, {then}") from error
    finally:
        if not existed:
            with contextlib.suppress(OSError):
                folder.path.rmdir()
