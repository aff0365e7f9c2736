"""Attacks: what attackers see of a run or a log, and how they score its canaries.

Nothing here imports TensorFlow. A canary client anywhere asks `CanaryPool` for its vector; a
server hands `RoundScorer` each round's aggregate, or writes it into a folder that `fl-audit
estimate` scores. docs/logs.md has the format and an example of each. Threat models, statistics and
attackers are registered (`fl_audit.attacks.threat_models`), also those of other packages; the
`NullLaw` that a statistic gives is `fl_audit.estimators.Null`.
"""

from fl_audit.attacks.all_iterates import ALL_ITERATES, WINDOW
from fl_audit.attacks.arrays import flatten, unflatten
from fl_audit.attacks.attacker import AttackContext, Attacker, SeenRound
from fl_audit.attacks.checkpoints import CHECKPOINTS
from fl_audit.attacks.example_statistics import OF_EXAMPLES
from fl_audit.attacks.final_model import FINAL_AND_INITIAL, FINAL_MODEL
from fl_audit.attacks.known_rounds import KNOWN_ROUNDS
from fl_audit.attacks.one_upload import ONE_UPLOAD_MODEL
from fl_audit.attacks.scorer import RoundScorer
from fl_audit.attacks.statistics import RunFacts, Statistic
from fl_audit.attacks.threat_models import (
    Knowledge,
    ThreatModel,
    register_attacker,
    register_statistic,
    register_threat_model,
)
from fl_audit.canaries.pool import CanaryPool
from fl_audit.config_tables.audit import Audit
from fl_audit.estimators.null import Null as NullLaw
from fl_audit.formats.participation_files import Participation

__all__ = [
    "AttackContext",
    "Attacker",
    "Audit",
    "CanaryPool",
    "Knowledge",
    "NullLaw",
    "Participation",
    "RoundScorer",
    "RunFacts",
    "SeenRound",
    "Statistic",
    "ThreatModel",
    "flatten",
    "register_attacker",
    "register_statistic",
    "register_threat_model",
    "unflatten",
]

_ATTACKS_ON_RELEASES = (
    FINAL_MODEL,
    FINAL_AND_INITIAL,
    ALL_ITERATES,
    KNOWN_ROUNDS,
    CHECKPOINTS,
    WINDOW,
)
for _model in (*_ATTACKS_ON_RELEASES, ONE_UPLOAD_MODEL):
    register_threat_model(_model)
for _statistic in OF_EXAMPLES:
    register_statistic(_statistic)
