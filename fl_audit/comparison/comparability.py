"""Warnings, in words, about differences that keep runs from being compared."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fl_audit.attacks.statistics import title_of
from fl_audit.comparison.reported_run import ReportedRun
from fl_audit.comparison.settings import value_text
from fl_audit.number_words import significant
from fl_audit.report.checks import failed_checks

_SAME_COHORT = 1.1
"""Cohorts that differ by at most this factor may differ by the coins of their canaries alone."""


@dataclass(frozen=True)
class _MustAgree:
    """A fact about a run that comparable runs have in common.

    Attributes:
      name: Name of the fact.
      of: A function that returns the fact about one run; None where it is not known.
      consequence: What follows from a difference, in words.
    """

    name: str
    of: Callable[[ReportedRun], object]
    consequence: str


_MUST_AGREE = (
    _MustAgree(
        "task",
        lambda run: run.record and run.record.task,
        "accuracies of different tasks do not compare, and estimates only as those of "
        "different trainings",
    ),
    _MustAgree(
        "measure of accuracy",
        lambda run: run.record and run.record.accuracy_description,
        "accuracies counted differently do not compare",
    ),
    _MustAgree(
        "number of parameters",
        lambda run: run.report.dim,
        "the models differ, so that a difference in ε is not due to participation and noise alone",
    ),
    _MustAgree(
        "δ",
        lambda run: run.report.delta,
        "ε at another δ is another quantity; "
        "`fl-audit estimate` recomputes it from the score files",
    ),
    _MustAgree(
        "confidence of bounds",
        lambda run: run.report.confidence,
        "a bound at a higher confidence is looser",
    ),
    _MustAgree(
        "number of canaries",
        lambda run: run.report.num_canaries or None,  # without any it is about accuracy alone
        "with more canaries a bound comes closer to the truth, so that their number alone can "
        "raise it",
    ),
    _MustAgree(
        "neighbours of the analytical ε",
        lambda run: run.trained and run.trained.analytical.neighbours,
        "the analytical ε promise different things",
    ),
    _MustAgree(
        "fl-audit version",
        lambda run: run.report.fl_audit_version,
        "a method may have changed in between",
    ),
)


def comparability_warnings(runs: Sequence[ReportedRun]) -> list[str]:
    """A sentence for each fact that the runs should have in common but do not."""
    audited = [run for run in runs if run.report.num_canaries]
    return [
        *_other_systems(runs),
        *_without_canaries(runs),
        *(sentence for fact in _MUST_AGREE for sentence in _disagreement(fact, runs)),
        *_cohorts(runs),
        *_left_out_statistics(audited),
        *_failed_checks(runs),
        *_copies(audited),
    ]


def _other_systems(runs: Sequence[ReportedRun]) -> Iterable[str]:
    others = [str(run.folder) for run in runs if run.trained is None]
    if others:
        yield (
            f"Scores of another system, whose accuracy, accounting and config are not known: "
            f"{', '.join(others)}."
        )


def _without_canaries(runs: Sequence[ReportedRun]) -> Iterable[str]:
    baselines = [str(run.folder) for run in runs if not run.report.num_canaries]
    if baselines:
        yield f"Without canaries, and so for accuracy alone: {', '.join(baselines)}."


def _disagreement(fact: _MustAgree, runs: Sequence[ReportedRun]) -> Iterable[str]:
    known = (fact.of(run) for run in runs)
    values = dict.fromkeys(value_text(value) for value in known if value is not None)
    if len(values) > 1:
        listed = ", ".join(f"“{value}”" for value in values)
        yield f"The runs differ in their {fact.name}, {listed}: {fact.consequence}."


def _cohorts(runs: Sequence[ReportedRun]) -> Iterable[str]:
    sizes = [run.record.denominator for run in runs if run.record is not None]
    if sizes and max(sizes) > _SAME_COHORT * min(sizes):
        yield (
            f"Cohorts hold from {significant(min(sizes))} to {significant(max(sizes))} clients and "
            "canaries a round. A canary sends a random direction, which can cost accuracy: where "
            "cohorts differ by their canaries, a difference in accuracy may be the audit's own."
        )


def _left_out_statistics(runs: Sequence[ReportedRun]) -> Iterable[str]:
    """A sentence for each group of statistics that the same runs lack."""
    titles: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(name for run in runs for name in run.report.statistics):
        lacking = tuple(str(run.folder) for run in runs if name not in run.report.statistics)
        titles.setdefault(lacking, []).append(f"“{title_of(name)}”")
    titles.pop((), None)
    for lacking, left_out in titles.items():
        which = f"statistic {left_out[0]} is"
        if len(left_out) > 1:
            which = f"statistics {', '.join(left_out)} are"
        yield f"The {which} missing in {', '.join(lacking)}."


def _failed_checks(runs: Sequence[ReportedRun]) -> Iterable[str]:
    for run in runs:
        if run.trained is not None and (failed := failed_checks(run.trained.checks)):
            yield (
                f"The mechanism of {run.folder} is not as configured: {', '.join(failed)} failed. "
                "Its analytical ε is that of the config, not of what ran."
            )


def _copies(runs: Sequence[ReportedRun]) -> Iterable[str]:
    """A sentence for each run with the numbers of another: a copy, or its seed without noise."""
    seen: list[ReportedRun] = []
    for run in runs:
        twin = next((other for other in seen if _numbers(other) == _numbers(run)), None)
        if twin is not None:
            yield (
                f"{twin.folder} and {run.folder} hold the same numbers: they are no independent "
                "repetitions."
            )
        seen.append(run)


def _numbers(run: ReportedRun) -> dict[str, list[tuple[object, ...]]]:
    """The numbers that each method found, by statistic."""
    return {
        name: [(made.method, made.epsilon, made.lower, made.upper) for made in found.estimates]
        for name, found in run.report.statistics.items()
    }
