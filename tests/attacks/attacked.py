"""A run as attackers know it, without one that trains."""

from pathlib import Path

import numpy as np

from fl_audit.attacks.attacker import AttackContext, SeenRound
from fl_audit.attacks.threat_models import make_attackers, scores_of, statistics_for
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


def scores_of_rounds(context: AttackContext, aggregates: np.ndarray) -> dict[str, np.ndarray]:
    """The scores by statistic after these rounds, shown to every attacker of the context."""
    attackers = make_attackers(context, statistics_for("vectors", context.audit))
    model = np.zeros(aggregates.shape[1], np.float32)
    for index, aggregate in enumerate(aggregates):
        for attacker in attackers:
            attacker.see_round(SeenRound(index, model, aggregate, model, clip_norm=1.0))
    for attacker in attackers:
        attacker.flush()
    return dict(scores_of(attackers, aggregates.sum(axis=0)))
