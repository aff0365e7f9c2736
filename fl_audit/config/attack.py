"""The config of `fl-audit attack`: a task and a central training, or the config of a run."""

from pathlib import Path

import msgspec

from fl_audit.attacks.audit_table import Audit
from fl_audit.canaries.tables import Canaries
from fl_audit.config.attack_tables import Attack, FederatedAttack
from fl_audit.config.file import config_of_table, in_folder, parse_tables, read_tables
from fl_audit.config.run import Config
from fl_audit.kinds.table import NonNegativeInt, Table
from fl_audit.tasks.kinds import Task

_FEDERATED_SECTIONS = {"mechanism", "participation"}
"""Sections that a federated run cannot do without, and a central training has not."""


class AttackConfig(Table, frozen=True):
    """Everything that defines an attack on a task's models, which are trained centrally."""

    task: Task
    attack: Attack = Attack()
    seed: NonNegativeInt = 0


class FederatedAttackConfig(Config, frozen=True):
    """Everything that defines an attack on a run's clients: the run without canaries, and more."""

    attack: FederatedAttack = FederatedAttack()


def load_attack_config(path: Path, overrides: list[str]) -> AttackConfig | FederatedAttackConfig:
    """Reads the config of an attack.

    Args:
      path: The TOML file.
      overrides: Entries `section.key=value`.

    Returns:
      The config of models that are trained centrally; or, where the file is one of `fl-audit run`,
      that of a run. What concerns its canaries, and where and when it runs, is left out.

    Raises:
      InputError: The file cannot be read, is not TOML, or does not describe an attack.
    """
    table = read_tables(path, overrides)
    if not _FEDERATED_SECTIONS & table.keys():
        return in_folder(parse_tables(table, AttackConfig, str(path)), path.parent)
    table = {"canaries": {"count": 0}, **table}
    config_of_table(table, path, str(path))  # whatever `run` refuses is refused
    config = in_folder(parse_tables(table, FederatedAttackConfig, str(path)), path.parent)
    return msgspec.structs.replace(
        config,
        runtime="local",
        canaries=Canaries(count=0),
        audit=Audit(delta=config.audit.delta),
        ray=None,
    )
