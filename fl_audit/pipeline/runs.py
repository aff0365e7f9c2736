"""The audited run from start to end: check, train with canaries, score, estimate, report."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.config import Config
from fl_audit.errors import InputError
from fl_audit.formats.atomic import unfinished_files
from fl_audit.formats.folder_lock import locked
from fl_audit.formats.run_folder import RunFolder
from fl_audit.training import tensorflow_environment

if TYPE_CHECKING:
    from fl_audit.report import Report
    from fl_audit.training.observers import RoundObserver


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
    from fl_audit.training.run.taken_folder import check_new, write_identity

    folder = check_new(out)
    tensorflow_environment.set_defaults()
    _say_what_takes_so_long()
    from fl_audit.training.run.prepare import canaries_csv, prepare
    from fl_audit.training.run.train import train
    from fl_audit.training.runtimes.make import make_runtime

    run = prepare(config)
    runtime = make_runtime(run, folder.worker_log)
    with at_work(folder):
        check_new(out)  # another process may have been faster
        write_identity(folder, config, canaries_csv(run))
        train(run, runtime, folder, observers)
        return _report(folder)


def continue_run(config: Config, out: Path, observers: "Sequence[RoundObserver]" = ()) -> "Report":
    """Continues an interrupted run from its last checkpoint and returns the report.

    Args:
      config: The config that the run was started with.
      out: The run's folder.
      observers: Those who are told of every round from now on.

    Raises:
      InputError: The folder holds no interrupted run of this config.
      Interrupted: A signal asked to stop again.
    """
    from fl_audit.training.run.taken_folder import check_resumable, check_same_canaries

    with at_work(check_resumable(out, config)) as folder:
        if folder.record.exists():
            return _report(folder)
        tensorflow_environment.set_defaults()
        _say_what_takes_so_long()
        from fl_audit.training.run.prepare import canaries_csv, prepare
        from fl_audit.training.run.train import train
        from fl_audit.training.runtimes.make import make_runtime

        run = prepare(config)
        check_same_canaries(folder, canaries_csv(run))
        train(run, make_runtime(run, folder.worker_log), folder, observers)
        return _report(folder)


def _say_what_takes_so_long() -> None:
    if sys.stderr.isatty() and "tensorflow_federated" not in sys.modules:
        print("loading TensorFlow Federated, about ten seconds", file=sys.stderr)


def _report(folder: RunFolder) -> "Report":
    """Writes the report of a run whose record is written, which needs no intermediate sums."""
    from fl_audit.report import write_report

    for path in folder.direction_sums():
        path.unlink()
    folder.round_directions.unlink(missing_ok=True)
    return write_report(folder)


@contextlib.contextmanager
def at_work(folder: RunFolder) -> Iterator[RunFolder]:
    """Makes a folder, holds its lock, and clears what a killed process was writing.

    Raises:
      InputError: Another process is at work in it, or the disk refuses something.
    """
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
