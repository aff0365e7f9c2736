"""The verdict on a run whose config states a claim."""

import dataclasses
from collections.abc import Sequence

from fl_audit.accounting.analytical import NoisyRounds
from fl_audit.config import Audit
from fl_audit.formats.run_folder import RunRecord
from fl_audit.report.finished_run import FinishedRun
from fl_audit.verdict import (
    VALID_METHODS,
    Claim,
    Looks,
    Statistic,
    Verdict,
    reach_verdict,
)
from fl_audit.verdict.decision import Outcome


def run_verdict(run: FinishedRun, failed_checks: Sequence[str]) -> Verdict | None:
    """The verdict on what the config claims; None where it claims nothing.

    Args:
      run: that is finished.
      failed_checks: titles of the checks of its mechanism that failed. With one the claim is not
        called consistent: the canaries may have missed what the check found.
    """
    audit = run.config.audit
    if audit.claimed_epsilon is None:
        return None
    verdict = reach_verdict(
        Claim(audit.claimed_epsilon, run.record.delta), _looks(run, audit), why_unfit(run.record)
    )
    if not failed_checks or verdict.outcome is Outcome.CONTRADICTED:
        return verdict
    reason = (
        f"the mechanism is not as configured ({', '.join(failed_checks)}: see the checks); "
        f"of the canaries, {verdict.reason}"
    )
    return dataclasses.replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason)


def _looks(run: FinishedRun, audit: Audit) -> Looks:
    return Looks(
        statistics=[
            Statistic(
                s.name,
                run.scores[s.name].canary_scores(),
                s.null(run.facts).kind,
                run.record.dim,
            )
            for s in run.statistics
            if audit.verdict_statistic in ("all", s.name)
        ],
        confidence=audit.confidence,
        methods=VALID_METHODS if audit.verdict_method == "all" else (audit.verdict_method,),
    )


def why_unfit(record: RunRecord | NoisyRounds) -> str | None:
    """Why a bound on a canary does not bound a client's epsilon; None where it does.

    It does where a canary takes part no more often than a client may, and where one draw decides
    about both. Where only the client's rounds are drawn, its claim may count on that; the bound on
    a canary whose number of rounds is fixed does not.
    """
    canary, client = record.canary_participations, record.client_participations
    if canary is not None and client is not None:
        if canary <= client:
            return None
        return (
            f"an included canary took part in up to {canary} rounds and a client in at most "
            f"{client}: a bound for the canary is none for a client"
        )
    is_sampled = record.sampling_probability is not None or record.sample_size is not None
    if canary is None and client is None and is_sampled:
        return None
    return (
        "the rounds of canaries are drawn by another law than those of clients: a bound for a "
        "canary may be none for a client"
    )
