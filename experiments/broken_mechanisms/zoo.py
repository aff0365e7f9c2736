"""The zoo of broken mechanisms, each with the correct one that it claims to be."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow_federated as tff
import tensorflow_privacy as tfp

from experiments.broken_mechanisms import queries
from experiments.broken_mechanisms.audited_run import MakeAggregator
from experiments.broken_mechanisms.sampling import with_replacement
from fl_audit.config import GaussianAdaptive, GaussianFixed, Mechanism
from fl_audit.engines.prepare import PreparedRun
from fl_audit.mechanisms import make_aggregator, round_noise
from fl_audit.participation import Schedule

EVERYBODY = ("every_round", "once")
"""Configs of the members that are wrong in their aggregator."""

DRAWN = ("drawn", "one_draw")
"""Configs of the members that are wrong in their sampling."""

WORKERS = 4
"""Number of workers that share the noise's seed in the members that have workers."""


@dataclass(frozen=True)
class Member:
    """One mechanism of the zoo.

    Attributes:
      name: Name in tables.
      make_aggregator: Makes the aggregator from a config's mechanism, the expected cohort and the
        number of rounds.
      is_broken: Whether the mechanism is broken; False for the correct ones.
      overrides: Changes of the config that the mechanism is run with.
      configs: Names of the config files that the mechanism is run with.
      schedule: Makes the schedule of a run; the correct one by default.
    """

    name: str
    make_aggregator: MakeAggregator = make_aggregator
    is_broken: bool = True
    overrides: tuple[str, ...] = ()
    configs: tuple[str, ...] = EVERYBODY
    schedule: Callable[[PreparedRun], Schedule] = lambda run: run.schedule

    def in_place_of(self, run: PreparedRun) -> PreparedRun:
        """The run with this member's schedule."""
        return dataclasses.replace(run, schedule=self.schedule(run))


def _mean(
    query: tfp.SumAggregationDPQuery, cohort: float
) -> tff.aggregators.UnweightedAggregationFactory:
    """An aggregator that divides a query's sum by the expected cohort, like `make_aggregator`."""
    return tff.aggregators.DifferentiallyPrivateFactory(tfp.NormalizedQuery(query, cohort))


def _with_sum(make_query: Callable[[float, float, float], tfp.GaussianSumQuery]) -> MakeAggregator:
    """An aggregator over a query, made from clip norm, standard deviation and expected cohort."""

    def make(
        mechanism: Mechanism, cohort: float, num_rounds: int
    ) -> tff.aggregators.UnweightedAggregationFactory:
        assert isinstance(mechanism, GaussianFixed)
        stddev = mechanism.noise_multiplier * mechanism.clip_norm
        return _mean(make_query(mechanism.clip_norm, stddev, cohort), cohort)

    return make


def _unscaled_noise(
    mechanism: Mechanism, cohort: float, num_rounds: int
) -> tff.aggregators.UnweightedAggregationFactory:
    assert isinstance(mechanism, GaussianAdaptive)
    noise = round_noise(mechanism, cohort)
    query = queries.UnscaledNoise(
        initial_l2_norm_clip=mechanism.clip_norm,
        noise_multiplier=noise.sum_noise_multiplier,
        target_unclipped_quantile=mechanism.target_quantile,
        learning_rate=mechanism.clip_learning_rate,
        clipped_count_stddev=noise.count_noise_stddev,
        expected_num_records=cohort,
    )
    return _mean(query, cohort)


REUSED_SEED = 20_23

ZOO: tuple[Member, ...] = (
    Member("correct: fixed clip", is_broken=False),
    Member(
        "correct: adaptive clip",
        is_broken=False,
        overrides=("mechanism.kind=gaussian_adaptive",),
    ),
    Member(
        "noise not scaled with the adaptive clip",
        _unscaled_noise,
        overrides=("mechanism.kind=gaussian_adaptive",),
    ),
    Member(
        "noise over the denominator twice",
        _with_sum(lambda clip, stddev, cohort: tfp.GaussianSumQuery(clip, stddev / cohort)),
    ),
    Member("clip after noise", _with_sum(queries.ClippedAfterNoise)),
    Member(
        "one variable unclipped: a matrix",
        _with_sum(lambda clip, stddev, _: queries.OneVariableUnclipped(clip, stddev, variable=2)),
    ),
    Member(
        "one variable unclipped: the last bias",
        _with_sum(lambda clip, stddev, _: queries.OneVariableUnclipped(clip, stddev, variable=-1)),
    ),
    Member(
        "clip by variable",
        _with_sum(lambda clip, stddev, _: queries.ClippedByVariable(clip, stddev)),
    ),
    Member(
        "noise reused in every round",
        _with_sum(
            lambda clip, stddev, _: queries.OtherNoise(clip, stddev, queries.reused(REUSED_SEED))
        ),
    ),
    Member(
        "same seed: workers sum clients",
        _with_sum(
            lambda clip, stddev, _: queries.OtherNoise(
                clip, stddev, queries.same_on_workers(WORKERS)
            )
        ),
    ),
    Member(
        "same seed: workers hold pieces",
        _with_sum(
            lambda clip, stddev, _: queries.OtherNoise(
                clip, stddev, queries.same_on_pieces(WORKERS)
            )
        ),
    ),
    Member(
        "half the noise multiplier",
        _with_sum(lambda clip, stddev, _: tfp.GaussianSumQuery(clip, stddev / 2)),
    ),
    Member(
        "every client counted twice",
        _with_sum(lambda clip, stddev, _: queries.CountedTwice(clip, stddev, share=1.0)),
    ),
    Member(
        "one upload in ten counted twice",
        _with_sum(lambda clip, stddev, _: queries.CountedTwice(clip, stddev, share=0.1)),
    ),
    Member("correct: drawn without replacement", is_broken=False, configs=DRAWN),
    Member("drawn with replacement", configs=DRAWN, schedule=with_replacement),
)
