"""The verdict on a run whose config states a claim."""

from fl_audit.accounting import NoisyRounds
from fl_audit.attacks.statistic import Statistic
from fl_audit.formats.run_folder import RunRecord
from fl_audit.mechanism_checks import Arrival
from fl_audit.report.checks import failed_checks
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.model import ChecksReport
from fl_audit.verdict import Claim, Verdict, after_checks, chosen_tests, reach_verdict
from fl_audit.verdict.chosen_tests import ChosenTests, is_about_sampling
from fl_audit.verdict.live import live_verdict


def run_verdict(run: FinishedRun, checks: ChecksReport, arrival: Arrival) -> Verdict | None:
    """The verdict on what the config claims; None where it claims nothing.

    Args:
      run: The finished run.
      checks: The checks of its mechanism.
      arrival: What became of the included canaries.
    """
    audit = run.config.audit
    if audit.claimed_epsilon is None:
        return None
    live = run.record.live
    if run.record.stopped_after is not None and live is not None:
        claim = Claim(audit.claimed_epsilon, run.record.delta)
        return live_verdict(claim, run.record, live, audit)
    chosen = chosen_tests(run.config, run.record.client_participations)
    scores = {s.name: run.scores[s.name].canary_scores() for s in run.statistics}
    verdict = reach_verdict(
        Claim(audit.claimed_epsilon, run.record.delta),
        chosen.on(scores, run.facts),
        _why_unfit(run.record, chosen),
        arrival=arrival,
        others=[run.scored(statistic) for statistic in _left_out(run, chosen)],
    )
    return after_checks(verdict, failed_checks(checks), checks.not_checked)


def _left_out(run: FinishedRun, chosen: ChosenTests) -> list[Statistic]:
    """The statistics that bear on the claim as much as the chosen ones, and were not chosen."""
    is_sampled = run.record.client_participations is None
    others = [s for s in run.statistics if s not in chosen.statistics]
    return [s for s in others if not is_sampled or is_about_sampling(s)]


def _why_unfit(record: RunRecord, chosen: ChosenTests) -> str | None:
    """Why the scores do not bear on the claim; None where they do."""
    is_sampled = record.client_participations is None
    if is_sampled and not all(map(is_about_sampling, chosen.statistics)):
        return (
            "the attacker knows in which rounds a client is online, and a claim may count on its "
            "sampling, which hides them"
        )
    return why_unfit(record)


def why_unfit(record: RunRecord | NoisyRounds) -> str | None:
    """Why a bound on a canary does not bound a client's epsilon; None where it does.

    The bound carries over where a canary takes part no more often than a client may, and where one
    draw decides about both. Where only the client's rounds are drawn, its claim may rely on the
    draw; the bound on a canary whose number of rounds is fixed does not.

    Args:
      record: What the run did, or the rounds of a run that is planned.
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
