"""An audited run from start to end: check, train with canaries, score, estimate, report."""

import contextlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.config import Config
from fl_audit.config.commitment import check_committed, check_committed_inputs
from fl_audit.config.tries import begin_try, check_same_try
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder, locked
from fl_audit.formats.round_chain import ChainWriter, Reported, digests_of
from fl_audit.formats.text_files import unfinished_files
from fl_audit.progress import doing, hint
from fl_audit.resources import set_tensorflow_defaults
from fl_audit.version import code_digest

if TYPE_CHECKING:
    from fl_audit.report import Report
    from fl_audit.run.observers import RoundObserver


_LOADING = "loading libraries and data"

_MANY_ROUNDS = 100_000
"""From this number of rounds on, drawing cohorts takes seconds."""


def start_run(
    config: Config,
    out: Path,
    observers: "Sequence[RoundObserver]" = (),
    commitment: Path | None = None,
) -> "Report":
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
    from fl_audit.run.folder_and_checkpoints import check_new, secret_of, write_identity

    folder = check_new(out)
    opened = None if commitment is None else check_committed(commitment, config)
    set_tensorflow_defaults()
    _hint_at_slow_steps(config)
    with doing(_LOADING):
        from fl_audit.config.inputs import read_inputs, write_recorded_inputs
        from fl_audit.engines.prepare import canaries_csv, prepare
        from fl_audit.engines.runtimes import make_runtime
        from fl_audit.run.train import train

        run = prepare(config, secret_of(folder, config))
        inputs = read_inputs(config, run.task)
        if commitment is not None and opened is not None:
            check_committed_inputs(commitment, opened, inputs)
        runtime = make_runtime(run, folder.worker_log)
    with at_work(folder):
        check_new(out)  # another process may have taken the folder meanwhile
        with _emptied_if_refused(folder):
            write_identity(folder, config, canaries_csv(run), run.secret)
            write_recorded_inputs(folder, inputs)
            if commitment is not None and opened is not None:
                begin_try(commitment, opened, folder)
            train(run, runtime, folder, [*_listed(commitment), *observers])
        return _report(folder)


def _listed(commitment: Path | None) -> "list[RoundObserver]":
    """The observer that lists the run under its commitment, if there is one."""
    from fl_audit.run.observers import TryLister

    return [] if commitment is None else [TryLister(commitment)]


def continue_run(
    config: Config,
    out: Path,
    observers: "Sequence[RoundObserver]" = (),
    commitment: Path | None = None,
) -> "Report":
    """Continues an interrupted run from its last checkpoint and returns the report.

    A finished run is left unchanged, so a job may be restarted at any time.

    Args:
      config: The config with which the run was started.
      out: The run's folder.
      observers: Called after every further round.
      commitment: The commitment under which the run was started; None for no check.

    Raises:
      InputError: The folder holds no run of this config, or one under another commitment.
      Interrupted: A signal requested a stop again.
    """
    from fl_audit.run.folder_and_checkpoints import (
        check_resumable,
        check_same_canaries,
        check_same_config,
        secret_of,
    )

    opened = None if commitment is None else check_committed(commitment, config)
    if commitment is not None and opened is not None and RunFolder(out).chain.exists():
        check_same_try(commitment, opened, RunFolder(out))
    if RunFolder(out).report_json.exists():
        from fl_audit.comparison import read_report

        check_same_config(RunFolder(out), config)
        hint(f"{out}: holds the finished run; nothing is left to do")
        return read_report(RunFolder(out))
    with at_work(check_resumable(out, config)) as folder:
        if folder.record.exists():
            return _report(folder)
        set_tensorflow_defaults()
        _hint_at_slow_steps(config)
        with doing(_LOADING):
            from fl_audit.config.inputs import check_same_inputs, read_inputs
            from fl_audit.engines.prepare import canaries_csv, prepare
            from fl_audit.engines.runtimes import make_runtime
            from fl_audit.run.train import train

            run = prepare(config, secret_of(folder, config))
            inputs = read_inputs(config, run.task)
        check_same_canaries(folder, canaries_csv(run), run.secret)
        check_same_inputs(folder, inputs)
        if commitment is not None and opened is not None and not folder.chain.exists():
            # The process was killed before the run's chain began.
            begin_try(commitment, opened, folder)
        runtime = make_runtime(run, folder.worker_log)
        train(run, runtime, folder, [*_listed(commitment), *observers])
        return _report(folder)


def _hint_at_slow_steps(config: Config) -> None:
    if "tensorflow_federated" not in sys.modules:
        hint("loading TensorFlow Federated, about ten seconds")
    # `rounds` is unset if participation is replayed from a log, which determines the number.
    rounds = config.participation.rounds or 0
    if rounds >= _MANY_ROUNDS:
        hint(f"drawing the cohorts of {rounds:,} rounds, which takes a while")


def _report(folder: RunFolder) -> "Report":
    """Writes the report of a run with a complete record, and deletes the logs of directions."""
    from fl_audit.report import write_report

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
    from fl_audit.run.folder_and_checkpoints import entries

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
        saved = folder.checkpoint.exists()
        then = "--resume continues from the last checkpoint" if saved else "start the run again"
        raise InputError(f"{what}; once that is fixed, {then}") from error
    finally:
        if not existed:
            with contextlib.suppress(OSError):
                folder.path.rmdir()
