"""The verdict on a run whose config states a claim."""

import dataclasses

from fl_audit.attacks.statistic import Statistic
from fl_audit.checks import Arrival
from fl_audit.report.checks import failed_checks
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.model import ChecksReport
from fl_audit.verdict import Claim, Verdict, after_checks, chosen_tests, reach_verdict
from fl_audit.verdict.bearing import KNOWS_ROUNDS, Bearing, bearing_of_run
from fl_audit.verdict.chosen_tests import ChosenTests
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
        _bearing(run, chosen),
        arrival=arrival,
        others=[run.scored(statistic) for statistic in _left_out(run, chosen)],
    )
    return after_checks(verdict, failed_checks(checks), checks.not_checked)


def _left_out(run: FinishedRun, chosen: ChosenTests) -> list[Statistic]:
    """The statistics that bear on the claim as much as the chosen ones, and were not chosen."""
    bearing = bearing_of_run(run.record, run.rounds_of_canaries, run.included)
    return [s for s in run.statistics if s not in chosen.statistics and bearing.has_say(s.name)]


def _bearing(run: FinishedRun, chosen: ChosenTests) -> Bearing:
    """How the canaries bear on the claim; unfit where all tested attackers know who is sampled."""
    bearing = bearing_of_run(run.record, run.rounds_of_canaries, run.included)
    if all(bearing.has_say(statistic.name) for statistic in chosen.statistics):
        return bearing
    return dataclasses.replace(bearing, unfit=KNOWS_ROUNDS)
