"""The prediction of a planned run's estimates, from simulated scores.

Variants are predicted too: other numbers of canaries, repeats, noise and clip norms.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fl_audit.accounting.noise_distributions import MATRIX, TREE
from fl_audit.array_types import FloatArray
from fl_audit.attacks.all_iterates import MAX, SUM
from fl_audit.attacks.compared_vectors import ANY_VECTOR, ComparedVectors, Vectors
from fl_audit.attacks.final_model import FINAL, FINAL_MINUS_INITIAL
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.one_upload import ONE_UPLOAD
from fl_audit.attacks.statistics import Statistic
from fl_audit.attacks.threat_models import statistics_of
from fl_audit.canaries.canary_tables import coin_probability
from fl_audit.config import Config, ServerSgd
from fl_audit.errors import InputError
from fl_audit.estimators import METHODS, CanaryScores, valid_methods
from fl_audit.json_records import to_json
from fl_audit.mechanisms import MECHANISMS
from fl_audit.planning.planned_run import PlannedRun, plan_run
from fl_audit.planning.predicted_background import ENDS, MIDDLE, Unknowns, predicted_background
from fl_audit.progress import bar
from fl_audit.report.headline import ESTIMATE
from fl_audit.tasks.task_kinds import NumbersTask
from fl_audit.verdict import Background, ScoredStatistic, scored_statistic

_LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """The median and the interval of simulated runs, over assumptions on real clients.

    Attributes:
      median: The median under the middle assumptions, `MIDDLE`.
      lower: The lowest interval limit under `MIDDLE` and all extreme assumptions, `ENDS`.
      upper: The highest interval limit under the same assumptions.
    """

    median: float
    lower: float
    upper: float


def _rank(trials: int) -> int:
    """Rank of the lower end: the largest whose interval has coverage _LEVEL; 1 if there is none."""
    return max(int((trials + 1) * (1 - _LEVEL) / 2 + 1e-9), 1)


def coverage(trials: int) -> float:
    """Probability that a new value is between the ends from `ends_of`: 1 - 2 r / (T + 1).

    Here T is the number of trials, and r is from `_rank`. By symmetry, the new value has each of
    the T + 1 ranks with the same probability.

    >>> coverage(39), round(coverage(19), 3)
    (0.95, 0.9)
    """
    return 1 - 2 * _rank(trials) / (trials + 1)


def ends_of(values: FloatArray) -> tuple[float, float]:
    """The r-th smallest and the r-th largest of simulated values, with r by `_rank`."""
    rank = _rank(len(values))
    ordered = np.sort(values)
    return float(ordered[rank - 1]), float(ordered[-rank])


def median_of(values: FloatArray) -> float:
    """The median; of an even number of values the lower middle one, as values may be infinite."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def interval_over(middle: FloatArray, samples: Sequence[FloatArray]) -> Interval:
    """The median of `middle`, with the outermost ends of `middle` and all `samples`."""
    ends = [ends_of(values) for values in (middle, *samples)]
    lower, upper = min(low for low, _ in ends), max(high for _, high in ends)
    return Interval(median_of(middle), lower, upper)


# Predictions.


_OF_ROUNDS = frozenset(statistic.name for statistic in (MAX, SUM, OWN_ROUNDS, ONE_UPLOAD))
_OF_MODELS = frozenset(statistic.name for statistic in (FINAL, FINAL_MINUS_INITIAL))
_OF_CORRELATED = frozenset((OWN_ROUNDS.name,))
"""The statistics simulated under correlated noise."""

FIT = "gaussian_fit"
"""The estimate of Andrew et al. (2023); it is fast, so it is computed at each of `ENDS`."""

_QUICK = "threshold_valid"

_SEED = 20_230_206

_AT_ONCE = 200_000
"""Number of simulated canaries in memory at a time."""

Samples = Mapping[tuple[str, str], FloatArray]
"""Epsilons by (statistic, method), float64, for each trial to which the method applies."""


def predicted_methods() -> tuple[str, ...]:
    """The names of predicted methods: estimates, and bounds that hold for any mechanism."""
    return (ESTIMATE, *valid_methods(), FIT)


def predicted_statistics(config: Config) -> tuple[Statistic, ...]:
    """The config's statistics whose scores can be simulated; raises InputError without any."""
    known = _OF_ROUNDS | (_OF_MODELS if isinstance(config.server, ServerSgd) else set())
    if MECHANISMS.kind_of(config.mechanism).noise_distribution in (TREE, MATRIX):
        known = _OF_CORRELATED
    if isinstance(config.task, NumbersTask) and config.task.initial_norm is None:
        known -= {FINAL.name}
    logged = statistics_of(config.canaries, config.audit)
    predicted = tuple(statistic for statistic in logged if statistic.name in known)
    if not predicted:
        raise InputError(
            f"audit.threat_models: a plan covers {', '.join(sorted(known))} for this config, got "
            + ", ".join(statistic.name for statistic in logged)
        )
    return predicted


