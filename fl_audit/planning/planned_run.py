"""A planned run, as determined by a config before training."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fl_audit.accounting.attacker_bounds import upload_shift
from fl_audit.array_types import IntArray
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.statistics import RunFacts
from fl_audit.canaries.families import WITH_KNOWN_NULL
from fl_audit.canaries.store import make_family
from fl_audit.config import Canaries, Config, ServerSgd
from fl_audit.config.design import RunDesign, design_run
from fl_audit.errors import InputError
from fl_audit.mechanisms import MECHANISMS
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip
from fl_audit.mechanisms.distributed import FIRST_CLIP_NORM
from fl_audit.tasks.facts import TaskFacts


@dataclass(frozen=True, eq=False)
class PlannedRun(RunDesign):
    """A run as fixed by its config and seed: coins, cohorts and noise, but no real update.

    Attributes:
      server: The config's server; None if its steps are not sums of aggregates with fixed weights,
        in which case models are not simulated.
      clients: Number of real clients in each round, n, int64 of shape (rounds,).
      canary: The canary of each participation, an index in the pool, int64 of shape
        (participations,).
      round: The round of each participation, from 0, int64 of shape (participations,).
    """

    server: ServerSgd | None
    pool: Canaries
    task: TaskFacts
    clients: IntArray
    canary: IntArray
    round: IntArray

    def null_facts(self, compared: Mapping[str, ComparedVectors]) -> RunFacts:
        """The input of the statistics' null distributions.

        Every family gets the null of `gaussian` canaries: a plan assumes dense vectors, for which
        random-sign canaries have the same null within a few percent.
        """
        uploads = self.schedule.canary_attendance.sampling.most_drawn
        shift = upload_shift(self.noise, uploads)
        return RunFacts(self.config.audit, self.task.dim, "gaussian", compared, shift)

    @property
    def fixed_norm(self) -> float | None:
        """The norm of canaries; None if the mechanism clips them."""
        mechanism = self.config.mechanism
        return MECHANISMS.kind_of(mechanism).canary_norm(mechanism)

    @property
    def first_norm(self) -> float:
        """The norm of a canary in the first round: from the config, or the first clip norm."""
        clip_norm: float | None = getattr(self.config.mechanism, "clip_norm", None)
        return self.fixed_norm or clip_norm or FIRST_CLIP_NORM

    @functools.cached_property
    def clip_rule(self) -> AdaptiveClip | None:
        """The update rule of the clip norm; None for a fixed clip norm."""
        mechanism = self.config.mechanism
        rule = MECHANISMS.kind_of(mechanism).adaptive_clip
        return rule and rule(mechanism, self.noise, self.schedule.expected_cohort)

    @functools.cached_property
    def canaries(self) -> IntArray:
        """Number of canaries in each round, m, int64 of shape (rounds,)."""
        return np.bincount(self.round, minlength=self.num_rounds)


def check_covered(config: Config) -> None:
    """Raises an error for a config that the simulation does not cover."""
    canaries: Any = config.canaries
    if not isinstance(canaries, Canaries):
        raise InputError(
            f"canaries.kind: a plan does not cover {canaries.__struct_config__.tag!r}, only "
            f"{Canaries.__struct_config__.tag!r}"
        )
    if canaries.family not in WITH_KNOWN_NULL:
        raise InputError(
            f"canaries.family: a plan does not cover {canaries.family!r}, whose scores "
            "depend on the entries of the trained model"
        )
    if canaries.count == 0:
        raise InputError("canaries.count: a plan is about canaries; must be at least 2, got 0")
    if config.mechanism.zeroing is not None:
        raise InputError("mechanism.zeroing: a plan does not cover zeroing; leave it out")


def plan_run(config: Config, task: TaskFacts, clients: IntArray | None = None) -> PlannedRun:
    """Flips the coins and draws the schedule."""
    check_covered(config)
    pool: Any = config.canaries
    make_family(pool, config.seed, task.dim)  # refuses a pool that does not fit
    design = design_run(config, task.client_ids, pool.count)
    schedule, rounds = design.schedule, range(design.num_rounds)
    cohorts = [schedule.canaries(t) for t in rounds]
    if clients is None:
        clients = np.array([len(schedule.clients(t)) for t in rounds], np.int64)
    return PlannedRun(
        **design.shared,
        server=config.server if isinstance(config.server, ServerSgd) else None,
        pool=pool,
        task=task,
        clients=clients,
        canary=np.concatenate(cohorts).astype(np.int64),
        round=np.repeat(np.arange(len(cohorts)), [len(cohort) for cohort in cohorts]),
    )
