"""The mechanisms that a config may name."""

from typing import Any

from fl_audit.kinds.registry import Registry
from fl_audit.mechanisms.distributed import DISTRIBUTED
from fl_audit.mechanisms.gaussian import GAUSSIAN_ADAPTIVE, GAUSSIAN_FIXED
from fl_audit.mechanisms.kind import Mechanism, MechanismKind
from fl_audit.mechanisms.no_privacy import NO_PRIVACY
from fl_audit.mechanisms.tree_aggregation import TREE_AGGREGATION

MECHANISMS = Registry[MechanismKind[Any]]("mechanism", Mechanism)

MECHANISMS.register(GAUSSIAN_ADAPTIVE)
MECHANISMS.register(GAUSSIAN_FIXED)
MECHANISMS.register(TREE_AGGREGATION)
MECHANISMS.register(DISTRIBUTED)
MECHANISMS.register(NO_PRIVACY)