def simulated_audits(
    run: PlannedRun, background: Background, statistic: Statistic, trials: int
) -> Iterator[ScoredStatistic]:
    """Yields the scores of simulated runs on a statistic, the same ones in every call."""
    exposure = background.exposure(statistic.name)
    if exposure is None:
        raise ValueError(f"{statistic.name} is not simulated")
    compared = {
        MAX.name: ComparedVectors((Vectors(len(background.rounds)),)),
        **dict.fromkeys((SUM.name, OWN_ROUNDS.name, ONE_UPLOAD.name), ANY_VECTOR),
    }
    facts = run.null_facts(compared)
    random = np.random.default_rng((_SEED, *statistic.name.encode()))
    at, num_excluded = exposure.at(1.0, np.ones(exposure.num_included)), int((~run.included).sum())
    for _ in range(trials):
        chance = exposure.draw(num_excluded, random)
        scores = CanaryScores(
            *exposure.scores(chance, at),
            run.pool.inclusion,
            coin_probability(run.pool),
        )
        yield scored_statistic(statistic, scores, facts)


def sample(
    run: PlannedRun,
    unknowns: Unknowns,
    trials: int,
    pairs: Sequence[tuple[Statistic, str]],
) -> Samples:
    """The epsilons of simulated runs to which a method applies, by statistic and method."""
    epsilons: dict[tuple[str, str], list[float]] = {}
    at_once = max(_AT_ONCE // run.num_canaries, 1)
    background = predicted_background(run, unknowns)
    for statistic in dict.fromkeys(statistic for statistic, _ in pairs):
        audits = simulated_audits(run, background, statistic, trials)
        methods = [method for of, method in pairs if of is statistic]
        while batch := list(itertools.islice(audits, at_once)):
            settings = [audit.setting(run.delta, run.config.audit.confidence) for audit in batch]
            for method in methods:
                values = epsilons.setdefault((statistic.name, method), [])
                by_method = METHODS[method].epsilons(settings)
                values.extend(epsilon for epsilon in by_method if epsilon is not None)
    return {key: np.array(values) for key, values in epsilons.items() if values}


@dataclass(frozen=True)
class StatisticPrediction:
    statistic: Statistic
    epsilons: Mapping[str, Interval]

    def to_json(self) -> dict[str, object]:
        """The JSON object, an interval by method; null if a method is left out."""
        return {method: to_json(self.epsilons.get(method)) for method in predicted_methods()}


def sample_middle(run: PlannedRun, trials: int, statistics: Sequence[Statistic]) -> Samples:
    """The epsilons of some statistics by all methods, in runs simulated at `MIDDLE`."""
    return sample(run, MIDDLE, trials, list(itertools.product(statistics, predicted_methods())))


def strongest(run: PlannedRun, trials: int) -> Statistic:
    """The statistic with the largest median bound at `MIDDLE`, by the fastest valid method."""
    statistics = predicted_statistics(run.config)
    bounds = sample(run, MIDDLE, trials, [(s, _QUICK) for s in statistics])
    medians = {name: median_of(values) for (name, _), values in bounds.items()}
    return max(statistics, key=lambda statistic: medians.get(statistic.name, 0.0))


def predict(
    run: PlannedRun, trials: int, middle: Samples, statistics: Sequence[Statistic]
) -> tuple[StatisticPrediction, ...]:
    """Predicts estimates and bounds, with intervals over `MIDDLE` and `ENDS`.

    The method `FIT` is computed at all of `ENDS`. Other methods are slower, and are computed for
    each statistic at two of `ENDS`, where the median by `FIT` is lowest and where it is highest.
    """
    fits = [(s, FIT) for s in statistics]
    ends = {
        unknowns: dict(sample(run, unknowns, trials, fits))
        for unknowns in bar(ENDS, "simulating other clients")
    }
    for unknowns, extreme in _extremes(ends, statistics).items():
        pairs = [(s, method) for s in extreme for method in predicted_methods() if method != FIT]
        ends[unknowns].update(sample(run, unknowns, trials, pairs))
    return tuple(
        StatisticPrediction(
            statistic,
            {
                method: interval_over(
                    middle[statistic.name, method],
                    [
                        samples[statistic.name, method]
                        for samples in ends.values()
                        if (statistic.name, method) in samples
                    ],
                )
                for method in predicted_methods()
                if (statistic.name, method) in middle
            },
        )
        for statistic in statistics
    )


def _extremes(
    ends: Mapping[Unknowns, Samples], statistics: Sequence[Statistic]
) -> dict[Unknowns, list[Statistic]]:
    """Some of `ENDS`, with the statistics whose median by `FIT` is lowest or highest there."""
    chosen: dict[Unknowns, list[Statistic]] = {}
    for statistic in statistics:
        medians = {
            unknowns: median_of(samples[statistic.name, FIT])
            for unknowns, samples in ends.items()
            if (statistic.name, FIT) in samples
        }
        if not medians:
            medians = dict.fromkeys((ENDS[0], ENDS[-1]), 0.0)
        lowest = min(medians, key=medians.__getitem__)
        highest = max(medians, key=medians.__getitem__)
        for unknowns in {lowest, highest}:
            chosen.setdefault(unknowns, []).append(statistic)
    return chosen


# Variants.


_COUNT_FACTORS = (0.25, 0.5, 2, 4)
_REPEATS = (1, 2, 4, 8)
_NOISE_FACTORS = (0.5, 2)
_NOISES = (0.1, 0.3, 1.0)
"""The multipliers tried if a config has no noise."""

_CLIP_FACTORS = (0.1, 10)


Medians = Mapping[tuple[str, str], float]
"""Median epsilons by (statistic, method)."""


@dataclass(frozen=True)
class Change:
    """A key of the config, its new value, and the statistics that depend on it."""

    key: str
    value: float
    is_planned: bool
    statistics: Sequence[Statistic]

    def applied_to(self, config: Config) -> Config:
        section, _, name = self.key.partition(".")
        table: Any = getattr(config, section)
        changed = msgspec.structs.replace(table, **{name: self.value})
        return msgspec.structs.replace(config, **{section: changed})


@dataclass(frozen=True)
class Variant:
    """The prediction at `MIDDLE` with one key of the config changed.

    Attributes:
      refused: Why the changed config cannot be run; None if it can.
    """

    change: Change
    medians: Medians
    refused: str | None = None

    def to_json(self) -> dict[str, object]:
        """The JSON object, with medians by statistic and method."""
        by_statistic: dict[str, dict[str, object]] = {}
        for (statistic, method), median in self.medians.items():
            by_statistic.setdefault(statistic, {})[method] = to_json(median)
        return {
            "key": self.change.key,
            "value": self.change.value,
            "planned": self.change.is_planned,
            "statistics": by_statistic,
            "refused": self.refused,
        }


def changes(run: PlannedRun) -> list[Change]:
    """The changes to show; those of one key ascend and include the config's own value."""
    everything, count = predicted_statistics(run.config), run.pool.count
    # Scores are cosines, so a common factor of all clip norms changes only `final`.
    by_clip = [statistic for statistic in everything if statistic.name == FINAL.name]
    mechanism, pattern = run.config.mechanism, run.config.participation
    unit = 2 if run.pool.inclusion in ("fixed_half", "pairs") else 1
    counts = {max(unit * round(factor * count / unit), 2) for factor in _COUNT_FACTORS}
    tried: list[tuple[str, float, Collection[float], Sequence[Statistic]]] = [
        ("canaries.count", count, counts, everything)
    ]
    if getattr(pattern, "canaries", "") == "repeats":
        repeats = getattr(pattern, "canary_repeats", 1)
        tried.append(("participation.canary_repeats", repeats, _REPEATS, everything))
    noise = getattr(mechanism, "noise_multiplier", None)
    if noise is not None:
        noises = [0.0, *(factor * noise for factor in _NOISE_FACTORS)] if noise else _NOISES
        tried.append(("mechanism.noise_multiplier", noise, noises, everything))
    if clip_norm := getattr(mechanism, "clip_norm", None):
        norms = [factor * clip_norm for factor in _CLIP_FACTORS]
        tried.append(("mechanism.clip_norm", clip_norm, norms, by_clip))
    return [
        Change(key, value, value == own, statistics)
        for key, own, others, statistics in tried
        if statistics
        for value in sorted({own, *others})
    ]


def variants(run: PlannedRun, trials: int) -> tuple[Variant, ...]:
    """Predicts runs that differ in one key each; the config's own run is simulated once."""
    own = _medians(run, predicted_statistics(run.config), trials)
    changed = bar(changes(run), "simulating variants of the config")
    return tuple(_variant(run, change, trials, own) for change in changed)


def _variant(run: PlannedRun, change: Change, trials: int, own: Medians) -> Variant:
    """Predicts a run that differs in one key."""
    if change.is_planned:
        names = {statistic.name for statistic in change.statistics}
        return Variant(change, {key: median for key, median in own.items() if key[0] in names})
    try:
        changed = plan_run(change.applied_to(run.config), run.task, run.clients)
        return Variant(change, _medians(changed, change.statistics, trials))
    except InputError as error:
        return Variant(change, {}, str(error))


def _medians(run: PlannedRun, statistics: Sequence[Statistic], trials: int) -> Medians:
    fits = [(s, FIT) for s in statistics]
    bounds = [(s, method) for s in statistics for method in valid_methods()]
    half = -(-trials // 2)  # bounds are slower than estimates
    samples = {**sample(run, MIDDLE, trials, fits), **sample(run, MIDDLE, half, bounds)}
    return {key: median_of(values) for key, values in samples.items()}
