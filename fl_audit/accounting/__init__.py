"""The release of a run, and upper and lower bounds on epsilon.

>>> release = Release(
...     rounds=100,
...     noise=Noise("gaussian", noise_multiplier=1.0, sum_noise_multiplier=1.0),
...     denominator=Denominator("expected_cohort", 22.0),
...     client=Party(FixedRounds(7)),
...     canary=Party(FixedRounds(1)),
... )
>>> accounting = account(release, delta=1e-5)
>>> round(accounting.client.epsilon, 2), round(accounting.canary.epsilon, 2)
(14.19, 4.38)
"""

import fl_audit.accounting.skellam  # noqa: F401 - its noise distribution registers itself
from fl_audit.accounting.analytical import Accounting, account
from fl_audit.accounting.attacker_bounds import (
    AttackerBound,
    AttackerBounds,
    GaussianPair,
    ReachableBound,
    attacker_bounds,
    canaries_to_prove,
    of_uploads,
    reachable_bound,
)
from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee, none_known
from fl_audit.accounting.lower_bound import epsilon_at_least, exact_shift
from fl_audit.accounting.noise_distributions import (
    NoiseDistribution,
    noise_distribution_named,
    noise_on_sum,
    register_noise_distribution,
    remove_noise_distribution,
)
from fl_audit.accounting.privacy_curve import FullGuarantee, full_guarantee
from fl_audit.accounting.release import (
    Correlation,
    Denominator,
    Grid,
    Noise,
    Party,
    Release,
    effective_noise_multiplier,
)
from fl_audit.accounting.sampling import (
    ADD_OR_REMOVE,
    ZERO_OUT,
    FixedRounds,
    OncePerBlock,
    OneGroup,
    OneRoundPerBlock,
    Sampling,
    UnknownRounds,
)
from fl_audit.accounting.samplings.balls_in_bins import BallsInBinsSampling
from fl_audit.accounting.samplings.cyclic_poisson import CyclicPoissonSampling
from fl_audit.accounting.samplings.fixed_size import FixedSizeSampling
from fl_audit.accounting.samplings.min_separation import MinSeparationSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.accounting.samplings.random_allocation import AllocatedRounds
from fl_audit.accounting.samplings.truncated_poisson import TruncatedPoissonSampling
from fl_audit.accounting.secret_sampling import SecretSampling
from fl_audit.accounting.upper_bounds import FullGuarantees, Guarantees, UpperBounds, upper_bounds

__all__ = [
    "ADD_OR_REMOVE",
    "ZERO_OUT",
    "AccountedEpsilon",
    "Accounting",
    "AllocatedRounds",
    "AttackerBound",
    "AttackerBounds",
    "BallsInBinsSampling",
    "Correlation",
    "CyclicPoissonSampling",
    "Denominator",
    "FixedRounds",
    "FixedSizeSampling",
    "FullGuarantee",
    "FullGuarantees",
    "GaussianPair",
    "Grid",
    "Guarantee",
    "Guarantees",
    "MinSeparationSampling",
    "Noise",
    "NoiseDistribution",
    "OncePerBlock",
    "OneGroup",
    "OneRoundPerBlock",
    "Party",
    "PoissonSampling",
    "ReachableBound",
    "Release",
    "Sampling",
    "SecretSampling",
    "TruncatedPoissonSampling",
    "UnknownRounds",
    "UpperBounds",
    "account",
    "attacker_bounds",
    "canaries_to_prove",
    "effective_noise_multiplier",
    "epsilon_at_least",
    "exact_shift",
    "full_guarantee",
    "noise_distribution_named",
    "noise_on_sum",
    "none_known",
    "of_uploads",
    "reachable_bound",
    "register_noise_distribution",
    "remove_noise_distribution",
    "upper_bounds",
]
