"""What a folder of scores says of its audit, whoever has trained."""

from dataclasses import dataclass, field

from fl_audit.attacks.audit_table import Audit
from fl_audit.canaries.tables import family_of
from fl_audit.config.file import load_config
from fl_audit.formats.folders import RunFolder, read_record
from fl_audit.report.audited_folder import AuditedFolder


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


def read_folder_facts(folder: AuditedFolder) -> FolderFacts:
    """Reads what a folder says; everything that it does not say is left at its default.

    Raises:
      InputError: A file in the folder is damaged.
    """
    if folder.log is not None:
        return FolderFacts(folder.log.pool.family, folder.log.num_rounds or None)
    run = RunFolder(folder.path)
    config = load_config(run.config) if run.config.exists() else None
    return FolderFacts(
        family=None if config is None else family_of(config.canaries),
        num_rounds=read_record(run).rounds if run.record.exists() else None,
        audit=Audit() if config is None else config.audit,
    )
