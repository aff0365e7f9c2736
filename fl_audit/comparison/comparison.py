"""The comparison of finished runs: settings side by side, warnings, and the Pareto front."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.sampling import ADD_OR_REMOVE, ZERO_OUT
from fl_audit.array_types import FloatArray
from fl_audit.attacks.logs import Progress
from fl_audit.attacks.threat_models import STATISTICS, title_of
from fl_audit.comparison.reported_run import PARTIES, Party, ReportedRun, read_reported_runs
from fl_audit.comparison.settings import Setting, Spread, group_by_setting, value_text
from fl_audit.errors import InputError
from fl_audit.estimators.result import Record, data_frame
from fl_audit.json_records import to_json
from fl_audit.number_words import significant
from fl_audit.report.checks import failed_checks
from fl_audit.report.report import StatisticReport

SHOWN_METHODS = ("threshold_valid", "one_run_valid", "shift_fit")
"""Methods of the tables that are shown first: two valid bounds, and an estimate with interval."""

FRONT_METHOD = "shift_fit"
"""The method of the privacy-accuracy plots. The number of canaries limits valid bounds that use an
empirical null: all settings with much leakage reach this limit, so that only an estimate can order
such settings.
"""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Finished runs side by side.

    Attributes:
      runs: The runs in the order in which their folders were given.
      settings: The runs grouped by setting, in the order of display.
      differing: The config keys that differ between settings.
      warnings: Reasons why runs are not comparable, in sentences.
    """

    runs: tuple[ReportedRun, ...]
    settings: tuple[Setting, ...]
    differing: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics of all runs, those of this package (`STATISTICS`) first."""
        names = dict.fromkeys(name for run in self.runs for name in run.report.statistics)
        known = [name for name in STATISTICS if name in names]
        return tuple(dict.fromkeys([*known, *names]))

    def results(self, statistic: str) -> list[StatisticReport]:
        """The results on a statistic, of the runs that have it."""
        reports = (run.report.statistics for run in self.runs)
        return [of_run[statistic] for of_run in reports if statistic in of_run]

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods that any run used on any statistic."""
        return tuple(
            dict.fromkeys(
                estimate.method
                for run in self.runs
                for statistic in run.report.statistics.values()
                for estimate in statistic.estimates
            )
        )

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of the settings: what distinguishes them except for their noise."""
        return tuple(dict.fromkeys(setting.pattern for setting in self.settings))

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """The known noise multipliers of the settings, ascending."""
        known = {setting.noise_multiplier for setting in self.settings} - {None}
        return tuple(sorted(noise for noise in known if noise is not None))

    def front(self, statistic: str, method: str) -> tuple[Setting, ...]:
        """The settings that no other dominates in accuracy and one method's epsilon, beyond noise.

        Epsilons are compared by their intervals, or by their ranges over runs if the method has no
        interval (`pareto_front`).
        """
        ranges = [
            setting.interval(statistic, method) or _range(setting.epsilon(statistic, method))
            for setting in self.settings
        ]
        return self._front(ranges)

    def analytical_front(self, party: Party) -> tuple[Setting, ...]:
        """The Pareto front of accuracy and the upper bound from accounting for one party."""
        return self._front([_range(setting.guarantee(party)) for setting in self.settings])

    def records(self, folder: Path | None = None) -> list[Record]:
        """A row per run, statistic and method, for `pandas.DataFrame`.

        A run without canaries, included for its accuracy, has one row without a method.

        Args:
          folder: The parent folder from which runs' folders are named; None keeps the given names.
        """
        labels = {run: setting.label for setting in self.settings for run in setting.runs}
        rows: list[Record] = []
        for run in self.runs:
            place = run.folder if folder is None else run.folder.relative_to(folder)
            keys = {key: _cell(run.config.get(key)) for key in ("seed", *self.differing)}
            start = {"run": str(place), "setting": labels[run]} | keys | _facts(run)
            records = run.report.records() or [dict.fromkeys(_WITHOUT_CANARIES)]
            rows += [start | row for row in records]
        return rows

    def to_pandas(self) -> Any:
        """The rows of `records` as a `pandas.DataFrame`.

        Raises:
          InputError: pandas is not installed.
        """
        return data_frame(self.records())

    def _front(self, ranges: Sequence[tuple[float, float] | None]) -> tuple[Setting, ...]:
        """The Pareto front, by ranges of epsilon and mean accuracy, of settings that have both."""
        known = [
            (setting, *ends, setting.accuracy.mean)
            for setting, ends in zip(self.settings, ranges, strict=True)
            if ends is not None and setting.accuracy is not None
        ]
        numbers = np.array([row[1:] for row in known]).reshape(-1, 3)
        is_on_front = pareto_front(*numbers.T)
        return tuple(row[0] for row, is_on in zip(known, is_on_front, strict=True) if is_on)


_WITHOUT_CANARIES = ("statistic", "threat_model", "method", "kind", "epsilon", "lower", "upper")
"""Columns that are empty in the row of a run without canaries."""


def _cell(value: object) -> object:
    """A config value as one cell; lists become text."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _facts(run: ReportedRun) -> Record:
    """The facts of a run other than its estimates, by column; unknown facts are None."""
    record = run.record
    return {
        "noise_multiplier": None if record is None else record.release.noise.noise_multiplier,
        "rounds": run.report.num_rounds if record is None else record.rounds_done,
        "presentations": run.participations,
        "num_canaries": run.report.num_canaries,
        "accuracy": None if record is None else record.accuracy,
        "accounting_client": run.guarantee("client"),
        "accounting_canary": run.guarantee("canary"),
    }


