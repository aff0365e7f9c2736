"""The config table [audit]: confidence, attackers and claim of an audit."""

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fl_audit.config_tables.kinds import OpenUnitFloat, PositiveFloat, PositiveInt, Table
from fl_audit.errors import InputError

LEAST_CONFIDENCE = 0.5
"""Below this confidence a contradicting verdict may be more likely wrong than right."""


MOST_POINTS = 1_000
"""Largest number of points of a claimed privacy profile."""

LostCanaries = Literal["error", "warn"]
"""Whether canaries that do not reach the aggregates end training or cause a warning."""

_CLAIMS = ("claimed_epsilon", "claimed_mu", "claimed_rho", "claimed_profile", "claim")


def check_profile(points: Sequence[tuple[float, float]]) -> None:
    """Raises InputError for an invalid privacy profile of (epsilon, delta) pairs."""
    if not 1 <= len(points) <= MOST_POINTS:
        raise InputError(f"claimed profile must have 1 to {MOST_POINTS} points, got {len(points)}")
    for number, (epsilon, delta) in enumerate(points, start=1):
        if not (0 <= epsilon < math.inf and 0 <= delta <= 1):
            raise InputError(
                f"claimed profile, point {number}: needs an epsilon of at least 0 and a delta in "
                f"[0, 1], got epsilon {epsilon:g} and delta {delta:g}"
            )


class Audit(Table, frozen=True):
    """The parameters of the estimates, and the claim to test.

    Attributes:
      delta: Delta of epsilon; default: `claimed_delta`, else N^-1.1 for N real clients.
      confidence: Confidence of each lower bound, and of the verdict.
      threat_models: What attackers see (docs/threat_models.md); not by default: `checkpoints`,
        `window`, `secret_rounds`.
      release_every: Rounds between the models that `checkpoints` sees.
      window_first_round: First round of `window`, from 1.
      window_last_round: Last round of `window`.
      claimed_epsilon: Claimed epsilon of a client.
      claimed_mu: Claimed mu of Gaussian DP.
      claimed_rho: Claimed rho of zero-concentrated DP.
      claimed_profile: Claimed pairs of epsilon and delta.
      claim: `configured`: the configured noise; `none`: nothing is tested (docs/verdict.md).
      claimed_delta: Delta of the claim; default: `delta`, which it must equal.
      verdict_statistic: Statistic of the verdict, or `all`.
      verdict_method: Method of the verdict, or `all` valid methods.
      replay: Whether to replay the first round (docs/replay.md).
      stop_when_contradicted: Whether to stop when the claim is contradicted (docs/live_verdict.md).
      lost_canaries: Whether lost canaries end the run (`error`), or only `warn`.
    """

    delta: OpenUnitFloat | None = None
    confidence: OpenUnitFloat = 0.95
    threat_models: tuple[str, ...] = (
        "final",
        "final_and_initial",
        "all_iterates",
        "known_rounds",
    )
    release_every: PositiveInt | None = None
    window_first_round: PositiveInt | None = None
    window_last_round: PositiveInt | None = None
    claimed_epsilon: Annotated[float, Meta(gt=0, le=300)] | None = None
    claimed_mu: PositiveFloat | None = None
    claimed_rho: PositiveFloat | None = None
    claimed_profile: tuple[tuple[float, float], ...] | None = None
    claim: Literal["configured", "none"] | None = None
    claimed_delta: OpenUnitFloat | None = None
    verdict_statistic: str = "all"
    verdict_method: str = "all"
    replay: bool = False
    stop_when_contradicted: bool = False
    lost_canaries: LostCanaries = "error"

    def __post_init__(self) -> None:
        """Checks the keys of a claim, and sets `delta` to `claimed_delta` if that is stated.

        Threat models are checked only before a run, by `attacks.threat_models.check_threat_models`,
        not when the folder of a run is read.
        """
        claims = [key for key in _CLAIMS if getattr(self, key) is not None]
        if len(claims) > 1:
            raise ValueError(f"{' and '.join(claims)} exclude each other; state one claim")
        if not self.is_claimed:
            for key in ("claimed_delta", "verdict_statistic", "verdict_method"):
                if getattr(self, key) not in (None, "all"):
                    raise ValueError(
                        f"{key} needs a claim: claimed_epsilon, claimed_mu, claimed_rho, "
                        "claimed_profile or claim = 'configured'"
                    )
        elif self.confidence < LEAST_CONFIDENCE:
            raise ValueError(
                f"confidence must be at least {LEAST_CONFIDENCE} for a verdict on a claim"
            )
        if self.claimed_profile is not None:
            check_profile(self.claimed_profile)
        if self.claimed_epsilon is None and self.verdict_method != "all":
            raise ValueError(
                f"verdict_method {self.verdict_method!r} needs claimed_epsilon; any other claim is "
                "tested by all scores at once"
            )
        if self.stop_when_contradicted:
            self._check_live_verdict()
        if self.claimed_delta is None:
            return
        if self.delta not in (None, self.claimed_delta):
            raise ValueError(
                f"claimed_delta is {self.claimed_delta:g} and delta {self.delta:g}; they must be "
                "equal, as a bound at another delta says nothing about the claim: leave out one"
            )
        msgspec.structs.force_setattr(self, "delta", self.claimed_delta)

    @property
    def is_claimed(self) -> bool:
        """Whether a claim is stated, so that its verdict sets the exit status."""
        return any(getattr(self, key) not in (None, "none") for key in _CLAIMS)

    def _check_live_verdict(self) -> None:
        """Raises ValueError unless a claim is stated that the live test can decide."""
        if not self.is_claimed:
            raise ValueError("stop_when_contradicted needs a claim, such as claimed_epsilon")
        if "known_rounds" not in self.threat_models:
            raise ValueError("stop_when_contradicted needs 'known_rounds' in threat_models")
        for name in ("checkpoints", "window"):
            if name in self.threat_models:
                raise ValueError(
                    f"stop_when_contradicted may end a run before '{name}' has seen anything; "
                    "leave out one of them"
                )
        if self.verdict_statistic not in ("all", "own_rounds"):
            raise ValueError(
                "stop_when_contradicted tests own_rounds; verdict_statistic must be 'own_rounds' "
                f"or 'all', got {self.verdict_statistic!r}"
            )
        if self.verdict_method not in ("all", "threshold_valid"):
            raise ValueError(
                "stop_when_contradicted makes the assumption of threshold_valid; verdict_method "
                f"must be 'threshold_valid' or 'all', got {self.verdict_method!r}"
            )
