"""Variants of a plan: other numbers of canaries, repeats, noise and clip norms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from tqdm import tqdm

from fl_audit.attacks.final_model import FINAL
from fl_audit.attacks.statistic import Statistic
from fl_audit.config import Config, DrawnParticipation
from fl_audit.errors import InputError
from fl_audit.estimators import valid_methods
from fl_audit.estimators.result import json_value
from fl_audit.planning.interval import median_of
from fl_audit.planning.planned_run import PlannedRun, plan_run
from fl_audit.planning.prediction import FIT, predicted_statistics, sample
from fl_audit.planning.unknowns import MIDDLE

_COUNT_FACTORS = (0.25, 0.5, 2, 4)
_REPEATS = (1, 2, 4, 8)
_NOISE_FACTORS = (0.5, 2)
_NOISES_BESIDE_NONE = {0.1, 0.3, 1.0}
_CLIP_FACTORS = (0.1, 10)


Medians = Mapping[tuple[str, str], float]
"""Median epsilons by (statistic, method)."""


@dataclass(frozen=True)
class Variant:
    """The prediction with one key of the config changed, in the middle of the unknowns.

    Attributes:
      key: The key, as in --set.
      value: The value of the key.
      is_planned: Whether the value is that of the config itself.
      medians: Median epsilons by (statistic, method).
      refused: Why the changed config cannot be run; None where it can.
    """

    key: str
    value: float
    is_planned: bool
    medians: Medians
    refused: str | None = None

    def to_json(self) -> dict[str, object]:
        """The JSON object, with medians by statistic and method."""
        by_statistic: dict[str, dict[str, object]] = {}
        for (statistic, method), median in self.medians.items():
            by_statistic.setdefault(statistic, {})[method] = json_value(median)
        return {
            "key": self.key,
            "value": self.value,
            "planned": self.is_planned,
            "statistics": by_statistic,
            "refused": self.refused,
        }


@dataclass(frozen=True)
class Change:
    """A key of the config, its new value, and the statistics that depend on it."""

    key: str
    value: float
    is_planned: bool
    statistics: Sequence[Statistic]

    def applied_to(self, config: Config) -> Config:
        """The config with the key changed."""
        section, _, name = self.key.partition(".")
        table: Any = getattr(config, section)
        changed = msgspec.structs.replace(table, **{name: self.value})
        return msgspec.structs.replace(config, **{section: changed})


def changes(run: PlannedRun) -> list[Change]:
    """The changes to show; those of one key ascend and include the config's own value."""
    everything = predicted_statistics(run.config)
    # Scores are cosines, so that a common factor of all clip norms changes only `final`.
    by_clip = [statistic for statistic in everything if statistic.name == FINAL.name]
    noise, clip_norm = run.mechanism.multiplier, run.mechanism.clip_norm
    return [
        *_series("canaries.count", _counts(run), run.pool.count, everything),
        *_repeats(run, everything),
        *_series("mechanism.noise_multiplier", _noises(noise), noise, everything),
        *_series("mechanism.clip_norm", {f * clip_norm for f in _CLIP_FACTORS}, clip_norm, by_clip),
    ]


def _counts(run: PlannedRun) -> set[float]:
    unit = 2 if run.pool.inclusion in ("fixed_half", "pairs") else 1
    return {max(unit * round(factor * run.pool.count / unit), 2) for factor in _COUNT_FACTORS}


def _repeats(run: PlannedRun, statistics: Sequence[Statistic]) -> list[Change]:
    """The changes of repeats, under patterns that present a canary a fixed number of times."""
    pattern = run.config.participation
    if not isinstance(pattern, DrawnParticipation) or getattr(pattern, "canaries", "") != "repeats":
        return []
    key = "participation.canary_repeats"
    return _series(key, set(_REPEATS), pattern.canary_repeats, statistics)


def _noises(noise: float) -> set[float]:
    return {0.0, *(factor * noise for factor in _NOISE_FACTORS)} if noise else _NOISES_BESIDE_NONE


def _series(
    key: str, values: set[float], planned: float, statistics: Sequence[Statistic]
) -> list[Change]:
    """The changes of one key in ascending order; none where no statistic depends on it."""
    ordered = sorted({*values, planned}) if statistics else []
    return [Change(key, value, value == planned, statistics) for value in ordered]


def bound_trials(trials: int) -> int:
    """Number of trials on which bounds are made: half, as they take longer than estimates."""
    return -(-trials // 2)


def variants(run: PlannedRun, trials: int) -> tuple[Variant, ...]:
    """Predicts runs that differ in one key each; the config's own run is simulated once.

    Args:
      run: The planned run.
      trials: Number of simulated runs of each variant.
    """
    shown = changes(run)
    planned = _medians(run, predicted_statistics(run.config), trials)
    return tuple(
        _planned(change, planned) if change.is_planned else variant(run, change, trials)
        for change in tqdm(shown, "variants", disable=None, leave=False)
    )


def _planned(change: Change, medians: Medians) -> Variant:
    names = {statistic.name for statistic in change.statistics}
    kept = {key: median for key, median in medians.items() if key[0] in names}
    return Variant(change.key, change.value, True, kept)


def variant(run: PlannedRun, change: Change, trials: int) -> Variant:
    """Predicts a run that differs in one key.

    Args:
      run: The planned run.
      change: The change of its config.
      trials: Number of simulated runs.
    """
    try:
        changed = plan_run(change.applied_to(run.config), run.task, run.clients)
    except InputError as error:
        return Variant(change.key, change.value, change.is_planned, {}, str(error))
    medians = _medians(changed, change.statistics, trials)
    return Variant(change.key, change.value, change.is_planned, medians)


def _medians(run: PlannedRun, statistics: Sequence[Statistic], trials: int) -> Medians:
    fits = [(s, FIT) for s in statistics]
    bounds = [(s, method) for s in statistics for method in valid_methods()]
    samples = {
        **sample(run, MIDDLE, trials, fits),
        **sample(run, MIDDLE, bound_trials(trials), bounds),
    }
    return {key: median_of(values) for key, values in samples.items()}
