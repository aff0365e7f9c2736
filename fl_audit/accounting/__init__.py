"""The analytical epsilon of a run: what its noise guarantees, whatever the attacker does."""

from fl_audit.accounting.accountants import AccountedEpsilon
from fl_audit.accounting.analytical import (
    Accounting,
    Guarantee,
    NoisyRounds,
    account,
    effective_noise_multiplier,
)

__all__ = [
    "AccountedEpsilon",
    "Accounting",
    "Guarantee",
    "NoisyRounds",
    "account",
    "effective_noise_multiplier",
]
