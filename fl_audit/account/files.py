"""The release of a config, or of the folder of a run or a log."""

from pathlib import Path

import msgspec

from fl_audit.account.account_record import Source, check_delta_option, check_epsilon
from fl_audit.attacks.log_release import stated_rounds, stated_uploads, why_nothing_stated
from fl_audit.attacks.logs import read_log
from fl_audit.config import Config, ExampleCanaries
from fl_audit.config.design import RunDesign, design_run
from fl_audit.config.file import load_config
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.formats.run_record import read_record
from fl_audit.mechanisms import MECHANISMS, NoisyMechanism
from fl_audit.tasks.facts import load_client_ids


def source_of_path(
    path: Path, overrides: list[str], delta: float | None, epsilon: float | None
) -> Source:
    """The release of a config, or of the folder of a run or a log.

    Args:
      path: A config, or a folder.
      overrides: Changes of a config's keys, as `section.key=value`.
      delta: The delta, required for a log; None for the delta of the config or the run.
      epsilon: The target epsilon, for which noise is calculated; None for the noise of the config.
    """
    if delta is not None:
        check_delta_option(delta)
    if not path.is_dir():
        return _of_config(path, overrides, delta, epsilon)
    if overrides or epsilon is not None:
        option = "--set" if overrides else "--epsilon"
        raise InputError(f"{option}: needs a config; {path} is a folder, whose noise is fixed")
    return _of_log(path, delta) if LogFolder(path).pool.exists() else _of_run(path, delta)


def _of_config(
    path: Path, overrides: list[str], delta: float | None, epsilon: float | None
) -> Source:
    config = load_config(path, overrides)
    if delta is not None:
        audit = msgspec.structs.replace(config.audit, delta=delta)
        config = msgspec.structs.replace(config, audit=audit)
    if epsilon is not None:
        config = _asked_for(config, epsilon)
    design = _designed(config)
    release = design.release
    assumes = (_SIZES_OF_SEED,) if release.fewest is not None and design.draws_anew else ()
    return Source(str(path), release, design.delta, assumes=assumes)


_SIZES_OF_SEED = (
    "Each participant adds noise, so the bound depends on the cohort sizes. Here they are drawn "
    "from the seed; a run draws them from a secret, so that its sizes and its bound differ."
)


def _asked_for(config: Config, epsilon: float) -> Config:
    """The config with a target epsilon instead of its noise."""
    check_epsilon(epsilon)
    mechanism = config.mechanism
    if not isinstance(mechanism, NoisyMechanism):
        kind = MECHANISMS.name_of(MECHANISMS.kind_of(mechanism))
        raise InputError(f"--epsilon: mechanism {kind!r} adds no noise")
    searching = msgspec.structs.replace(mechanism, noise_multiplier=None, epsilon=epsilon)
    return msgspec.structs.replace(config, mechanism=searching)


def _designed(config: Config) -> RunDesign:
    """The design of the run; loads the data if canaries hold examples."""
    if isinstance(config.canaries, ExampleCanaries):
        from fl_audit.engines.prepare import prepare

        return prepare(config)
    clients = load_client_ids(config.task, config.seed)
    return design_run(config, clients, config.canaries.count)


def _of_run(path: Path, delta: float | None) -> Source:
    folder = RunFolder(path)
    if not folder.record.exists():
        raise InputError(
            f"{path}: holds neither {folder.record.name} (a run) nor "
            f"{LogFolder(path).pool.name} (a log)"
        )
    record = read_record(folder)
    return Source(str(path), record.release, delta or record.delta)


def _of_log(path: Path, delta: float | None) -> Source:
    if delta is None:
        raise InputError(f"--delta: is required (such as 1e-5), as {path} records none")
    log = read_log(LogFolder(path), iter)
    rounds, uploads = stated_rounds(log), stated_uploads(log)
    release = uploads if rounds is None else rounds.release
    if release is None:
        raise InputError(f"{path}: cannot be accounted: {why_nothing_stated(log)}")
    return Source(str(path), release, delta, uploads)
