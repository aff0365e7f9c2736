"""A run as attackers know it, without one that trains."""

from pathlib import Path

import numpy as np

from fl_audit.attacks.attacker import AttackContext
from fl_audit.canaries.families import CanaryFamily
from fl_audit.config import Audit
from fl_audit.formats.folders import RunFolder


def attacked(
    folder: Path,
    family: CanaryFamily,
    num_rounds: int,
    completed: int = 0,
    name: str | None = None,
    **audit: object,
) -> AttackContext:
    """The context of a run whose model is 0 before the first round; `name` is the family's."""
    return AttackContext(
        canaries=family,
        num_canaries=family.num_canaries,
        num_rounds=num_rounds,
        audit=Audit(**audit),
        initial=np.zeros(family.dim, np.float32),
        folder=RunFolder(folder),
        completed=completed,
        family=name,
    )
