"""What a folder of scores says of its audit, whoever has trained."""

from dataclasses import dataclass, field
from pathlib import Path

from fl_audit.attacks.audit_table import Audit
from fl_audit.canaries.pool import CanaryPool, read_pool
from fl_audit.canaries.tables import family_of
from fl_audit.config.file import load_config
from fl_audit.formats.cosine_log import CosineLog
from fl_audit.formats.log_folder import LogFolder
from fl_audit.formats.run_folder import RunFolder, read_record


@dataclass(frozen=True)
class FolderFacts:
    """What a folder says of its audit beside the scores.

    Attributes:
      family: The canaries' family; None where it is not known.
      num_rounds: The number of rounds that were scored; None where it is not known.
      audit: The table [audit] of its config; the default one without a config.
    """

    family: str | None = None
    num_rounds: int | None = None
    audit: Audit = field(default_factory=Audit)


def read_folder_facts(path: Path) -> FolderFacts:
    """Reads what a folder says; everything that it does not say is left at its default.

    Raises:
      InputError: A file in the folder is damaged.
    """
    log, run = LogFolder(path), RunFolder(path)
    config = load_config(run.config) if run.config.exists() else None
    if log.pool.exists():
        pool = read_pool(log.pool)
        return FolderFacts(pool.family, _rounds_of_log(log, pool))
    return FolderFacts(
        family=None if config is None else family_of(config.canaries),
        num_rounds=read_record(run).rounds if run.record.exists() else None,
        audit=Audit() if config is None else config.audit,
    )


def _rounds_of_log(log: LogFolder, pool: CanaryPool) -> int | None:
    if log.round_cosines.exists():
        return int(CosineLog.read(log.round_cosines, pool.count).written().sum())
    if log.aggregates.is_dir():
        return sum(path.name[0] != "." for path in log.aggregates.iterdir())
    return None
