"""The config table [audit]: what a run is audited for."""

from typing import Annotated

import msgspec
from msgspec import Meta

from fl_audit.kinds.table import OpenUnitFloat, PositiveInt, Table

LEAST_CONFIDENCE = 0.5
"""The confidence below which a verdict that contradicts may more likely be wrong than right."""


class Audit(Table, frozen=True):
    """The parameters of the estimates, and the claim that they are compared with.

    Attributes:
      delta: The delta of (epsilon, delta)-DP; by default `claimed_delta`, else N^-1.1 for N real
        clients (Andrew et al. section 5).
      confidence: The confidence of each lower bound, and of the verdict as a whole.
      threat_models: The names of what attackers see: `final`, the final model alone;
        `final_and_initial`, both models; `all_iterates`, every round's noised aggregate;
        `known_rounds`, the same, and who is online when; `checkpoints`, a model every
        `release_every` rounds; `window`, the noised aggregates of some rounds.
      release_every: The number of rounds between the models that `checkpoints` sees: the initial
        one, the one after so many rounds and so on, and the final one. How often a run saves its
        own state is `log.checkpoint_every`.
      window_first_round: The first round that `window` sees; rounds count from 1.
      window_last_round: The last round that `window` sees.
      claimed_epsilon: The epsilon that the run is said to guarantee to a client; without it there
        is no verdict.
      claimed_delta: The delta of the claim; by default `delta`. A bound at another delta says
        nothing about the claim, so the two may not differ.
      verdict_statistic: The only statistic that the verdict uses, or `all` for all of the run's.
      verdict_method: The only method that the verdict uses, or `all` for all methods that hold for
        any mechanism.
      replay: Whether the first round is replayed before it is trained, as a check of the mechanism
        (docs/replay.md).
      stop_when_contradicted: Whether the claim is tested after every round too, and a run that
        contradicts it stops there.
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
    claimed_delta: OpenUnitFloat | None = None
    verdict_statistic: str = "all"
    verdict_method: str = "all"
    replay: bool = False
    stop_when_contradicted: bool = False

    def __post_init__(self) -> None:
        """Checks the keys of a claim, and settles on one delta.

        Whether the threat models are known and have their keys is checked by
        `check_threat_models`, which a run calls and a reader of its folder does not.
        """
        if self.claimed_epsilon is None:
            for key in ("claimed_delta", "verdict_statistic", "verdict_method"):
                if getattr(self, key) not in (None, "all"):
                    raise ValueError(f"{key} needs claimed_epsilon")
        elif self.confidence < LEAST_CONFIDENCE:
            raise ValueError(
                f"confidence must be at least {LEAST_CONFIDENCE} for a verdict on claimed_epsilon"
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

    def _check_live_verdict(self) -> None:
        """Checks that there is a claim, and that the verdict may use what tests it live."""
        if self.claimed_epsilon is None:
            raise ValueError("stop_when_contradicted needs claimed_epsilon")
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
                "stop_when_contradicted looks at own_rounds, which verdict_statistic "
                f"{self.verdict_statistic!r} leaves out"
            )
        if self.verdict_method not in ("all", "threshold_valid"):
            raise ValueError(
                "stop_when_contradicted assumes what threshold_valid does, which verdict_method "
                f"{self.verdict_method!r} leaves out"
            )
