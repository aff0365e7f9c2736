"""The audited run from start to end: check, train with canaries, score, estimate, report."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.config import Config
from fl_audit.training import tensorflow_environment

if TYPE_CHECKING:
    from fl_audit.report import Report


def start_run(config: Config, out: Path) -> "Report":
    """Runs a config in a new folder and returns the report.

    Args:
      config: The config of the run.
      out: A folder that is new or empty.

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
    write_identity(folder, config, canaries_csv(run))
    train(run, runtime, folder)
    return _report(out)


def continue_run(config: Config, out: Path) -> "Report":
    """Continues an interrupted run from its last checkpoint and returns the report.

    Args:
      config: The config that the run was started with.
      out: The run's folder.

    Raises:
      InputError: The folder holds no interrupted run of this config.
      Interrupted: A signal asked to stop again.
    """
    from fl_audit.training.run.taken_folder import check_resumable, check_same_canaries

    folder = check_resumable(out, config)
    tensorflow_environment.set_defaults()
    _say_what_takes_so_long()
    from fl_audit.training.run.prepare import canaries_csv, prepare
    from fl_audit.training.run.train import train
    from fl_audit.training.runtimes.make import make_runtime

    run = prepare(config)
    check_same_canaries(folder, canaries_csv(run))
    train(run, make_runtime(run, folder.worker_log), folder)
    return _report(out)


def _say_what_takes_so_long() -> None:
    if sys.stderr.isatty() and "tensorflow_federated" not in sys.modules:
        print("loading TensorFlow Federated, about ten seconds", file=sys.stderr)


def _report(out: Path) -> "Report":
    from fl_audit.formats.run_folder import RunFolder
    from fl_audit.report import write_report

    return write_report(RunFolder(out))
