"""The audited run from start to end: check, train with canaries, score, estimate, report."""

import contextlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.config import Config
from fl_audit.engines.tff import environment
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder, locked
from fl_audit.formats.text_files import unfinished_files
from fl_audit.progress import hint

if TYPE_CHECKING:
    from fl_audit.report import Report
    from fl_audit.run.observers import RoundObserver


_MANY_ROUNDS = 100_000
"""Rounds whose cohorts take seconds to draw."""


def start_run(config: Config, out: Path, observers: "Sequence[RoundObserver]" = ()) -> "Report":
    """Runs a config in a new folder and returns the report.

    Args:
      config: The config of the run.
      out: A folder that is new or empty.
      observers: Those who are told of every round, see docs/observers.md.

    Raises:
      InputError: The folder is taken, or the config or its data cannot be used; nothing is written
        then.
      Interrupted: A signal asked to stop; `continue_run` goes on.
    """
    from fl_audit.run.folder import check_new, write_identity

    folder = check_new(out)
    environment.set_defaults()
    _say_what_takes_so_long(config)
    from fl_audit.engines.choice import make_runtime
    from fl_audit.engines.prepare import canaries_csv, prepare
    from fl_audit.run.train import train

    run = prepare(config)
    runtime = make_runtime(run, folder.worker_log)
    with at_work(folder):
        check_new(out)  # another process may have been faster
        with _emptied_if_refused(folder):
            write_identity(folder, config, canaries_csv(run))
            train(run, runtime, folder, observers)
        return _report(folder)


def continue_run(config: Config, out: Path, observers: "Sequence[RoundObserver]" = ()) -> "Report":
    """Continues an interrupted run from its last checkpoint and returns the report.

    A finished run is left as it is, so that a job may be started again until it has ended.

    Args:
      config: The config that the run was started with.
      out: The run's folder.
      observers: Those who are told of every round from now on.

    Raises:
      InputError: The folder holds no run of this config.
      Interrupted: A signal asked to stop again.
    """
    from fl_audit.run.folder import check_resumable, check_same_canaries, check_same_config

    if RunFolder(out).report_json.exists():
        from fl_audit.comparison import read_report

        check_same_config(RunFolder(out), config)
        hint(f"{out}: holds the finished run; nothing is left to do")
        return read_report(RunFolder(out))
    with at_work(check_resumable(out, config)) as folder:
        if folder.record.exists():
            return _report(folder)
        environment.set_defaults()
        _say_what_takes_so_long(config)
        from fl_audit.engines.choice import make_runtime
        from fl_audit.engines.prepare import canaries_csv, prepare
        from fl_audit.run.train import train

        run = prepare(config)
        check_same_canaries(folder, canaries_csv(run))
        train(run, make_runtime(run, folder.worker_log), folder, observers)
        return _report(folder)


def _say_what_takes_so_long(config: Config) -> None:
    if "tensorflow_federated" not in sys.modules:
        hint("loading TensorFlow Federated, about ten seconds")
    rounds = getattr(config.participation, "rounds", 0)  # a replayed log has its own
    if rounds >= _MANY_ROUNDS:
        hint(f"drawing the cohorts of {rounds:,} rounds, which takes a while")


def _report(folder: RunFolder) -> "Report":
    """Writes the report of a run whose record is written, which needs no intermediate sums."""
    from fl_audit.report import write_report

    for path in folder.direction_sums():
        path.unlink()
    folder.round_directions.unlink(missing_ok=True)
    return write_report(folder)


@contextlib.contextmanager
def _emptied_if_refused(folder: RunFolder) -> Iterator[None]:
    """Removes what a new run has written if it is refused before anything is saved of it."""
    from fl_audit.run.folder import entries

    try:
        yield
    except InputError:
        if not folder.checkpoint.exists():
            for path in entries(folder.path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


@contextlib.contextmanager
def at_work(folder: RunFolder) -> Iterator[RunFolder]:
    """Makes a folder, holds its lock, and clears what a killed process was writing.

    A folder that is made here and stays empty is removed in the end.

    Raises:
      InputError: Another process is at work in it, or the disk refuses something.
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
        raise InputError(
            f"{error.filename or folder.path}: {error.strerror or error}; once that is mended, "
            "--resume goes on from the last checkpoint"
        ) from error
    finally:
        if not existed:
            with contextlib.suppress(OSError):
                folder.path.rmdir()
