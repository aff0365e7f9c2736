"""The checks of the mechanism in the report, and as rows of the page."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fl_audit.attacks.seen_log import SeenLog
from fl_audit.checks import (
    FALSE_ALARM,
    Check,
    Finding,
    RunAggregates,
    check_aggregates,
    check_rounds,
    read_replay,
    why_not_checked,
)
from fl_audit.errors import InputError
from fl_audit.number_words import significant
from fl_audit.report.audited_folder import AuditedFolder
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.model import CheckReport, ChecksReport


@dataclass(frozen=True)
class _CheckWords:
    """What a page says of one check.

    Attributes:
      title: A few words for a heading.
      meaning: What a correct mechanism does, in a sentence.
      found: The worst finding, in words.
    """

    title: str
    meaning: str
    found: Callable[[CheckReport], str]


def _at(words: str) -> Callable[[CheckReport], str]:
    """Words on the worst ratio, with the variable and the round where it is."""

    def found(check: CheckReport) -> str:
        where = "whole model" if check.variable is None else f"variable {check.variable}"
        when = "all rounds together" if check.round is None else f"round {check.round}"
        seen = "" if check.detectable_ratio is None else f"; {_detectable(check.detectable_ratio)}"
        return f"{significant(check.ratio)} {words} ({where}, {when}){seen}"

    return found


def _detectable(noise: float) -> str:
    """What a check of the noise's length would have seen, rounded down."""
    share = math.floor(100 * noise) / 100
    if share == 0:
        return "that there is none would not have been seen"
    return f"noise {share:g} times as large would have been seen"


def _correlation(check: CheckReport) -> str:
    return f"correlation {significant(check.ratio)} at the strongest lag"


def _scarcity(check: CheckReport) -> str:
    return f"{significant(check.ratio)} times as many short coordinates as chance leaves at most"


def _outflow(check: CheckReport) -> str:
    if check.round is None:
        return "nothing"
    return f"not zero in round {check.round} (variable {check.variable})"


def _repetition(check: CheckReport) -> str:
    return "none twice" if check.round is None else f"twice in round {check.round}"


def _unknown(check: CheckReport) -> str:
    """What is said of a check of another version."""
    return f"ratio {significant(check.ratio)}"


_OF_NOISE = _at("times as long as the noise is on average")

_WORDS = {
    "enough_noise": _CheckWords(
        "Enough noise", "No variable of an aggregate is shorter than its noise.", _OF_NOISE
    ),
    "noise_everywhere": _CheckWords(
        "Noise everywhere",
        "Not more coordinates are short in all rounds together than with noise on each.",
        _scarcity,
    ),
    "frozen_variables": _CheckWords(
        "Frozen variables", "Nothing comes out of a variable that is not trained.", _outflow
    ),
    "fresh_noise": _CheckWords(
        "Fresh noise",
        "Nor is the part of it that is at right angles to the aggregate of the round before.",
        _OF_NOISE,
    ),
    "bounded_length": _CheckWords(
        "Bounded length",
        "None is longer than as many clipped updates and their noise can be.",
        _at("times the greatest length to be expected"),
    ),
    "no_echo": _CheckWords(
        "No echo",
        "In the first round no stretch of coordinates repeats another: their noise is independent.",
        _correlation,
    ),
    "once_a_round": _CheckWords(
        "Once a round", "No canary takes part twice in a round.", _repetition
    ),
}


_REPLAY = "replay_"
"""The start of the names of what a replay found."""


def title_of_check(name: str) -> str:
    """The title of a check for a heading; the name itself where it is unknown."""
    if name.startswith(_REPLAY):
        return f"Replay: {name.removeprefix(_REPLAY).replace('_', ' ')}"
    return _WORDS[name].title if name in _WORDS else name


def folder_checks(folder: AuditedFolder) -> ChecksReport | None:
    """The checks of the mechanism of a log or a run; None for a folder of scores alone.

    Raises:
      InputError: A file of a log is damaged.
    """
    if folder.log is not None:
        return _log_checks(folder.log)
    try:
        return None if folder.run is None else checks_report(folder.run)
    except InputError:  # of a run of which only scores were kept
        return None


def _log_checks(log: SeenLog) -> ChecksReport:
    for _ in log.cosines.rows():  # which reads and measures aggregates, once
        pass
    aggregates = log.cosines.measured_aggregates()
    made = [] if aggregates is None else check_aggregates(aggregates)
    return ChecksReport(
        false_alarm=FALSE_ALARM,
        not_checked="; ".join(_left_out(log.num_rounds, aggregates)) or None,
        results=tuple(map(_check, made)),
    )


