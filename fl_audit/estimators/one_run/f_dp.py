"""Correct guesses under f-differential privacy: the whole trade-off curve in one test.

Mahloujifar, Melis & Chaudhuri (2024), "Auditing f-Differential Privacy in One Run",
arXiv:2410.22235, Theorems 3.1 and 3.2 and Algorithm 3, for k = 2.

Setting. Each of m canaries is included by an independent fair coin. From the output alone the
auditor chooses r canaries, r fixed in advance, guesses their coins and abstains on all other
canaries. W guesses are correct. Neighbours differ in one coin: one canary is added or removed. The
mechanism is f-DP in both directions: an event of probability q on one input has probability at most
1 - f(q) on its neighbour, with f convex and symmetric (f is its own inverse). So an event of
probability x has probability at least L(x) = f(1 - x) there; L is increasing and convex.

Theorem 3.1. Let p_w = P(W = w). For any set A of counts,

    L(sum over w in A of w p_w / m) <= sum over w in A of (r - w + 1) p_(w-1) / m.           (1)

Proof. Fix a canary i, a value b and the other coins; then the output determines which guesses about
other canaries are right. Let E be the event that b is guessed for i and that w - 1 other guesses
are right, for some w in A. If coin i is b, the guess is right and W is in A. If it is not, the
guess is wrong and W + 1 is in A. The probability of E in the second case is at least L of its
probability in the first. Averaging over i, b and the other coins gives (1) by Jensen's inequality:
w of the m canaries are guessed right if W = w, and r - w + 1 wrong if W = w - 1.

Theorem 3.2. Let alpha_i and beta_i be the sums over w >= i of w p_w / m and (r - w) p_w / m. With
A = {i + 1, ..., r}, (1) reads beta_i >= L(alpha_(i+1)). And alpha_i - alpha_(i+1) = i p_i / m is
i / (r - i) times beta_i - beta_(i+1). Suppose now that P(W >= v) >= tau. Set a_v = v tau / m and
b_v = (r - v) tau / m, and for i = v - 1, ..., 0

    b_i = L(a_(i+1)),    a_i = a_(i+1) + i / (r - i) (b_i - b_(i+1)).                        (2)

Then alpha_i >= a_i and beta_i >= b_i for i < v, as long as b_i increases on the way down: with
gamma_z = z / (r - z) - (z - 1) / (r - z + 1) > 0,

    alpha_i = i / (r - i) beta_i + (sum over z = i+1, ..., v-1 of gamma_z beta_z) + k,
    k = alpha_v - (v - 1) / (r - v + 1) beta_v,

the same holds for a and b, and k, a mean over {W >= v} of an increasing function of W, is at least
its value if W = v with probability tau and never above. But alpha_i + beta_i = r P(W >= i) / m. So
if a_i + b_i > r / m for any i, then P(W >= v) < tau. If some b_i does not increase, nothing
follows.

For epsilon-DP, (2) gives P(W >= v) <= B / (B + P(N < v)) with N ~ Binomial(r, e^epsilon / (1 +
e^epsilon)) and B = P(N = v) / (1 - e^epsilon (r - v) / v). That is the exact worst case P(N >= v)
with the probabilities beyond v replaced by the geometric series that bounds them, which is what (2)
loses.
"""

import math

import numpy as np

from fl_audit.errors import InputError
from fl_audit.estimators.distributions import supremum
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.one_run.bound import check_counts
from fl_audit.estimators.one_run.guess_orders import GUESS_ORDERS
from fl_audit.estimators.one_run.guesses import Guesses
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.trade_off import GaussianTradeOff, TradeOff

_ROUNDING = 1e-9
"""The relative margin by which a_i + b_i must exceed r / m; rounding in a million steps is less."""


def rejects(trade_off: TradeOff, m: int, r: int, v: int, alpha: float) -> bool:
    """Whether v correct guesses out of r reject, at level alpha, that a mechanism is f-DP.

    True only if v or more correct guesses have probability below alpha under f-DP, so that the test
    is valid. Mahloujifar et al. (2024), Algorithm 3. The trade-off's `least` is L(x) = f(1 - x).

    >>> [rejects(GaussianTradeOff(0.5), 1000, 100, v, alpha=0.05) for v in (86, 87)]
    [False, True]
    """
    check_counts(m, r, v)
    if not 0 < alpha < 1:
        raise InputError(f"alpha must be in (0, 1), such as 0.05, got {alpha}")
    impossible = r / m * (1 + _ROUNDING)
    a, b = alpha * v / m, alpha * (r - v) / m
    # The loop ends long before i = 0: the sum exceeds r / m or b stalls.
    for i in range(v - 1, -1, -1):
        least = trade_off.least(a)
        if least <= b:
            return False
        a += i / (r - i) * (least - b)
        b = least
        if a + b > impossible:
            return True
    return False


def f_dp_p_value(trade_off: TradeOff, m: int, r: int, v: int) -> float:
    """An upper bound on the chance of v or more correct guesses out of r under f-DP.

    It is the smallest level at which v correct guesses reject the curve, or 1 if they reject it at
    no level (Mahloujifar et al. 2024, section 3.1).

    The curve's `least` is L(x) = f(1 - x); the counts m, r (fixed in advance) and v are as in
    `one_run.p_value`; InputError if out of range.

    >>> round(f_dp_p_value(GaussianTradeOff(0.5), 1000, 100, 88), 4)
    0.0251
    """
    check_counts(m, r, v)
    return supremum(
        lambda alpha: alpha == 0 or (alpha < 1 and not rejects(trade_off, m, r, v, alpha))
    )


