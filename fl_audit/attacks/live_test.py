"""The test of a run in training: the lower bound from own-round scores after every round."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.canaries.families import WITH_KNOWN_NULL
from fl_audit.estimators.anytime import AnytimeBound, deviates
from fl_audit.estimators.curve_tests import CurveWealth
from fl_audit.estimators.null import too_large_p_value
from fl_audit.estimators.threshold.null_choice import REFUTED_BELOW
from fl_audit.estimators.trade_off import TradeOff


@dataclass(frozen=True, eq=False)
class ScoredRound:
    """Every canary's cosine with an aggregate; `compared` is None if that aggregate is zero."""

    cosines: Float32Array
    compared: ComparedVectors | None


class ScoredRounds(Protocol):
    """An object with the scored rounds, such as `RoundCosines`."""

    def scored_round(self, index: int, /) -> ScoredRound | None:
        """The round, counted from 0; None if it was not scored."""


@dataclass(frozen=True, eq=False)
class LiveCanaries:
    """The canaries of a live test, each with at most one round; the family has a known null."""

    included: npt.NDArray[np.bool_]
    own: OwnRounds
    family: str
    dim: int


def why_no_live_test(own: OwnRounds | None, family: str | None) -> str | None:
    """Why own-round scores cannot be tested round by round; None if they can be."""
    if own is None:
        return "the canaries' rounds are not known"
    if own.most == 0:
        return "no canary has a round of its own"
    if family not in WITH_KNOWN_NULL:
        return "an excluded canary's score has no known distribution"
    if own.most > 1:
        return (
            f"canaries have up to {own.most} rounds of their own, so that a round's scores are "
            "not independent of earlier rounds' scores"
        )
    return None


class LiveTest:
    """The anytime-valid test of own-round scores (docs/live_verdict.md).

    Each canary has at most one round. `AnytimeBound` bets on the p-values of included canaries
    under the null distribution of their round. The p-values of excluded canaries in all rounds so
    far test whether that distribution is right; if they reject it, the lower bound is 0.
    """

    def __init__(
        self,
        canaries: LiveCanaries,
        delta: float,
        claim: float | None = None,
        curve: TradeOff | None = None,
    ) -> None:
        self._wealth = None if curve is None else CurveWealth(curve)
        self.bound = AnytimeBound(delta, claim)
        self._canaries = canaries
        self._members = canaries.own.members()
        self._excluded: list[FloatArray] = []
        self._is_refuted = False

    def add(self, rounds: ScoredRounds, indices: range) -> None:
        """Adds rounds in order, counted from 0, each at most once."""
        for index in indices:
            scored = rounds.scored_round(index)
            if scored is not None:
                self._add(index, scored)

    def epsilon(self, confidence: float, at_least: float = 0.0) -> float:
        """The lower bound of `AnytimeBound.epsilon`; 0 if the null is refuted."""
        return 0.0 if self._is_refuted else self.bound.epsilon(confidence, at_least)

    def p_value(self, claim: float) -> float:
        """The p-value of the claim by `AnytimeBound.p_value`; 1 if the null is refuted."""
        return 1.0 if self._is_refuted else self.bound.p_value(claim)

    def p_value_of_curve(self) -> float:
        """The p-value of the claimed curve; 1 if there is none, or the null is refuted."""
        return 1.0 if self._is_refuted or self._wealth is None else self._wealth.p_value

    def _add(self, index: int, scored: ScoredRound) -> None:
        members = self._members[index]
        if len(members) == 0:
            return
        is_included = self._canaries.included[members]
        log_tails = self._log_tails(scored, members)
        self.bound.add_round(log_tails[is_included])
        if self._wealth is not None:
            self._wealth.add(deviates(log_tails[is_included]))
        self._excluded.append(log_tails[~is_included])
        self._is_refuted = self._is_refuted or _refute(np.concatenate(self._excluded))

    def _log_tails(self, scored: ScoredRound, members: npt.NDArray[np.int64]) -> FloatArray:
        """Logs of the p-values of a round's canaries; zeros if the aggregate has no direction."""
        if scored.compared is None or not scored.cosines.any():
            return np.zeros(len(members))
        null = scored.compared.null_tail(self._canaries.family, self._canaries.dim)
        return null.log_tail_upper(scored.cosines[members].astype(np.float64))


def _refute(log_p_values: FloatArray) -> bool:
    """Whether p-values of excluded canaries reject the known null."""
    if len(log_p_values) == 0:
        return False
    return too_large_p_value(-log_p_values, lambda surprise: -surprise) < REFUTED_BELOW
