"""The comparison of finished runs, from which the table, the page and the JSON are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.attacks.registry import STATISTICS
from fl_audit.attacks.seen_log import Progress
from fl_audit.comparison.comparability import comparability_warnings
from fl_audit.comparison.pareto import pareto_front
from fl_audit.comparison.reported_run import PARTIES, Party, ReportedRun, read_reported_runs
from fl_audit.comparison.settings import Setting, group_by_setting
from fl_audit.comparison.spread import Spread

SHOWN_METHODS = ("threshold_valid", "one_run_valid", "shift_fit")
"""The methods in the first tables: the valid bounds, and the estimate with an interval."""

FRONT_METHOD = "shift_fit"
"""The method whose epsilon the privacy-accuracy plots show.

Where the law of excluded scores is not known, a valid bound can be no higher than the number of
canaries allows, so that the settings that leak most all reach that limit; an estimate still orders
them.
"""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Finished runs side by side.

    Attributes:
      runs: The runs in the order in which their folders were given.
      settings: The runs by setting, in the order to show them.
      differing: The config keys that differ between settings.
      warnings: What keeps the runs from being compared, in sentences.
    """

    runs: tuple[ReportedRun, ...]
    settings: tuple[Setting, ...]
    differing: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics that any run has, the known ones first."""
        found = dict.fromkeys(name for run in self.runs for name in run.report.statistics)
        known = [s.name for s in STATISTICS if s.name in found]
        return tuple(dict.fromkeys([*known, *found]))

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods that any run has on any statistic."""
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
        """The patterns of the settings: what distinguishes them apart from their noise."""
        return tuple(dict.fromkeys(setting.pattern for setting in self.settings))

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """The noise multipliers of the settings in ascending order, of those where it is known."""
        known = {setting.noise_multiplier for setting in self.settings} - {None}
        return tuple(sorted(noise for noise in known if noise is not None))

    def front(self, statistic: str, method: str) -> tuple[Setting, ...]:
        """The settings that none dominates in accuracy and one method's epsilon, beyond noise.

        The noise is the method's interval, or where it has none the range over runs.
        """
        ranges = [
            setting.interval(statistic, method) or _range(setting.epsilon(statistic, method))
            for setting in self.settings
        ]
        return self._front(ranges)

    def analytical_front(self, party: Party) -> tuple[Setting, ...]:
        """The settings on the Pareto front of accuracy and the analytical epsilon."""
        return self._front([_range(setting.guarantee(party)) for setting in self.settings])

    def _front(self, ranges: Sequence[tuple[float, float] | None]) -> tuple[Setting, ...]:
        """The Pareto front by mean accuracy, of the settings with an epsilon and an accuracy."""
        known = [
            (setting, *ends, setting.accuracy.mean)
            for setting, ends in zip(self.settings, ranges, strict=True)
            if ends is not None and setting.accuracy is not None
        ]
        numbers = np.array([row[1:] for row in known]).reshape(-1, 3)
        is_on_front = pareto_front(*numbers.T)
        return tuple(row[0] for row, is_on in zip(known, is_on_front, strict=True) if is_on)


def _range(spread: Spread | None) -> tuple[float, float] | None:
    return None if spread is None else (spread.smallest, spread.largest)


def compare(
    folders: Sequence[Path], delta: float | None = None, progress: Progress = iter
) -> Comparison:
    """Compares finished runs, and scores of other systems.

    Args:
      folders: The folders of the runs, of logs and of other scores, at least two.
      delta: The delta of estimates from folders without a report; None takes that of the runs.
      progress: A function that goes through the files of aggregates that are scored.

    Raises:
      InputError: Fewer than two folders are given, one is given twice, one has neither a finished
        run nor scores, or delta is not given and the runs do not have one delta.
    """
    runs = read_reported_runs(folders, delta, progress)
    settings = tuple(group_by_setting(runs))
    return Comparison(
        runs=tuple(runs),
        settings=settings,
        differing=tuple(dict.fromkeys(key for s in settings for key in s.keys)),
        warnings=tuple(comparability_warnings(runs)),
    )


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as one JSON object with each run's report; infinities are words."""
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
        "runs": [_run_json(comparison, run) for run in comparison.runs],
    }


def _setting_json(comparison: Comparison, setting: Setting) -> dict[str, Any]:
    return {
        "label": setting.label,
        "keys": dict(setting.keys),
        "noise_multiplier": setting.noise_multiplier,
        "folders": [str(run.folder) for run in setting.runs],
        "presentations": _spread_json(setting.presentations),
        "accuracy": _spread_json(setting.accuracy),
        "analytical": {party: _spread_json(setting.guarantee(party)) for party in PARTIES},
        "statistics": {
            statistic: {
                method: _spread_json(setting.epsilon(statistic, method))
                for method in comparison.methods
            }
            for statistic in comparison.statistics
        },
    }


def _spread_json(spread: Spread | None) -> dict[str, object] | None:
    return None if spread is None else spread.to_json()


def _run_json(comparison: Comparison, run: ReportedRun) -> dict[str, Any]:
    label = next(setting.label for setting in comparison.settings if run in setting.runs)
    return {"folder": str(run.folder), "setting": label, "report": dict(run.report_json)}
