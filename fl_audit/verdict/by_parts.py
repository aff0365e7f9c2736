"""The verdict on a claim that relies on sampling, by tests of noise and rate (parts.py)."""

import dataclasses
import decimal
import math
from dataclasses import dataclass

import numpy as np

from fl_audit.accounting import PoissonSampling
from fl_audit.array_types import IntArray
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.checks import CanaryCheck
from fl_audit.checks.sampling_check import check_poisson, clients_return
from fl_audit.estimators.trade_off import GaussianTradeOff
from fl_audit.number_words import lower_bound_text, significant, upper_bound_text
from fl_audit.verdict.accounting_basis import MARGIN, Source
from fl_audit.verdict.claim_tests import ScoredStatistic
from fl_audit.verdict.claims import Claim
from fl_audit.verdict.curve_claim_tests import CurveTest
from fl_audit.verdict.exposure import Background
from fl_audit.verdict.parts import Parts, are_testable
from fl_audit.verdict.parts_power import PartsPower
from fl_audit.verdict.power import MOST_CANARIES
from fl_audit.verdict.record import Outcome, Verdict
from fl_audit.verdict.scope import Scope
from fl_audit.verdict.sentences import (
    IN_SIMULATIONS,
    NEXT,
    OTHER_ATTACKS,
    after_consistent,
    lines,
    norm_words,
    nothing_contradicts,
)

SHARE = 0.5
"""The share of the level that tests of the parts use if scores also test the whole claim."""

_ASSUMES = (
    "Canaries are sampled as clients are, each independently of data and of all other draws, and "
    "their scores are independent given their rounds."
)


@dataclass(frozen=True, eq=False)
class SampledCanaries:
    """The canaries of a run or a log, as input of the tests of a claim's parts."""

    source: Source
    own: ScoredStatistic
    background: Background

    def parts(self, scope: Scope, delta: float, level: float) -> Parts | None:
        """The tested parts; None if delta is 0, or claim or scores do not allow the tests."""
        expected = expected_parts(self.background, self.source, scope, level)
        if expected is None or delta == 0 or self.own.scores.inclusion == "pairs":
            return None
        curve = GaussianTradeOff(1 / expected.stated_noise)
        test = CurveTest("trade_off_sum", self.own, curve, delta, level / 2)
        z, null = test.deviates, test.null
        numbers = _scored_rounds(self.background)
        if z is None or null is None or null.allows_no_bound or len(z) != len(numbers):
            return None
        return dataclasses.replace(expected, z=z[numbers > 0], spent=test.spent)

    def depend_on_each_other(self) -> bool:
        """Whether the included canaries' rounds contradict independent draws."""
        of_included, release = _of_included(self.background), self.background.release
        total = sum(map(len, of_included))
        if release is None or not total:
            return False
        rate = total / (release.rounds * len(of_included))
        if rate >= 1:
            return False
        members = np.repeat(np.arange(len(of_included)), [len(own) for own in of_included])
        at = np.concatenate(of_included)
        cohorts = [members[at == index] for index in range(release.rounds)]
        if isinstance(release.client.sampling, PoissonSampling):
            findings = check_poisson(cohorts, len(of_included), rate)
        else:
            findings = (clients_return(cohorts, len(of_included), rate),)
        return any(finding.failed for finding in findings)


def expected_parts(
    background: Background, source: Source, scope: Scope, level: float
) -> Parts | None:
    """The testable parts before there are scores (deviates are 0); None if untestable."""
    release, numbers = background.release, _scored_rounds(background)
    if not scope.counts_on_sampling or scope.unfit is not None or not numbers.any():
        return None
    if release is None or not are_testable(release):
        return None
    return Parts(
        release=release,
        source=source,
        z=np.zeros(int((numbers > 0).sum())),
        numbers=numbers[numbers > 0],
        participations=sum(map(len, _of_included(background))),
        trials=len(numbers) * release.rounds,
        level=level,
        spent=0.0,
        crowd=_crowd(background),
    )


def _of_included(background: Background) -> list[IntArray]:
    canaries = zip(background.own.of_canary, background.included, strict=True)
    return [own for own, is_in in canaries if is_in]


def _scored_rounds(background: Background) -> IntArray:
    canary, _ = background.own.among(background.rounds)
    return np.bincount(canary, minlength=len(background.included))[background.included]


def _crowd(background: Background) -> float:
    """The variance of clients' updates over that of noise in aggregates; infinite without noise.

    The rounds' ratios are averaged, because uneven noise hides a canary less.
    """
    noise = background.dim * background.noise**2
    has_noise = noise > 0
    if not has_noise.any():
        return math.inf
    ratios = background.aggregate_lengths[has_noise] ** 2 / noise[has_noise]
    return float(np.maximum(ratios - 1, 0).mean())


