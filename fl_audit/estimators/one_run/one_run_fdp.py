"""The one-run bound for mechanisms whose trade-off is Gaussian (Mahloujifar et al. 2024)."""

import math
from dataclasses import dataclass

import numpy as np

from fl_audit.estimators.gaussian.gdp import epsilon_of_mu
from fl_audit.estimators.one_run.guess_orders import GUESS_ORDERS
from fl_audit.estimators.one_run.guesses import Guesses
from fl_audit.estimators.one_run.trade_off_p_value import (
    gaussian_trade_off,
    mu_lower_bound,
    rejects,
)
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

_RATIO = 8
"""The ratio of one number of guesses to the next. The best number is not sharp: next to one off
by a factor of 2 or 3, a stricter level costs more, so fewer numbers serve better than many."""

_FROM_TOP = (8, 16)
"""What m is divided by for numbers of guesses from the top, which are best where a few included
canaries stand out: nearly all guesses are right then, up to a number that is sharper."""


def one_run_fdp(setting: AuditSetting) -> Estimate:
    """The largest epsilon whose Gaussian trade-off the right guesses reject.

    Guesses are made from both ends, ceil(r / 2) largest scores being guessed to be included and
    floor(r / 2) smallest to be excluded for each r of `few_numbers_of_guesses`, and from the top
    alone for m / 8 and m / 16 guesses. Each of these orders has a fixed share of alpha
    (guess_orders.py), and each r an equal share of that, so that the order, r and level of a test
    are fixed in advance, as Theorem 3.2 asks. The largest mu that any test rejects becomes epsilon
    at delta, by the Gaussian mechanism with noise multiplier 1 / mu (Balle & Wang 2018). With delta
    0 it is infinite if mu is above 0.

    Raises:
      NotApplicableError: If there are no included or no excluded scores.
    """
    setting.require(included=1, excluded=1)
    m = setting.scores.num_included + setting.scores.num_excluded
    alpha = 1 - setting.confidence
    candidates = _candidates(setting.scores, m, alpha)
    mu, best = 0.0, candidates[0]
    for test in candidates:
        total, correct = test.guesses.total, test.guesses.correct
        # Only what rejects the largest mu so far proves a larger one.
        if rejects(gaussian_trade_off(mu), m, total, correct, test.level):
            mu, best = mu_lower_bound(m, total, correct, test.level), test
    guesses = best.guesses if mu > 0 else Guesses(0, 0, 0)
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
            "m": m,
            "guesses": guesses.total,
            "correct": guesses.correct,
            "k_plus": guesses.k_plus,
            "k_minus": guesses.k_minus,
            "num_choices": len(candidates),
            "corrected_confidence": 1 - best.level,
        },
    )


def few_numbers_of_guesses(m: int, alpha: float) -> tuple[int, ...]:
    """The numbers of guesses m / 2, m / 16, m / 128 ..., as long as they can reject anything.

    All m are hardly ever the best number, as the middle half of the scores tell least. Fewer than 4
    log2(1 / alpha) guesses prove little even if all are right.

    >>> few_numbers_of_guesses(2000, alpha=0.05)
    (1000, 125)
    >>> few_numbers_of_guesses(20, alpha=0.05)
    (10,)
    """
    fewest = 4 * math.log2(1 / alpha)
    most = max(m // 2, 1)
    steps = range(1, m.bit_length())
    return (most, *(r for k in steps if (r := most // _RATIO**k) >= fewest))


@dataclass(frozen=True)
class _Test:
    guesses: Guesses
    level: float


def _candidates(scores: CanaryScores, m: int, alpha: float) -> list[_Test]:
    """The tests, those of guesses from both ends first."""
    tests = []
    for order in GUESS_ORDERS:
        from_top = tuple(max(m // divisor, 1) for divisor in _FROM_TOP)
        totals = from_top if order.is_from_top else few_numbers_of_guesses(m, alpha)
        correct = order.correct(scores, np.array(totals))
        level = order.share * alpha / len(totals)
        tests += [
            _Test(order.guesses(total, int(right)), level)
            for total, right in zip(totals, correct, strict=True)
        ]
    return tests
