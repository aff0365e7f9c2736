"""Small planned runs without TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from fl_audit.accounting import Noise
from fl_audit.config.design import design_run
from fl_audit.config.file import parse_config
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.tasks.facts import TaskFacts


def small_config(changes: Mapping[str, Mapping[str, Any]] | None = None, seed: int = 1) -> Any:
    """A config of 12 rounds with 6 of 40 clients and 40 canaries; `changes` by section."""
    table: dict[str, Any] = {
        "seed": seed,
        "task": {"kind": "digits"},
        "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 0.2, "clip_norm": 0.5},
        "participation": {"kind": "shuffle", "rounds": 12, "clients_per_round": 6},
        "canaries": {"count": 40, "family": "gaussian"},
        "audit": {"delta": 1e-3},
    }
    for section, keys in (changes or {}).items():
        table[section] = dict(keys) if "kind" in keys else {**table.get(section, {}), **keys}
    return parse_config(table, "small")


def facts(dim: int = 600, initial_norm: float = 1.5, num_clients: int = 40) -> TaskFacts:
    """Sizes of a task that is never loaded."""
    return TaskFacts("small", dim, initial_norm, [f"client-{i}" for i in range(num_clients)])


def planned(config: Any, task: TaskFacts | None = None, count_noise: float = 0.0) -> PlannedRun:
    """As `plan_run`, with all of the noise on the sum."""
    task = task or facts()
    design = design_run(config, task.client_ids, config.canaries.count)
    schedule = design.schedule
    cohorts = [schedule.canaries(t) for t in range(schedule.num_rounds)]
    noise = config.mechanism.noise_multiplier
    distribution = design.noise.distribution
    whole = dataclasses.replace(design, noise=Noise(distribution, noise, noise, count_noise))
    return PlannedRun(
        **whole.shared,
        server=config.server,
        pool=config.canaries,
        task=task,
        clients=np.array([len(schedule.clients(t)) for t in range(schedule.num_rounds)]),
        canary=np.concatenate(cohorts),
        round=np.repeat(np.arange(len(cohorts)), [len(cohort) for cohort in cohorts]),
    )