def with_parts(
    verdict: Verdict,
    parts: Parts,
    doubtful: str | None,
    canary_check: CanaryCheck,
    *,
    is_tested: bool,
) -> Verdict:
    """The verdict after the claim is also tested by its parts."""
    claim = verdict.claim
    if verdict.outcome is Outcome.CONTRADICTED or not isinstance(claim, Claim):
        return verdict
    epsilon = parts.epsilon_at_least(claim.delta, parts.level)
    if epsilon > (1 + MARGIN) * claim.epsilon:
        return _contradicted(verdict, parts, epsilon)
    if doubtful is not None and (not is_tested or doubtful == DRAWS_DEPEND):
        return dataclasses.replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=doubtful)
    if doubtful is not None or verdict.outcome is Outcome.CONSISTENT:
        return verdict
    power = PartsPower(parts, claim, 1.0 if canary_check.length is None else canary_check.length)
    is_enough = power.is_enough
    needed = None if is_enough else power.canaries_needed()
    steps = after_consistent(claim) if is_enough else _more_power(parts, needed)
    return dataclasses.replace(
        verdict,
        outcome=Outcome.CONSISTENT if is_enough else Outcome.INCONCLUSIVE,
        basis="parts",
        epsilon_lower=epsilon,
        reason=lines(
            (
                f"{nothing_contradicts(claim)}, nor do its parts, noise and sampling rate: "
                f"{_bounds(parts)}",
                _power_words(power, canary_check.length),
                _NOT_COVERED,
                OTHER_ATTACKS if is_enough else None,
                steps,
            )
        ),
        method="parts",
        statistic=OWN_ROUNDS.name,
        assumes=_ASSUMES,
        power=None,
        detectable_epsilon=None if math.isinf(power.epsilon) else power.epsilon,
        canaries_needed=needed,
    )


DRAWS_DEPEND = lines(
    (
        "canaries’ rounds do not look like independent draws, which a claim that counts on "
        "sampling assumes",
        f"{NEXT}find out how the sampler draws (docs/verdict.md)",
    )
)

_NOT_COVERED = (
    "the tests of noise and rate do not cover a sampler that depends on data, nor dependent draws "
    "that look independent in clients' numbers of rounds and in their returns"
)


def _contradicted(verdict: Verdict, parts: Parts, epsilon: float) -> Verdict:
    """The verdict if epsilon exceeds the claim for every noise and rate within the bounds."""
    claim = verdict.claim
    p = parts.p_value((1 + MARGIN) * claim.epsilon, claim.delta)
    p *= (1 - verdict.confidence) / parts.level
    causes = []
    if parts.noise_bound < parts.stated_noise:
        causes.append("there is less noise")
    if parts.rate_bound > parts.stated_rate:
        causes.append("clients are sampled more often")
    fault = (
        f"find why {' and '.join(causes)} than {parts.source}"
        if causes
        else "claim what accounting gives"
    )
    reason = lines(
        (
            f"the claim is contradicted by its parts, noise and sampling rate: {_bounds(parts)}",
            f"for any noise and rate within these bounds, accounting gives at least "
            f"ε = {lower_bound_text(epsilon)}, with "
            f"{100 * (1 - parts.level):g} % confidence for both together (p ≤ {p:.2g})",
            f"{NEXT}do not publish this ε; {fault}",
        )
    )
    by_parts = {"method": "parts", "statistic": OWN_ROUNDS.name, "assumes": _ASSUMES}
    return verdict.contradicted_by(
        "parts", reason, **by_parts, epsilon_lower=epsilon, p_value=min(p, 1.0)
    )


def _bounds(parts: Parts) -> str:
    """A clause with the bounds on noise and rate, and the stated values."""
    noise = parts.noise_bound
    at_most = (
        "allow any noise"
        if math.isinf(noise)
        else (f"allow a noise multiplier of at most {upper_bound_text(noise)}")
    )
    return (
        f"in their own rounds canaries {at_most} ({significant(parts.stated_noise)} {parts.source}"
        f"), and they were sampled at a rate of at least {lower_bound_text(parts.rate_bound)} "
        f"({significant(parts.stated_rate)} {parts.source})"
    )


def _power_words(power: PartsPower, length: float | None) -> str:
    """A clause on the noise and the rate that are detected; `length` is canaries' measured norm."""
    if math.isinf(power.epsilon):
        seen = "audits like this notice no lack of noise, however large"
    else:
        only = "" if power.is_enough else "only "
        noise = significant(power.noise_multiplier, rounding=decimal.ROUND_DOWN)
        epsilon = significant(power.epsilon, 2, decimal.ROUND_UP)
        rate = f", or a rate of {upper_bound_text(power.rate)} or more,"
        if power.rate >= 1:
            rate = ", and no higher rate,"
        seen = (
            f"audits like this notice {only}a noise multiplier of {noise} or less{rate} "
            f"{IN_SIMULATIONS}: a true ε of {epsilon} or more"
        )
    return (
        f"power by these parts: {seen} ({len(power.parts.z):,} included canaries with "
        f"{int(power.parts.numbers.sum()):,} participations{norm_words(length)})"
    )


def _more_power(parts: Parts, needed: int | None) -> str:
    if needed is not None:
        return (
            f"{NEXT}use about {needed:,} included canaries instead of {len(parts.numbers):,}, each "
            "sampled as these were"
        )
    hidden = "; clients’ updates hide them more than the noise does" if parts.crowd > 1 else ""
    return (
        f"{NEXT}audit with fewer clients in a round, or claim a larger ε: {MOST_CANARIES:,} "
        f"included canaries would not suffice{hidden}"
    )