def mu_lower_bound(m: int, r: int, v: int, alpha: float) -> float:
    """The largest mu for which v correct guesses out of r reject mu-GDP at level alpha, or 0.

    A mu-GDP mechanism has mu at least this with confidence 1 - alpha, if r was fixed in advance:
    mu-GDP implies mu'-GDP for every larger mu', so all smaller mu are rejected too.

    The counts are as in `one_run.p_value`, with InputError if out of range; alpha is in (0, 1).

    >>> round(mu_lower_bound(1000, 100, 88, alpha=0.05), 3)
    0.546
    """
    return supremum(lambda mu: rejects(GaussianTradeOff(mu), m, r, v, alpha))


# `one_run_fdp`: the bound for mechanisms whose trade-off is Gaussian (Mahloujifar et al. 2024).


_RATIO = 8
"""The ratio of one number of guesses to the next. The optimum is flat: being off by a factor of 2
or 3 costs less than the stricter level of more tests.
"""

_FROM_TOP = (8, 16)
"""m divided by each of these is a number of guesses from the top. Such guesses are best if a few
included canaries score far above all other canaries.
"""


def one_run_fdp(setting: AuditSetting) -> Estimate:
    """The largest epsilon whose Gaussian trade-off the correct guesses reject.

    For each r of `few_numbers_of_guesses` the ceil(r / 2) largest scores are guessed to be included
    and the floor(r / 2) smallest to be excluded; in two more tests the m / 8 and the m / 16 largest
    are guessed to be included. Both orders have fixed shares of alpha (guess_orders.py), and each
    r an equal part of its order's share, so that the order, r and level of a test are fixed in
    advance, as Theorem 3.2 requires.

    The largest mu that any test rejects becomes epsilon at delta, by the Gaussian mechanism with
    noise multiplier 1 / mu (Balle & Wang 2018). With delta 0 it is infinite if mu is above 0.
    """
    setting.require(included=1, excluded=1)
    m = setting.scores.num_included + setting.scores.num_excluded
    candidates = _candidates(setting.scores, m, 1 - setting.confidence)
    mu, (guesses, best_level) = 0.0, candidates[0]
    for test, level in candidates:
        # A test gives a larger mu only if it rejects the largest so far.
        if rejects(GaussianTradeOff(mu), m, test.total, test.correct, level):
            mu = mu_lower_bound(m, test.total, test.correct, level)
            guesses, best_level = test, level
    guesses = guesses if mu > 0 else Guesses(0, 0, 0)
    epsilon = epsilon_of_mu(mu, setting.delta)
    return Estimate(
        method="one_run_fdp",
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        valid_for="Gaussian mechanisms",
        assumes=(
            "Each canary was included by an independent fair coin, not in fixed numbers. The "
            "mechanism is mu-GDP for some mu, whichever canary is added or removed: its error "
            "rates trade off no better for the attacker than those between N(0, 1) and N(mu, 1)."
        ),
        guarantee=(
            f"True mu, and the epsilon of mu-GDP, is at least this with "
            f"{100 * setting.confidence:g} % confidence; valid although the number of guesses "
            "and their order are chosen on the data, which is corrected for. Where the mechanism's "
            "own trade-off is not Gaussian, its epsilon at this delta may be smaller."
        ),
        source=(
            "Mahloujifar, Melis & Chaudhuri (2024), arXiv:2410.22235, Theorem 3.2 and Algorithm 3, "
            "with a Bonferroni correction; Balle & Wang (2018), arXiv:1805.06530, theorem 8"
        ),
        details={
            "mu": mu,
            **guesses.details(m),
            "num_choices": len(candidates),
            "corrected_confidence": 1 - best_level,
        },
    )


def few_numbers_of_guesses(m: int, alpha: float) -> tuple[int, ...]:
    """The numbers of guesses m / 2, m / 16, m / 128 ..., stopping before they are too few.

    All m are rarely the best number, because the middle half of the scores is the least
    informative. Fewer than 4 log2(1 / alpha) guesses show little even if all are right.

    >>> few_numbers_of_guesses(2000, alpha=0.05)
    (1000, 125)
    >>> few_numbers_of_guesses(20, alpha=0.05)
    (10,)
    """
    fewest = 4 * math.log2(1 / alpha)
    most = max(m // 2, 1)
    steps = range(1, m.bit_length())
    return (most, *(r for k in steps if (r := most // _RATIO**k) >= fewest))


_PLANNED_LEVEL = 0.01
"""The level for which the numbers of guesses in a test of a curve are planned."""


def guesses_p_value(scores: CanaryScores, trade_off: TradeOff) -> float:
    """A p-value of a claimed curve from correct guesses, valid under any dependence of scores.

    It is the smallest p-value of the guesses that `one_run_fdp` would make at confidence 0.99, each
    divided by its share of the level (a weighted Bonferroni correction). The number of canaries
    alone determines the numbers of guesses. The curve must hold in both directions; coins are fair.
    """
    m = scores.num_included + scores.num_excluded
    least = 1.0
    for guesses, level in _candidates(scores, m, _PLANNED_LEVEL):
        counts, share = (m, guesses.total, guesses.correct), level / _PLANNED_LEVEL
        if rejects(trade_off, *counts, share * least):
            least = min(least, f_dp_p_value(trade_off, *counts) / share)
    return least


def _candidates(scores: CanaryScores, m: int, alpha: float) -> list[tuple[Guesses, float]]:
    """The guesses and level of each test, first the tests of guesses from both ends."""
    tests = []
    for order in GUESS_ORDERS:
        from_top = tuple(max(m // divisor, 1) for divisor in _FROM_TOP)
        totals = from_top if order.where == "top" else few_numbers_of_guesses(m, alpha)
        correct = order.correct(scores, np.array(totals))
        level = order.share * alpha / len(totals)
        tests += [
            (order.guesses(total, int(right)), level)
            for total, right in zip(totals, correct, strict=True)
        ]
    return tests
