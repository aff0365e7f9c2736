"""The analytical epsilon of a run, which its noise guarantees against every attacker."""

from fl_audit.accounting.analytical import ADD_OR_REMOVE, ZERO_OUT, Accounting, account
from fl_audit.accounting.attacker_bounds import (
    AttackerBound,
    AttackerBounds,
    GaussianPair,
    Provable,
    attacker_bounds,
    canaries_to_prove,
    most_provable,
)
from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee, none_known
from fl_audit.accounting.noise_laws import (
    NoiseLaw,
    noise_law_named,
    register_noise_law,
    remove_noise_law,
)
from fl_audit.accounting.noisy_rounds import NoisyRounds, Party, effective_noise_multiplier

__all__ = [
    "ADD_OR_REMOVE",
    "ZERO_OUT",
    "AccountedEpsilon",
    "Accounting",
    "AttackerBound",
    "AttackerBounds",
    "GaussianPair",
    "Guarantee",
    "NoiseLaw",
    "NoisyRounds",
    "Party",
    "Provable",
    "account",
    "attacker_bounds",
    "canaries_to_prove",
    "effective_noise_multiplier",
    "most_provable",
    "noise_law_named",
    "none_known",
    "register_noise_law",
    "remove_noise_law",
]
