"""The design of a run, fixed by config and seed before there is a model: coins, schedule, noise."""

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fl_audit.accounting.analytical import guarantee_to, noise_multiplier_for
from fl_audit.accounting.release import Noise, Release
from fl_audit.attacks.live_test import why_no_live_test
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.threat_models import check_rounds, check_threat_models, threat_models_of
from fl_audit.canaries.pool import draw_included
from fl_audit.canaries.tables import Canaries, coin_probability, family_of
from fl_audit.config.tables import Config
from fl_audit.errors import InputError
from fl_audit.estimators.scores import CanaryScores
from fl_audit.mechanisms import MECHANISMS, Mechanism, NoisyMechanism, describe, round_noise
from fl_audit.participation import Schedule, make_schedule
from fl_audit.participation.arms import arm_names


@dataclass(frozen=True, eq=False)
class RunDesign:
    """A run as its config, its seed and the names of its clients determine it.

    A run that is trained (`PreparedRun`) and one that is planned (`PlannedRun`) are such designs.

    Attributes:
      config: The config of the run; its mechanism's noise is known.
      num_clients: The number N of real clients in the population.
      included: Whether each canary of the pool takes part, bool of shape (num_canaries,).
      schedule: The schedule of who takes part in which rounds.
      noise: The noise of a round.
    """

    config: Config
    num_clients: int
    included: npt.NDArray[np.bool_]
    schedule: Schedule
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
        """The scores of the whole pool, float64 of shape (num_canaries,), by inclusion."""
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
        return OwnRounds(tuple(self.schedule.rounds_of_canaries(self.num_canaries)))

    @property
    def arms(self) -> tuple[str, ...]:
        """The arm of every canary; nothing where the pool is not dealt to arms."""
        canaries = self.config.canaries
        texts = canaries.arms if isinstance(canaries, Canaries) else ()
        return arm_names(texts, self.num_canaries, self.config.seed)

    @property
    def delta(self) -> float:
        """The audit's delta: the config's, else N^-1.1 for N clients (Andrew et al. section 5)."""
        return self.config.audit.delta or float(self.num_clients) ** -1.1

    @functools.cached_property
    def release(self) -> Release:
        """What the run will release."""
        return describe(self.config.mechanism, self.noise, self.schedule, self.num_canaries)

    @property
    def shared(self) -> dict[str, Any]:
        """The fields that every design has, as arguments of a class that adds to them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(RunDesign)}


def _with_noise(design: RunDesign, mechanism: Mechanism) -> RunDesign:
    """A design without noise, with the mechanism's, which may have to be found for an epsilon."""
    cohort = design.schedule.expected_cohort
    if mechanism.epsilon is not None:
        mechanism = mechanism_for_epsilon(mechanism, cohort, design.release, design.delta)
    config = msgspec.structs.replace(design.config, mechanism=mechanism)
    return dataclasses.replace(design, config=config, noise=round_noise(mechanism, cohort))


def design_run(config: Config, client_ids: Sequence[str], num_canaries: int) -> RunDesign:
    """Draws who is included and the schedule.

    Args:
      config: The config of the run.
      client_ids: The names of the real clients.
      num_canaries: The size of the pool.

    Raises:
      InputError: The parts of the config do not fit together.
    """
    if len(client_ids) < 2 and config.audit.delta is None:
        raise InputError(
            f"audit.delta: by default it is N^-1.1, which is no probability below 1 for "
            f"{len(client_ids)} client{'s'[: len(client_ids) != 1]}; set it, such as to 1e-3"
        )
    if num_canaries == 0 and config.audit.is_claimed:
        raise InputError("audit: nothing tests a claim where canaries.count is 0")
    canaries = config.canaries
    included = draw_included(
        canaries.inclusion, config.seed, num_canaries, coin_probability(canaries)
    )
    schedule = make_schedule(
        config.participation, config.canaries, config.seed, client_ids, included
    )
    check_threat_models(config.audit, "config")
    check_rounds(config.audit, schedule.num_rounds, "config")
    _check_uploads(config)
    design = RunDesign(
        config=config,
        num_clients=len(client_ids),
        included=included,
        schedule=schedule,
        noise=MECHANISMS.kind_of(config.mechanism).noise_distribution.noise(0.0, 0.0),
    )
    design = _with_noise(design, config.mechanism)
    if config.audit.stop_when_contradicted:
        _check_live_verdict(design)
    return design


