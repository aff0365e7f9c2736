"""The verdict of the test after every round."""

from fl_audit.config_tables.audit import Audit
from fl_audit.formats.run_record import LiveRecord, RunRecord
from fl_audit.verdict.claims import Claim, CurveClaim
from fl_audit.verdict.record import Outcome, Verdict
from fl_audit.verdict.sentences import stopped_live

LIVE_ASSUMES = (
    "Canaries' scores are independent given inclusion, and excluded canaries' scores in their own "
    "rounds have the closed-form null distribution, which a test does not reject."
)

_SMALLEST_P_VALUE = 1e-300


def shared_confidence(audit: Audit) -> float:
    """The confidence of the live test, and that of all tests at the end together.

    A run that stops when it is contradicted is tested in both ways. Each has half of the level, so
    that both hold together at the audit's confidence (Bonferroni).
    """
    share = 0.5 if audit.stop_when_contradicted else 1.0
    return 1 - share * (1 - audit.confidence)


def live_verdict(
    claim: Claim | CurveClaim, record: RunRecord, live: LiveRecord, audit: Audit
) -> Verdict:
    """The verdict on a run that stopped since its claim was contradicted."""
    confidence = shared_confidence(audit)
    p_value = max(live.claim_p_value or 0.0, _SMALLEST_P_VALUE)
    rounds = f"{record.rounds_done} of {record.rounds}"
    reason = stopped_live(claim, rounds, live.claim_epsilon, confidence, p_value)
    return Verdict(
        outcome=Outcome.CONTRADICTED,
        reason=reason,
        claim=claim,
        confidence=confidence,
        num_tests=1,
        epsilon_lower=live.claim_epsilon,
        method="live",
        statistic="own_rounds",
        assumes=LIVE_ASSUMES,
        p_value=p_value,
    )
