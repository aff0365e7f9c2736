"""What f-DP allows the number of right guesses in one run to be (Mahloujifar et al. 2024).

Mahloujifar, Melis & Chaudhuri, "Auditing f-Differential Privacy in One Run", arXiv:2410.22235.
m canaries are each included by a fair coin, S the coins; the auditor sees what the mechanism
releases and makes exactly r guesses. Let p_k be the probability that k of them are right, and

    R_i = sum over k >= i of (k / m) p_k,    H_i = sum over k >= i of ((r - k) / m) p_k.

Draw a canary at random. That it is guessed, rightly, and k >= i guesses are right has probability
R_i. Flip its coin and keep the release: the coins have the same law as before, and a right guess
among k becomes a wrong one among k - 1. So the same event, for a release that was made with the
other coin, has probability H_{i-1}, and f-DP says

    R_i <= 1 - f(H_{i-1}),  or  H_{i-1} >= inverse(R_i),  for every i,                       (1)

where inverse(y) is the least false positive rate at which the true positive rate can be y (the
average over the coins is inside by concavity). If P(at least v right) is some tail, then the p_k of
least total mass that meets (1) puts the tail on k = v, and each H_i below is as small as (1) lets
it be: R_i and the total mass grow with every H. A tail that needs more than mass 1 is impossible.
"""

import math
from statistics import NormalDist

_NORMAL = NormalDist()


def mu_rejected(mu: float, m: int, r: int, v: int, alpha: float) -> bool:
    """Whether v or more right guesses have probability below alpha under mu-GDP.

    mu-GDP is f-DP with f(x) = Phi(Phi^-1(1 - x) - mu) (Dong, Roth & Su 2022), for which
    inverse(y) = Phi(Phi^-1(y) - mu) in (1).

    Args:
        mu: at least 0.
        m: number of canaries, each included with probability 1/2.
        r: number of guesses, in [0, m], fixed in advance.
        v: number of right guesses, in [0, r].
        alpha: in (0, 1).

    >>> mu_rejected(0.0, m=100, r=100, v=75, alpha=0.05)
    True
    >>> mu_rejected(2.0, m=100, r=100, v=75, alpha=0.05)  # Phi(2 / 2) = 0.84 of them are right
    False
    """
    if r == 0:
        return False
    right, wrong = alpha * v / m, alpha * (r - v) / m  # R_v and H_v
    possible = r / m
    for k in range(v - 1, -1, -1):
        if right + wrong > possible:
            return True
        needed = _normal_cdf(_NORMAL.inv_cdf(right) - mu)
        if needed <= wrong:
            return False  # nothing more is needed: right and wrong stay as they are
        right += k / (r - k) * (needed - wrong)
        wrong = needed
    return right + wrong > possible


def _normal_cdf(x: float) -> float:
    # By erfc, whose small values keep their digits.
    return 0.5 * math.erfc(-x / math.sqrt(2))