def _check_uploads(config: Config) -> None:
    """Raises an `InputError` if attackers see single uploads that no noise is added to."""
    seeing = [model.name for model in threat_models_of(config.audit) if model.sees_uploads]
    kind = MECHANISMS.kind_of(config.mechanism)
    if seeing and not kind.noise_distribution.is_per_upload:
        raise InputError(
            f"audit.threat_models: {seeing[0]!r} needs noise at the client, mechanism.kind "
            f"'client_gaussian', got {MECHANISMS.name_of(kind)!r}"
        )


def _check_live_verdict(design: RunDesign) -> None:
    """Raises an `InputError` if rounds cannot be tested, or say nothing about the claim."""
    why_not = why_no_live_test(design.own_rounds, family_of(design.config.canaries))
    if design.schedule.client_participations is None:
        why_not = (
            "clients are sampled, on which a claim may count, and the attacker knows who is online"
        )
    if why_not is not None:
        raise InputError(
            f"audit.stop_when_contradicted: no round can be held against the claim: {why_not}"
        )


# The noise of a run whose config states the epsilon that it is to guarantee.


def mechanism_for_epsilon(
    mechanism: Mechanism, expected_cohort: float, release: Release, delta: float
) -> NoisyMechanism:
    """The mechanism with the least noise that guarantees clients the epsilon that it states.

    Args:
      mechanism: The mechanism table of a config, with an epsilon.
      expected_cohort: The expected number of clients and canaries in a round.
      release: What the run releases; its noise does not count.
      delta: The delta of the epsilon, in (0, 1).

    Raises:
      InputError: No epsilon is known of such a run, or no noise that its keys allow is enough.
    """
    if not isinstance(mechanism, NoisyMechanism) or mechanism.epsilon is None:
        raise InputError("mechanism.epsilon: this kind of mechanism has no noise to find")
    distribution = MECHANISMS.kind_of(mechanism).noise_distribution
    _check_known(release.with_noise(_unit_noise(mechanism, expected_cohort)), delta)

    def epsilon_of(multiplier: float) -> float | None:
        try:
            noise = round_noise(mechanism.with_multiplier(multiplier), expected_cohort)
        except InputError:
            # It cannot be added so; how much would be needed is said when it is refused.
            noise = distribution.noise(multiplier, multiplier)
        noised = release.with_noise(noise)
        return guarantee_to(noised, noised.client, delta).epsilon

    try:
        solved = mechanism.with_multiplier(noise_multiplier_for(mechanism.epsilon, epsilon_of))
        round_noise(solved, expected_cohort)
    except InputError as error:
        raise InputError(f"mechanism.epsilon: {mechanism.epsilon:g}: {error}") from error
    return solved


def _unit_noise(mechanism: NoisyMechanism, expected_cohort: float) -> Noise:
    """The noise of a multiplier of 1, by which accountants see what kind of noise it is."""
    try:
        return round_noise(mechanism.with_multiplier(1.0), expected_cohort)
    except InputError:
        return MECHANISMS.kind_of(mechanism).noise_distribution.noise(1.0, 1.0)


def _check_known(release: Release, delta: float) -> None:
    """Raises an `InputError` where no accountant knows the epsilon of any noise."""
    guarantee = guarantee_to(release, release.client, delta)
    if guarantee.epsilon is None:
        reasons = "; ".join(by.reason for by in guarantee.by_accountant if by.reason)
        raise InputError(f"mechanism.epsilon: no analytical epsilon is known here: {reasons}")
