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
"""The basis of a verdict: the canaries' scores; separate tests of noise and sampling rate
(parts.py); or accounting of configured or stated noise (accounting_basis.py).
"""


class Outcome(enum.StrEnum):
    """The outcome of a verdict on a claim."""

    CONTRADICTED = "contradicted"
    """A valid test, or a lower bound of accounting, contradicts the claim."""
    CONSISTENT = "consistent"
    """Nothing contradicts the claim, no upper bound of accounting exceeds it, the canary check
    passed, no other check failed, canaries were as exposed as clients, no untested statistic
    separates clearly better, and the audit had the power to contradict a claim that is too small by
    FACTOR."""
    INCONCLUSIVE = "inconclusive"
    """Nothing contradicts the claim, but another condition of CONSISTENT is not met; or the
    canaries say nothing about the claim.
    """


@dataclass(frozen=True)
class Detectable:
    """The smallest violation of a claimed curve that 80 % of such audits would contradict.

    Attributes:
      mu: The mu of a Gaussian mechanism that leaks as much as this violation.
      noise_multiplier: The noise multiplier of a run with this violation, to compare with the
        claimed one; None if the claim is not about noise, or if its curve is not Gaussian.
    """

    mu: float
    noise_multiplier: float | None = None


@dataclass(frozen=True)
class AsCurve:
    """The verdict on a claimed point if the Gaussian curve through the point had been claimed."""

    mu: float
    p_value: float
    is_contradicted: bool


@dataclass(frozen=True)
class AgainstAttacker:
    """Results of the curve tests against one attacker.

    Attributes:
      p_value: The smallest p-value of the tests against the attacker, weighted so that all tests of
        the claim together have the level of the verdict.
    """

    threat_model: str
    p_value: float
    is_contradicted: bool


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, and its basis.

    Attributes:
      outcome: Contradicted, consistent or inconclusive.
      basis: The basis of the outcome.
      reason: The reason for the outcome, the power of the audit and the next step, in sentences
        (sentences.py), one per line.
      claim: The claim.
      confidence: With at least this probability, no lower bound of a test exceeds the truth.
      num_tests: Number of tests; for a point, each has confidence 1 - (1 - confidence) / num_tests,
        or half of this level if the claim is also tested by its parts.
      epsilon_lower: The largest lower bound; 0 without one.
      method: Name of the method of the largest lower bound, or of a curve's test with the smallest
        p-value; None if no method applies to the scores.
      statistic: Name of the statistic of that bound or test; None without one, or if scores have no
        name.
      assumes: The assumptions of the bound, in words.
      p_value: The smallest 1 - confidence at which the claim would be contradicted; None if the
        canaries say nothing about the claim.
      power: Share of simulated audits of a mechanism with FACTOR times the claimed epsilon that
        contradict the claim; None if audits were not simulated, or if the basis is not `scores`.
      detectable_epsilon: The smallest true epsilon at the claim's delta at which ENOUGH_POWER of
        simulated audits contradict the claim; None without such an epsilon, or if audits were not
        simulated.
      canaries_needed: Approximate number of canaries that gives ENOUGH_POWER, for basis `parts` of
        included canaries; None if the number is not searched for, or if no number tried is enough.
      detectable: The smallest violation of a curve at which ENOUGH_POWER of simulated audits
        contradict the curve; None for a point, without such a violation, or if audits were not
        simulated.
      as_curve: The result for the Gaussian curve through a claimed point; None if the claim is a
        curve, or if the curve through the point is not tested.
      against: The results of a curve's tests by attacker, the strongest first; empty for a point,
        and if nothing was tested.
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
        """Epsilon of the simulated mechanism."""
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
        """The verdict written by `to_json`."""
        claim = claim_from_json(fields["claim"])
        num_tests = from_json(int, fields["num_looks"])
        return fields_from_json(cls, fields, claim=claim, num_tests=num_tests)