def _range(spread: Spread | None) -> tuple[float, float] | None:
    return None if spread is None else (spread.smallest, spread.largest)


def compare(
    folders: Sequence[Path], delta: float | None = None, progress: Progress = iter
) -> Comparison:
    """Compares finished runs, and scores of other systems.

    Args:
      folders: The folders of runs, of logs, and of other scores, at least two.
      delta: The delta for folders without a report; None for the delta that all runs share.
      progress: Wraps the iteration over the files of aggregates that are scored.

    Raises:
      InputError: There are fewer than two folders; a folder is given twice, or has no finished run,
        log or scores; or a folder has no report, while `delta` is None and runs share no delta.
    """
    if len(folders) < 2:
        raise InputError(f"compare needs at least two run folders, got {len(folders)}")
    return comparison_of(read_reported_runs(folders, delta, progress))


def comparison_of(runs: Sequence[ReportedRun]) -> Comparison:
    """Compares runs that were already read; a single run gives a table."""
    settings = tuple(group_by_setting(runs))
    return Comparison(
        runs=tuple(runs),
        settings=settings,
        differing=tuple(dict.fromkeys(key for s in settings for key in s.keys)),
        warnings=tuple(comparability_warnings(runs)),
    )


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as one JSON object with each run's report; infinity is the word "inf"."""
    return {
        "differing_keys": list(comparison.differing),
        "warnings": list(comparison.warnings),
        "settings": [_setting_json(comparison, setting) for setting in comparison.settings],
        "pareto": {
            "by_statistic": {
                statistic: {
                    method: [s.label for s in comparison.front(statistic, method)]
                    for method in comparison.methods
                }
                for statistic in comparison.statistics
            },
            "analytical": {
                party: [s.label for s in comparison.analytical_front(party)] for party in PARTIES
            },
        },
        "runs": [
            {
                "folder": str(run.folder),
                "setting": next(s.label for s in comparison.settings if run in s.runs),
                "report": dict(run.report_json),
            }
            for run in comparison.runs
        ],
    }


def _setting_json(comparison: Comparison, setting: Setting) -> dict[str, Any]:
    return {
        "label": setting.label,
        "keys": dict(setting.keys),
        "noise_multiplier": setting.noise_multiplier,
        "folders": [str(run.folder) for run in setting.runs],
        "presentations": to_json(setting.participations),
        "accuracy": to_json(setting.accuracy),
        "analytical": {party: to_json(setting.guarantee(party)) for party in PARTIES},
        "statistics": {
            statistic: {
                method: to_json(setting.epsilon(statistic, method)) for method in comparison.methods
            }
            for statistic in comparison.statistics
        },
    }


_SAME_COHORT = 1.1
"""Cohort sizes within this factor may differ by their canaries' coins alone."""


@dataclass(frozen=True)
class _MustAgree:
    """A fact that comparable runs must share.

    Attributes:
      value: Gives the fact about a run; None if unknown.
      consequence: What follows if runs differ in the fact, in words.
    """

    name: str
    value: Callable[[ReportedRun], object]
    consequence: str


def _neighbours(run: ReportedRun) -> str | None:
    """The neighbouring relation, with "add or remove one" as "zero-out"."""
    analytical = run.report.analytical
    neighbours = None if analytical is None else analytical.neighbours
    return ZERO_OUT if neighbours == ADD_OR_REMOVE else neighbours


_MUST_AGREE = (
    _MustAgree(
        "task",
        lambda run: run.record and run.record.task,
        "accuracies on different tasks are not comparable, and estimates are of different "
        "trainings",
    ),
    _MustAgree(
        "measure of accuracy",
        lambda run: run.record and run.record.accuracy_description,
        "accuracies counted differently are not comparable",
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
        lambda run: (
            run.report.num_canaries or None
        ),  # a run without canaries is compared by accuracy alone
        "with more canaries a bound comes closer to the truth, so that their number alone can "
        "raise it",
    ),
    _MustAgree(
        "neighbouring relation",
        _neighbours,
        "upper bounds from accounting for different relations are not comparable",
    ),
    _MustAgree(
        "fl-audit version",
        lambda run: run.report.fl_audit_version,
        "a method may have changed between versions",
    ),
)


def comparability_warnings(runs: Sequence[ReportedRun]) -> list[str]:
    """Reasons why the runs may not be comparable, a sentence each."""
    audited = [run for run in runs if run.report.num_canaries]
    return [
        *_other_systems(runs),
        *_without_canaries(runs),
        *(sentence for fact in _MUST_AGREE for sentence in _disagreement(fact, runs)),
        *_cohorts(runs),
        *_left_out_statistics(audited),
        *_failed_checks(runs),
        *_lost_canaries(runs),
        *_unscored_rounds(runs),
        *_copies(audited),
    ]


