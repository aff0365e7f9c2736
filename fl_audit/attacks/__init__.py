"""Attacks: what attackers see of a run or a log, and how they score its canaries.

Nothing here imports TensorFlow. A canary client anywhere asks `CanaryPool` for its vector; a
server hands `RoundScorer` each round's aggregate, or writes it into a folder that `fl-audit
estimate` scores. docs/logs.md has the format and an example of each. Threat models, statistics and
attackers are registered (`fl_audit.attacks.registry`), also those of other packages.
"""

from fl_audit.attacks.arrays import flatten, unflatten
from fl_audit.attacks.attacker import Attacker, SeenRound
from fl_audit.attacks.audit_table import Audit
from fl_audit.attacks.context import AttackContext
from fl_audit.attacks.registry import register_attacker, register_statistic, register_threat_model
from fl_audit.attacks.scorer import RoundScorer
from fl_audit.attacks.statistic import NullLaw, RunFacts, Statistic
from fl_audit.attacks.threat_model import ThreatModel
from fl_audit.canaries.pool import CanaryPool
from fl_audit.formats.participation_files import Participation

__all__ = [
    "AttackContext",
    "Attacker",
    "Audit",
    "CanaryPool",
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
