"""Systems that `fl-audit run` trains, by an engine of their own."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_audit import load_config, start_run
from fl_audit.attacks.attacker import SeenRound
from fl_audit.engines.engine import TrainedRound
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.runtimes import RUNTIMES, RuntimeKind
from fl_audit.tasks.task_kinds import TASKS
from tests.engines import toy_engine
from tests.outside.systems import CLIP, DELTA, Answer, System, answer_of

CONFIG = """
runtime = "outside"
seed = {seed}
[task]
kind = "vectors"
dim = {dim}
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = {configured}
clip_norm = {clip}
[participation]
kind = "shuffle"
rounds = {rounds}
clients_per_round = 3
canary_repeats = {repeats}
[canaries]
count = {count}
family = "{family}"
[audit]
delta = {delta}
claimed_epsilon = {claim}
verdict_statistic = "own_rounds"
verdict_method = "threshold_valid"
lost_canaries = "warn"
"""


@dataclass(eq=False)
class TrainedSystem(System):
    """A system that is an engine of a run: clients, canaries and noise are the system's.

    Attributes:
      configured: The noise multiplier that the config states; None for the system's own.
    """

    way: str = "run"
    configured: float | None = None

    def _hand_over(self, folder: Path) -> None:
        pytest.importorskip("tensorboard", reason="a run writes files for TensorBoard")
        fields = {**vars(self), "delta": DELTA, "clip": CLIP}
        fields["configured"] = self.noise if self.configured is None else self.configured
        config = folder.with_suffix(".toml")
        config.write_text(CONFIG.format(**fields))
        with self.kinds():
            start_run(load_config(config), folder)

    @contextlib.contextmanager
    def kinds(self) -> Iterator[None]:
        """Registers the kinds that the config names."""
        TASKS.register(toy_engine.VECTORS)
        RUNTIMES.register(
            RuntimeKind("outside", lambda run, worker_log, why: _Engine(run, self), False)
        )
        try:
            yield
        finally:
            RUNTIMES.remove("outside")
            TASKS.remove("vectors")

    def follow(self, run: PreparedRun) -> None:
        """Takes the rounds that the run has dealt to canaries, and its denominator."""
        assert np.array_equal(run.included, self.pool.included)
        self.turns[:] = False
        for canary, rounds in enumerate(run.schedule.rounds_of_canaries(self.count)):
            self.turns[rounds, canary] = True
        self.present = self.included if self.takes_part is None else self.takes_part(self)
        expected = run.schedule.expected_cohort
        self.denominator = lambda s, t: expected


class _Engine(toy_engine.MeanOfVectors):
    """An engine whose rounds are a system's."""

    def __init__(self, run: PreparedRun, system: TrainedSystem) -> None:
        super().__init__(run)
        self.system = system
        system.follow(run)

    def run_round(self, state: Any, data: Any, index: int) -> TrainedRound:
        system, model = self.system, state["model"]
        present = np.flatnonzero(system.turns[index] & system.present)
        handed = system.handed_over(index, present).astype(np.float32)
        after = {"model": model + handed, "rounds": state["rounds"] + 1}
        clip = system.clip(system, index)
        seen = SeenRound(index, model, handed, after["model"], clip)
        configured = system.noise if system.configured is None else system.configured
        return TrainedRound(after, seen, clip * configured, 1.0)


def answer_of_run(folder: Path) -> Answer:
    """What the run's own report says."""
    return answer_of(json.loads((folder / "report.json").read_text()))
