"""Lower bounds on epsilon that hold at all times at once, however often one looks."""

from fl_audit.estimators.anytime.bets import Bets, censored_bets
from fl_audit.estimators.anytime.bound import LARGEST_TESTED, AnytimeBound, deviates

__all__ = ["LARGEST_TESTED", "AnytimeBound", "Bets", "censored_bets", "deviates"]
