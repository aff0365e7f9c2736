"""The noise that guarantees clients a stated epsilon, found before anything is trained."""

import math
from dataclasses import dataclass

import msgspec

from fl_audit.accounting import Accounting, account
from fl_audit.config import Config, ExampleCanaries
from fl_audit.config.design import RunDesign, design_run
from fl_audit.errors import InputError
from fl_audit.estimators.result import json_value
from fl_audit.mechanisms import NoisyMechanism
from fl_audit.number_words import significant, upper_bound_text
from fl_audit.planning.answer import labelled
from fl_audit.planning.planned_run import TaskFacts, check_covered, load_task_facts


@dataclass(frozen=True, eq=False)
class FoundNoise:
    """The least noise that guarantees clients an epsilon.

    Attributes:
      config: The config with that noise.
      noise_multiplier: The noise multiplier.
      num_canaries: The size of the pool.
      accounting: The analytical epsilon at that noise.
      task: The sizes of the task, where a plan can use them.
      not_covered: Why no plan can be made of the config; None where one can.
    """

    config: Config
    noise_multiplier: float
    num_canaries: int
    accounting: Accounting
    task: TaskFacts | None
    not_covered: str | None

    def to_json(self) -> dict[str, object]:
        """The JSON object of a config of which no plan can be made."""
        return {
            "noise_multiplier": self.noise_multiplier,
            "delta": self.accounting.delta,
            "analytical": {
                "client": json_value(self.accounting.client.epsilon),
                "canary": json_value(self.accounting.canary.epsilon),
            },
            "not_covered": self.not_covered,
        }

    def lines(self) -> list[str]:
        """The noise and what it guarantees, for the terminal."""
        made = self.accounting
        text = (
            f"noise_multiplier {self.noise_multiplier:g} is the least that guarantees clients "
            f"ε ≤ {upper_bound_text(made.client.epsilon)} at delta {significant(made.delta)}"
        )
        if self.num_canaries:
            text += f"; to a canary it guarantees {upper_bound_text(made.canary.epsilon)}"
        text += f". It is about {made.neighbours}."
        return [
            *labelled("noise", text),
            *([] if self.not_covered is None else labelled("no plan", self.not_covered)),
        ]


def asked_for_epsilon(config: Config, epsilon: float) -> Config:
    """The config with noise to be found for an epsilon, whatever noise it states.

    Raises:
      InputError: The mechanism adds no noise, or the epsilon is not above 0.
    """
    if not 0 < epsilon < math.inf:
        raise InputError(f"--epsilon {epsilon:g}: must be a finite number above 0")
    mechanism = config.mechanism
    if not isinstance(mechanism, NoisyMechanism):
        kind = mechanism.__struct_config__.tag  # type: ignore[attr-defined]
        raise InputError(f"--epsilon: mechanism {kind!r} has no noise to find")
    asked = msgspec.structs.replace(mechanism, noise_multiplier=None, epsilon=epsilon)
    return msgspec.structs.replace(config, mechanism=asked)


def find_noise(config: Config) -> FoundNoise:
    """Finds the noise of a config that states an epsilon; loads the task, writes nothing.

    Raises:
      InputError: No epsilon is known of such a run, or the config cannot be used.
    """
    design, task = _designed(config)
    multiplier = getattr(design.config.mechanism, "noise_multiplier", 0.0)
    try:
        check_covered(design.config)
        not_covered = None
    except InputError as error:
        not_covered = str(error)
    accounting = account(design.noisy_rounds)
    return FoundNoise(design.config, multiplier, design.num_canaries, accounting, task, not_covered)


def _designed(config: Config) -> tuple[RunDesign, TaskFacts | None]:
    """The design of the run; canaries that hold examples are only known with the data."""
    if isinstance(config.canaries, ExampleCanaries):
        from fl_audit.training.run.prepare import prepare

        return prepare(config), None
    task = load_task_facts(config)
    return design_run(config, task.client_ids, config.canaries.count), task
