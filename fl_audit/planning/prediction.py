"""The prediction of a planned run's estimates, by its estimators on simulated scores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from fl_audit.array_types import FloatArray
from fl_audit.attacks.all_iterates import MAX, SUM
from fl_audit.attacks.final_model import FINAL, FINAL_MINUS_INITIAL
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.statistic import Statistic
from fl_audit.attacks.statistics import statistics_of
from fl_audit.config import Config, ServerSgd
from fl_audit.errors import InputError
from fl_audit.estimators import (
    METHODS,
    AuditSetting,
    Gaussian,
    NotApplicableError,
    epsilon_of_laws,
    valid_methods,
)
from fl_audit.planning.clip_path import simulate_clip_path
from fl_audit.planning.drawn_scores import DrawnScores
from fl_audit.planning.interval import Interval, interval_over, median_of
from fl_audit.planning.own_rounds import with_own_rounds
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.scores import draw_rounds, draw_scores
from fl_audit.planning.unknowns import ENDS, MIDDLE, Unknowns
from fl_audit.report.headline import ESTIMATE
from fl_audit.tasks.tables import NumbersTask
from fl_audit.verdict import scored_statistic

_OF_ROUNDS = frozenset(statistic.name for statistic in (MAX, SUM, OWN_ROUNDS))
_OF_MODELS = frozenset(statistic.name for statistic in (FINAL, FINAL_MINUS_INITIAL))

FIT = "gaussian_fit"
"""The paper's estimate; it takes little time, so it is made at every end of the range."""

_SEED = 20_230_206

Samples = Mapping[tuple[str, str], FloatArray]
"""Epsilons by (statistic, method), each float64 with an entry for each trial that allows it."""


def predicted_methods() -> tuple[str, ...]:
    """The names of the estimates and of the bounds that hold for any mechanism."""
    return (ESTIMATE, *valid_methods(), FIT)


def predicted_statistics(config: Config) -> tuple[Statistic, ...]:
    """The statistics of a run of this config whose law is simulated.

    Raises:
      InputError: The law of none of the run's statistics is simulated.
    """
    known = _OF_ROUNDS | (_OF_MODELS if isinstance(config.server, ServerSgd) else set())
    if isinstance(config.task, NumbersTask) and config.task.initial_norm is None:
        known -= {FINAL.name}
    logged = statistics_of(config.canaries, config.audit)
    found = tuple(statistic for statistic in logged if statistic.name in known)
    if not found:
        raise InputError(
            f"audit.threat_models: a plan covers {', '.join(sorted(known))} with this server, got "
            + ", ".join(statistic.name for statistic in logged)
        )
    return found


def simulated_trials(run: PlannedRun, unknowns: Unknowns, trials: int) -> Iterator[DrawnScores]:
    """Yields the scores by statistic of each trial, the same ones in every call.

    Args:
      run: The planned run.
      unknowns: How real clients behave.
      trials: Number of trials.
    """
    number = (MIDDLE, *ENDS).index(unknowns) if unknowns in (MIDDLE, *ENDS) else len(ENDS) + 1
    random = np.random.default_rng((_SEED, number))
    path = simulate_clip_path(run, unknowns, trials, random)
    for trial in range(trials):
        rounds = draw_rounds(run, path, trial, random)
        drawn = draw_scores(run, unknowns, rounds, random)
        (apart,) = random.spawn(1)
        yield with_own_rounds(drawn, run, unknowns, rounds, apart)


def sample(
    run: PlannedRun,
    unknowns: Unknowns,
    trials: int,
    asked: Sequence[tuple[Statistic, str]],
) -> Samples:
    """The epsilons of simulated runs.

    Args:
      run: The planned run.
      unknowns: How real clients behave.
      trials: Number of simulated runs.
      asked: Pairs of a statistic and the name of a method to apply to it.

    Returns:
      Epsilons by statistic and method, each float64 with one entry for each run whose scores allow
        the method.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for drawn in simulated_trials(run, unknowns, trials):
        for statistic, method in asked:
            try:
                epsilon = _epsilon(method, _setting(run, statistic, drawn))
            except NotApplicableError:
                continue
            found.setdefault((statistic.name, method), []).append(epsilon)
    return {key: np.array(values) for key, values in found.items()}


def _epsilon(method: str, setting: AuditSetting) -> float:
    """Epsilon by one method; the paper's is made without its details, which take as long."""
    if method != FIT:
        return METHODS[method](setting).epsilon
    setting.require(included=2)
    setting.require_null_scores()
    is_known = setting.null == "closed_form"
    null = setting.closed_form_null() if is_known else Gaussian.fitted_to(setting.scores.excluded)
    fitted = Gaussian.fitted_to(setting.scores.included)
    return epsilon_of_laws(null, fitted, setting.delta).epsilon


def _setting(run: PlannedRun, statistic: Statistic, drawn: DrawnScores) -> AuditSetting:
    """The setting of a statistic's methods, as in the report of a run."""
    facts = run.null_facts(drawn.compared)
    scored = scored_statistic(statistic, drawn.scores[statistic.name], facts)
    return scored.setting(run.delta, run.config.audit.confidence)


@dataclass(frozen=True)
class StatisticPrediction:
    """The prediction for one statistic.

    Attributes:
      statistic: The statistic.
      epsilons: Intervals by method; a method that the scores do not allow is left out.
    """

    statistic: Statistic
    epsilons: Mapping[str, Interval]

    def to_json(self) -> dict[str, object]:
        """The JSON object, an interval by method; null where a method is left out."""
        return {
            method: self.epsilons[method].to_json() if method in self.epsilons else None
            for method in predicted_methods()
        }


def predict(run: PlannedRun, trials: int) -> tuple[StatisticPrediction, ...]:
    """Predicts estimates and bounds over the whole range of the unknowns about real clients.

    The paper's estimate is made at every end of the range. The others, which take longer, are made
    where that estimate is lowest and where it is highest, statistic by statistic.

    Args:
      run: The planned run.
      trials: Number of simulated runs at every point of the range.
    """
    statistics = predicted_statistics(run.config)
    everything = [(s, method) for s in statistics for method in predicted_methods()]
    middle = sample(run, MIDDLE, trials, everything)
    fits = [(s, FIT) for s in statistics]
    ends = {
        unknowns: dict(sample(run, unknowns, trials, fits))
        for unknowns in tqdm(ENDS, "range of the unknowns", disable=None, leave=False)
    }
    for unknowns, extreme in _extremes(ends, statistics).items():
        asked = [(s, method) for s in extreme for method in predicted_methods() if method != FIT]
        ends[unknowns].update(sample(run, unknowns, trials, asked))
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
    """The ends of the range at which the estimate is lowest and highest, with the statistics."""
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
