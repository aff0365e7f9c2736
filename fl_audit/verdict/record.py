"""The verdict on a claim as a record, and its JSON."""

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fl_audit.json_records import (
    WRITTEN_IF_SET,
    fields_from_json,
    fields_to_json,
    from_json,
)
from fl_audit.verdict.claims import Claim, CurveClaim, claim_from_json, claim_to_json
from fl_audit.verdict.power import FACTOR

Basis = Literal["scores", "parts", "accounting"]
"""What a verdict rests on: the canaries' scores; the noise and the sampling rate, each tested by
itself (parts.py); or what accounting gives for the configured noise (accounting_basis.py)."""


class Outcome(enum.StrEnum):
    """The outcome of a verdict on a claim."""

    CONTRADICTED = "contradicted"
    """A lower bound that holds for any mechanism exceeds the claim, or that of accounting does."""
    CONSISTENT = "consistent"
    """No bound exceeds it, the canary check passed, no other statistic separates clearly better,
    and the audit had the power to contradict a claim wrong by FACTOR."""
    INCONCLUSIVE = "inconclusive"
    """No bound exceeds it, but something of that is missing; or the canaries do not bear on it."""


@dataclass(frozen=True)
class Detectable:
    """The smallest violation of a claimed curve that 80 % of such audits would have contradicted.

    Attributes:
      mu: The mu of a Gaussian mechanism that leaks as much.
      noise_multiplier: The noise multiplier in place of the claimed one; None where the claim is
        about no noise, or the attacker does not know the rounds.
    """

    mu: float
    noise_multiplier: float | None = None


@dataclass(frozen=True)
class AsCurve:
    """The verdict on a claimed point if the Gaussian curve through it had been claimed."""

    mu: float
    p_value: float
    is_contradicted: bool


@dataclass(frozen=True)
class AgainstAttacker:
    """Results of the curve tests against one attacker.

    Attributes:
      p_value: The smallest p-value of the tests on what he sees, weighted so that all tests of the
        claim together have the level of the verdict.
    """

    threat_model: str
    p_value: float
    is_contradicted: bool


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, and what it rests on.

    Attributes:
      outcome: Contradicted, consistent or inconclusive.
      basis: What the outcome rests on.
      reason: The reason for the outcome, what the audit could have noticed and what to do next, in
        sentences (sentences.py), one a line.
      claim: The claim.
      confidence: The probability that no lower bound among the tests exceeds the truth, at least.
      num_tests: Number of lower bounds made, each at confidence 1 - (1 - confidence) / num_tests.
      epsilon_lower: The largest lower bound; 0 where there is none.
      method: Name of the method that proved it; None where the scores allow no method.
      statistic: Name of the statistic that it was proved on; None where it has no name.
      assumes: What has to hold for the bound, in words.
      p_value: The smallest 1 - confidence at which the claim would be contradicted; None where the
        canaries do not bear on it.
      power: Share of simulated audits of a mechanism with FACTOR times the claimed epsilon that
        contradict the claim; None where it was not simulated.
      detectable_epsilon: The smallest true epsilon at the claim's delta of which ENOUGH_POWER of
        simulated audits contradict the claim; None where there is none, or it was not simulated.
      canaries_needed: Approximate number of canaries that gives ENOUGH_POWER; None where that was
        not asked, or no number that was tried does.
      detectable: What of a curve would have been contradicted, in its own units; None for a point.
      as_curve: The result if a claimed point had been a Gaussian curve; None for a curve, or where
        that cannot be said.
      against: What the tests of a curve say of each attacker, the strongest first; empty for a
        point, and where nothing was tested.
    """

    outcome: Outcome
    reason: str
    claim: Claim | CurveClaim
    confidence: float
    num_tests: int
    basis: Basis = "scores"
    epsilon_lower: float = 0.0
    method: str | None = None
    statistic: str | None = None
    assumes: str | None = None
    p_value: float | None = None
    power: float | None = None
    detectable_epsilon: float | None = None
    canaries_needed: int | None = None
    detectable: Detectable | None = field(default=None, metadata=WRITTEN_IF_SET)
    as_curve: AsCurve | None = field(default=None, metadata=WRITTEN_IF_SET)
    against: tuple[AgainstAttacker, ...] = field(default=(), metadata=WRITTEN_IF_SET)

    @property
    def simulated_epsilon(self) -> float:
        """Epsilon of the mechanism whose audits are simulated."""
        return FACTOR * self.claim.epsilon

    def contradicted_by(self, basis: Basis, reason: str, **fields: Any) -> "Verdict":
        """The contradiction on another basis, without the power of the scores."""
        return dataclasses.replace(
            self,
            outcome=Outcome.CONTRADICTED,
            basis=basis,
            reason=reason,
            power=None,
            detectable_epsilon=None,
            detectable=None,
            canaries_needed=None,
            **fields,
        )

    def to_json(self) -> dict[str, object]:
        """The JSON object of report.json, with the claim among its keys."""
        fields = fields_to_json(self)
        claim = {
            "outcome": fields.pop("outcome"),
            "basis": fields.pop("basis"),
            "reason": fields.pop("reason"),
            "claimed_epsilon": self.claim.epsilon,
            "claimed_delta": self.claim.delta,
            "claimed_for": self.claim.whom,
        }
        simulated = {"simulated_epsilon": self.simulated_epsilon}
        fields["claim"] = claim_to_json(self.claim)
        return {**claim, "num_looks": fields.pop("num_tests"), **fields, **simulated}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Verdict":
        """The verdict that `to_json` writes.

        Raises:
          ValueError: A key is missing, or a value is of another type.
        """
        claim = claim_from_json(fields["claim"])
        num_tests = from_json(int, fields["num_looks"])
        return fields_from_json(cls, fields, claim=claim, num_tests=num_tests)