def _left_out(num_rounds: int, aggregates: RunAggregates | None) -> Iterator[str]:
    """Why a log's aggregates, or some of them, are not checked."""
    if aggregates is None:
        yield "how large the noise on a coordinate should be is not known; hand over noise_stddev"
        return
    if len(aggregates.stddev) < num_rounds:
        missing = num_rounds - len(aggregates.stddev)
        yield f"how large the noise should be is not known in {missing} of {num_rounds} rounds"
    if np.isnan(aggregates.norm_bound).any():
        yield "how long aggregates may be is not known; hand over norm_bound"


def checks_report(run: FinishedRun) -> ChecksReport:
    """Runs the checks of the mechanism on a run."""
    of_aggregates = [] if run.aggregates is None else check_aggregates(run.aggregates)
    checks = [*of_aggregates, check_rounds(run.canary_rounds)]
    replayed = read_replay(run.folder.replay)
    return ChecksReport(
        false_alarm=FALSE_ALARM,
        not_checked=why_not_checked(run.config.mechanism),
        results=(*map(_check, checks), *map(_replayed, replayed)),
    )


def _replayed(finding: Finding) -> CheckReport:
    return CheckReport(
        name=f"{_REPLAY}{finding.name}",
        meaning=f"{finding.expected[0].upper()}{finding.expected[1:]}.",
        passed=finding.passed,
        p_value=math.exp(finding.log_p),
        num_tests=1,
        round=1,
        variable=finding.variable,
        ratio=finding.ratio,
        measured=finding.measured,
        told=finding.told,
        detectable_ratio=finding.detectable_ratio,
    )


def _check(check: Check) -> CheckReport:
    return CheckReport(
        name=check.name,
        meaning=_WORDS[check.name].meaning,
        passed=check.passed,
        p_value=check.p_value,
        num_tests=check.num_tests,
        round=check.round,
        variable=check.variable,
        ratio=check.ratio,
        detectable_ratio=check.detectable_ratio,
    )


def failed_checks(checks: ChecksReport) -> list[str]:
    """The titles of the checks that failed."""
    return [title_of_check(check.name) for check in checks.results if not check.passed]


def checks_words(checks: ChecksReport) -> str:
    """Whether the checks passed, in a few words."""
    if failed := failed_checks(checks):
        return f"FAILED: {', '.join(failed)} (the mechanism is not as configured)"
    told = sum(check.told for check in checks.results)
    passed = f"passed, {told} of {len(checks.results)}" if checks.results else "not made"
    noise = [
        check.detectable_ratio
        for check in checks.results
        if check.detectable_ratio is not None and not check.name.startswith(_REPLAY)
    ]
    what = "not all checked" if noise else "aggregates not checked"
    remarks = [
        *([f"{untold} could not be told"] if (untold := len(checks.results) - told) else []),
        *([_detectable(max(noise))] if noise else []),
        *([f"{what}: {checks.not_checked}"] if checks.not_checked is not None else []),
    ]
    return f"{passed} ({'; '.join(remarks)})" if remarks else passed


@dataclass(frozen=True)
class CheckRow:
    """One check on the page.

    Attributes:
      title: Title of the check.
      meaning: What a correct mechanism does, in a sentence.
      passed: Whether the mechanism passed the check.
      told: Whether the check could be made.
      found: The worst finding, with its round and variable.
      p_value: Upper bound on the chance that a correct mechanism looks as bad.
    """

    title: str
    meaning: str
    passed: bool
    told: bool
    found: str
    p_value: str


def check_rows(checks: ChecksReport) -> list[CheckRow]:
    """A row per check."""
    return [
        CheckRow(
            title=title_of_check(check.name),
            meaning=check.meaning,
            passed=check.passed,
            told=check.told,
            found=_found(check),
            p_value=_p_value(check.p_value),
        )
        for check in checks.results
    ]


def _found(check: CheckReport) -> str:
    if check.measured is not None:
        return check.measured
    if check.num_tests == 0:
        return "nothing to look at"
    return _WORDS[check.name].found(check) if check.name in _WORDS else _unknown(check)


def _p_value(value: float) -> str:
    return significant(value, 2) if value >= 1e-300 else "10⁻³⁰⁰"
