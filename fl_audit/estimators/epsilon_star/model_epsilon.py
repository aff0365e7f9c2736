"""The definition of Epsilon*: the largest of four ratios of error rates, over loss thresholds.

Negoescu et al. (2024), Definition 2. A point is called a member if its loss is at most a
threshold; t = FPR is the share of non-members so called, and eta = FNR the share of members not.
"""

from dataclasses import dataclass
from typing import Literal

Ratio = Literal[
    "(TPR - delta) / FPR",
    "(TNR - delta) / FNR",
    "(FNR - delta) / TNR",
    "(FPR - delta) / TPR",
]
"""The four ratios of equation 7, in its order, with 1 - eta = TPR and 1 - t = TNR.

The last two are the first two with members and non-members exchanged: they are large where
members have the larger losses. So Epsilon* does not change if the two samples are exchanged, nor
if all losses are negated.
"""

SOURCE = "Negoescu et al. (2024), arXiv:2307.11280"

GUARANTEE = (
    "None: a point estimate of how well the losses of this one trained model tell its members "
    "from other points (the paper's empirical privacy). It is neither a lower nor an upper bound "
    "on the epsilon of the mechanism that trained the model."
)


@dataclass(frozen=True)
class ModelEpsilon:
    """The largest ratio that any threshold attains.

    Attributes:
      epsilon: Log of the largest ratio, in nats, at least 0, possibly infinite.
      threshold: Threshold where the ratio is attained, in the units of what was given; None where
        no ratio exceeds 1, or where the largest is only approached as the threshold goes to
        infinity.
      ratio: Name of the ratio among the four; None where there is no threshold.
    """

    epsilon: float
    threshold: float | None
    ratio: Ratio | None
