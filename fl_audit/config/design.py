"""The design of a run, fixed by config, seed and secret before training: coins, schedule, noise."""

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from fl_audit.accounting.release import Noise, Release
from fl_audit.accounting.secret_sampling import SecretSampling
from fl_audit.attacks.live_test import why_no_live_test
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.threat_models import check_rounds, check_threat_models, threat_models_of
from fl_audit.canaries.canary_tables import Canaries, coin_probability, family_of
from fl_audit.canaries.pool import draw_included
from fl_audit.config.run_tables import Config
from fl_audit.errors import InputError
from fl_audit.estimators.scores import CanaryScores
from fl_audit.mechanisms import (
    MECHANISMS,
    Mechanism,
    describe,
    mechanism_for_epsilon,
    round_noise,
)
from fl_audit.participation import Schedule, make_schedule
from fl_audit.participation.arms import arm_names


@dataclass(frozen=True, eq=False)
class RunDesign:
    """A run as determined by its config, its seed and secret, and the names of its clients.

    Subclasses are `PreparedRun`, for training, and `PlannedRun`.
    """

    config: Config  # the config of the run, with the noise that a target epsilon determines
    num_clients: int  # the number N of real clients in the population
    # whether each canary is included, bool of shape (num_canaries,)
    included: npt.NDArray[np.bool_]
    schedule: Schedule
    secret: int | None
    noise: Noise

    @property
    def num_rounds(self) -> int:
        """The number T of rounds of training."""
        return self.schedule.num_rounds

    @property
    def num_canaries(self) -> int:
        """The size k of the pool."""
        return len(self.included)

    def canary_scores(self, scores: npt.NDArray[np.float64]) -> CanaryScores:
        """Splits scores of the pool, float64 of shape (num_canaries,), by inclusion."""
        canaries = self.config.canaries
        return CanaryScores(
            scores[self.included],
            scores[~self.included],
            canaries.inclusion,
            coin_probability(canaries),
        )

    @functools.cached_property
    def own_rounds(self) -> OwnRounds:
        """The rounds of every canary."""
        return OwnRounds(tuple(self.schedule.rounds_of_canaries(self.num_canaries)), self.arms)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arm of every canary; empty without arms."""
        canaries = self.config.canaries
        texts = canaries.arms if isinstance(canaries, Canaries) else ()
        seed = self.config.seed if self.secret is None else self.secret
        return arm_names(texts, self.num_canaries, seed)

    @property
    def secret_from(self) -> Literal["run", "config"] | None:
        """Whose secret draws the schedule, the run's or the config's; None if the seed draws it."""
        if self.secret is None:
            return None
        return "run" if self.config.schedule_secret is UNSET else "config"

    @property
    def draws_anew(self) -> bool:
        """Whether the seed drew this schedule although a run draws its own from a secret."""
        return self.secret is None and is_secret(self.config, self.schedule)

    @property
    def delta(self) -> float:
        """The audit's delta: the config's, else N^-1.1 for N clients (Andrew et al. section 5)."""
        return self.config.audit.delta or float(self.num_clients) ** -1.1

    @functools.cached_property
    def release(self) -> Release:
        """The release of the run, for accounting."""
        return describe(self.config.mechanism, self.noise, self.schedule, self.num_canaries)

    @property
    def shared(self) -> dict[str, Any]:
        """The fields of `RunDesign`, as arguments for a subclass."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(RunDesign)}


def _with_noise(design: RunDesign, mechanism: Mechanism) -> RunDesign:
    """The design with the noise of a mechanism, determined by a target epsilon if there is one."""
    cohort = design.schedule.expected_cohort
    if mechanism.epsilon is not None:
        mechanism = mechanism_for_epsilon(mechanism, cohort, design.release, design.delta)
    config = msgspec.structs.replace(design.config, mechanism=mechanism)
    return dataclasses.replace(design, config=config, noise=round_noise(mechanism, cohort))


def design_run(
    config: Config, client_ids: Sequence[str], num_canaries: int, secret: int | None = None
) -> RunDesign:
    """Draws the included canaries and the schedule, and finds the noise.

    If the schedule is secret (`is_secret`), it is drawn from `secret`; None draws it from the seed,
    as for planning.
    """
    if len(client_ids) < 2 and config.audit.delta is None:
        raise InputError(
            f"audit.delta: the default, N^-1.1 for N clients, is no probability below 1 for "
            f"{len(client_ids)} client{'s'[: len(client_ids) != 1]}; set audit.delta, such as 1e-3"
        )
    if num_canaries == 0 and config.audit.is_claimed:
        raise InputError("audit: a claim is tested with canaries, but canaries.count is 0")
    canaries = config.canaries
    included = draw_included(
        canaries.inclusion, config.seed, num_canaries, coin_probability(canaries)
    )
    schedule = _schedule(config, config.seed, client_ids, included)
    if secret is not None and is_secret(config, schedule):
        schedule = _schedule(config, secret, client_ids, included)
    else:
        secret = None
    check_threat_models(config.audit, "config")
    check_rounds(config.audit, schedule.num_rounds, "config")
    _check_uploads(config)
    design = RunDesign(
        config=config,
        num_clients=len(client_ids),
        included=included,
        schedule=schedule,
        secret=secret,
        noise=MECHANISMS.kind_of(config.mechanism).noise_distribution.noise(0.0, 0.0),
    )
    design = _with_noise(design, config.mechanism)
    if config.audit.stop_when_contradicted:
        _check_live_verdict(design)
    return design


def _schedule(
    config: Config, seed: int, client_ids: Sequence[str], included: npt.NDArray[np.bool_]
) -> Schedule:
    pattern, canaries, dropouts = config.participation, config.canaries, config.dropouts
    return make_schedule(pattern, canaries, seed, client_ids, included, dropouts=dropouts)


def is_secret(config: Config, schedule: Schedule) -> bool:
    """Whether training draws its schedule from a secret.

    True if there is noise and a client's upper bound relies on secret rounds, or if the config
    names a secret.
    """
    if config.schedule_secret is not UNSET:
        return True
    if not isinstance(schedule.client_attendance.sampling, SecretSampling):
        return False
    mechanism, cohort = config.mechanism, schedule.expected_cohort
    return mechanism.epsilon is not None or round_noise(mechanism, cohort).noise_multiplier > 0


def _check_uploads(config: Config) -> None:
    """Raises InputError if attackers see single uploads without noise."""
    seeing = [model.name for model in threat_models_of(config.audit) if model.sees_uploads]
    kind = MECHANISMS.kind_of(config.mechanism)
    if seeing and not kind.noise_distribution.is_per_upload:
        raise InputError(
            f"audit.threat_models: {seeing[0]!r} needs noise at the client, mechanism.kind "
            f"'client_gaussian', got {MECHANISMS.name_of(kind)!r}"
        )


def _check_live_verdict(design: RunDesign) -> None:
    """Raises InputError if rounds cannot be tested, or the claim may not cover such tests."""
    if design.schedule.client_participations is None:
        why_not: str | None = (
            "the claim may count on the sampling of clients, but the attacker of known_rounds "
            "knows who is sampled"
        )
    else:
        why_not = why_no_live_test(design.own_rounds, family_of(design.config.canaries))
    if why_not is not None:
        raise InputError(
            f"audit.stop_when_contradicted: no round can be tested against the claim: {why_not}"
        )
