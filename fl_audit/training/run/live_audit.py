"""What own-round scores prove while a run trains, and whether its claim is contradicted."""

from typing import Self

from fl_audit.attacks.audit_table import Audit
from fl_audit.attacks.live_test import LiveCanaries, LiveTest, ScoredRounds, why_no_live_test
from fl_audit.formats.folders import LiveRecord
from fl_audit.training.attackers.context import TrainingContext
from fl_audit.verdict.live import shared_confidence


class LiveAudit:
    """Tests the rounds of a run one by one, or does nothing where that is not possible.

    It reads what the log of cosines holds, so that a resumed run has the same numbers.
    """

    def __init__(self, audit: Audit, test: LiveTest | None, rounds: ScoredRounds | None) -> None:
        """Starts with a test that has taken in the rounds so far.

        Args:
          audit: The table [audit] of the config.
          test: The test; None where rounds cannot be tested.
          rounds: The log of the rounds; None likewise.
        """
        self._audit = audit
        self._test = test
        self._rounds = rounds

    @classmethod
    def of(cls, context: TrainingContext) -> Self:
        """The live audit of a run, continued after its completed rounds.

        Args:
          context: What attackers need of the run.

        Raises:
          InputError: A log of completed rounds is missing or damaged.
        """
        run, audit, family = context.run, context.audit, context.family
        why_not = why_no_live_test(run.own_rounds, family)
        if family is None or why_not is not None or "known_rounds" not in audit.threat_models:
            return cls(audit, None, None)
        canaries = LiveCanaries(run.included, run.own_rounds, family, run.task.classifier.dim)
        test = LiveTest(canaries, run.delta, audit.claimed_epsilon)
        test.add(context.round_cosines, range(context.completed))
        return cls(audit, test, context.round_cosines)

    def see_round(self, index: int) -> None:
        """Takes in a round, counted from 0, that attackers have scored."""
        if self._test is not None and self._rounds is not None:
            self._test.add(self._rounds, range(index, index + 1))

    @property
    def epsilon(self) -> float | None:
        """The epsilon proven so far at the audit's confidence; None where nothing is tested."""
        return None if self._test is None else self._test.epsilon(self._audit.confidence)

    @property
    def must_stop(self) -> bool:
        """Whether the rounds so far contradict the claim of a run that then stops."""
        return self.contradicted_at > 0

    @property
    def contradicted_at(self) -> float:
        """The epsilon by which the rounds so far contradict the claim of a run that then stops."""
        return self._claim_epsilon if self._audit.stop_when_contradicted else 0.0

    @property
    def record(self) -> LiveRecord | None:
        """What is proven; None where nothing is tested."""
        claim = self._audit.claimed_epsilon
        if self._test is None:
            return None
        return LiveRecord(
            epsilon=self._test.epsilon(self._audit.confidence),
            claim_p_value=None if claim is None else self._test.p_value(claim),
            claim_epsilon=self._claim_epsilon,
        )

    @property
    def _claim_epsilon(self) -> float:
        """What the test of the claim proves, at least the claim; 0 where it stands."""
        claim = self._audit.claimed_epsilon
        if self._test is None or claim is None:
            return 0.0
        return self._test.epsilon(shared_confidence(self._audit), at_least=claim)