def _other_systems(runs: Sequence[ReportedRun]) -> Iterable[str]:
    others = [run for run in runs if run.record is None]
    alone = [str(run.folder) for run in others if run.report.analytical is None]
    accounted = [str(run.folder) for run in others if run.report.analytical is not None]
    if alone:
        yield (
            "Scores of another system, whose accuracy, accounting and config are not known: "
            f"{', '.join(alone)}."
        )
    if accounted:
        yield (
            "Scores of another system, whose accuracy and config are not known, and whose "
            "accounting is for the noise and rounds that its log states: "
            f"{', '.join(accounted)}."
        )


def _without_canaries(runs: Sequence[ReportedRun]) -> Iterable[str]:
    baselines = [str(run.folder) for run in runs if not run.report.num_canaries]
    if baselines:
        yield f"Without canaries, so compared by accuracy alone: {', '.join(baselines)}."


def _disagreement(fact: _MustAgree, runs: Sequence[ReportedRun]) -> Iterable[str]:
    known = (fact.value(run) for run in runs)
    values = dict.fromkeys(value_text(value) for value in known if value is not None)
    if len(values) > 1:
        listed = ", ".join(f"“{value}”" for value in values)
        yield f"The runs differ in their {fact.name}, {listed}: {fact.consequence}."


def _cohorts(runs: Sequence[ReportedRun]) -> Iterable[str]:
    sizes = [run.record.release.denominator.expected for run in runs if run.record is not None]
    if sizes and max(sizes) > _SAME_COHORT * min(sizes):
        yield (
            f"Cohorts hold from {significant(min(sizes))} to {significant(max(sizes))} clients and "
            "canaries a round. A canary sends a random direction, which can cost accuracy: where "
            "cohorts differ by their canaries, a difference in accuracy may be the audit's own."
        )


def _left_out_statistics(runs: Sequence[ReportedRun]) -> Iterable[str]:
    """A sentence for each group of statistics missing in the same runs."""
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
        checks, how = run.report.checks, "stated" if run.record is None else "configured"
        if checks is not None and (failed := failed_checks(checks)):
            sentence = f"The mechanism of {run.folder} is not as {how}: {', '.join(failed)} failed."
            bound = f" The upper bound shown is for the {how} mechanism, not for the one that ran."
            yield sentence if run.report.analytical is None else sentence + bound


def _lost_canaries(runs: Sequence[ReportedRun]) -> Iterable[str]:
    for run in runs:
        if run.why_canaries_failed is not None:
            yield (
                f"The canary check of {run.folder} failed, so its scores do not measure leakage: "
                f"{run.why_canaries_failed}."
            )


def _unscored_rounds(runs: Sequence[ReportedRun]) -> Iterable[str]:
    for run in runs:
        scored, listed = run.scored_of_listed
        if scored < listed:
            yield (
                f"Of the {listed:,} rounds of included canaries in {run.folder}, {scored:,} were "
                "scored: the others were not trained, or are not in the log, and show no leakage."
            )


def _copies(runs: Sequence[ReportedRun]) -> Iterable[str]:
    """A sentence for each run with an earlier run's results: a copy, or repeated without noise."""
    seen: list[ReportedRun] = []
    for run in runs:
        twin = next((other for other in seen if _numbers(other) == _numbers(run)), None)
        if twin is not None:
            yield (
                f"{twin.folder} and {run.folder} hold the same numbers: the two runs are no "
                "independent repetitions."
            )
        seen.append(run)


def _numbers(run: ReportedRun) -> dict[str, list[tuple[object, ...]]]:
    """The epsilons and intervals of all methods, by statistic."""
    return {
        name: [
            (estimate.method, estimate.epsilon, estimate.lower, estimate.upper)
            for estimate in result.estimates
        ]
        for name, result in run.report.statistics.items()
    }


def pareto_front(
    lower: FloatArray, upper: FloatArray, accuracy: FloatArray
) -> npt.NDArray[np.bool_]:
    """The points that no other dominates; small epsilon and large accuracy are better.

    Point A dominates point B if A's interval of epsilon lies below B's interval and A's accuracy is
    no smaller. The intervals may touch if A's accuracy is larger. So for intervals without width
    this is the usual rule: at least as good in epsilon and accuracy, and better in one. Negoescu et
    al. (2024) use the convex hull of point estimates instead, which also requires that no mixture
    of two settings is better, and excludes an infinite epsilon.

    `lower` and `upper` are the limits of each point's interval of epsilon, possibly infinite, and
    `accuracy` is finite; all are float64 of shape (num,), as is the returned bool array.
    """
    is_below, is_apart = upper[:, None] <= lower, upper[:, None] < lower
    is_as_accurate, is_better = accuracy[:, None] >= accuracy, accuracy[:, None] > accuracy
    dominates = (is_apart & is_as_accurate) | (is_below & is_better)
    is_dominated: npt.NDArray[np.bool_] = dominates.any(axis=0)
    return ~is_dominated
