"""Attacks: what attackers see of a run or a log, and how they score its canaries.

A server that trains with any system scores each round's aggregate with a `RoundScorer`. Canary
clients anywhere get their vectors from the same `CanaryPool`:

>>> import tempfile
>>> import numpy as np
>>> from fl_audit.attacks import CanaryPool, RoundScorer
>>> pool = CanaryPool(seed=7, count=200, dim=4000)
>>> included = np.flatnonzero(pool.included)
>>> with tempfile.TemporaryDirectory() as folder:
...     scorer = RoundScorer.create(folder, pool, num_rounds=1, canary_rounds=[[1]] * pool.count)
...     noise = 0.5 * np.random.default_rng(0).standard_normal(pool.dim)
...     cosines = scorer.score_round(1, sum(map(pool.vector, included)) + noise)
...     print(sorted(scorer.finish()), round(scorer.lower_bound_epsilon(delta=1e-5), 1))
['max', 'own_rounds', 'sum'] 2.4

`fl-audit estimate FOLDER` then reports on the folder, whose format is in docs/logs.md. Threat
models, statistics and attackers, including other packages', are registered in
`fl_audit.attacks.threat_models`. Null distributions are `fl_audit.estimators.Null`. Nothing here
imports TensorFlow.
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
from fl_audit.attacks.secret_rounds import SECRET_ROUNDS
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
    SECRET_ROUNDS,
    KNOWN_ROUNDS,
    CHECKPOINTS,
    WINDOW,
)
for _model in (*_ATTACKS_ON_RELEASES, ONE_UPLOAD_MODEL):
    register_threat_model(_model)
for _statistic in OF_EXAMPLES:
    register_statistic(_statistic)
