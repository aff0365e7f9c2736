"""The config of `fl-audit attack`: a task, and how its models are trained and attacked."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from fl_audit.config.file import in_folder, parse_tables, read_tables
from fl_audit.kinds.table import (
    NonNegativeFloat,
    NonNegativeInt,
    OpenUnitFloat,
    PositiveFloat,
    PositiveInt,
    Table,
)
from fl_audit.tasks.kinds import Task


class Attack(Table, frozen=True):
    """How many models are trained, how, and how they are attacked.

    Attributes:
      num_shadow: The number of models on random halves of the points, of which SelectWorst finds
        the points to attack.
      num_points: The number of points to attack, each with a base of its own.
      num_base_shadow: The number of shadow models on each base, half of them with the point.
      num_challenges: The number of attacked models on each base, each with the point by a fair
        coin.
      epochs: The number of passes over the training points.
      batch_size: The number of points in a step; under DP-SGD its expectation.
      learning_rate: The learning rate of SGD.
      momentum: The momentum of SGD.
      clip_norm: The largest norm of an example's gradient under DP-SGD; without it there is none.
      noise_multiplier: The deviation of DP-SGD's noise over clip_norm.
      microbatches: The number of micro-batches whose mean gradients DP-SGD clips in place of
        examples' gradients, at most batch_size; the same noise then guarantees less.
      epsilon: The analytical epsilon that DP-SGD's noise is chosen for; it stands instead of
        noise_multiplier.
      output_noise: The deviation of noise on the weights of every trained model.
      initial_weights: `random`, or `same` for all models.
      models_per_block: The number of models that train at once.
      delta: The delta of the estimates.
      confidence: The confidence of every bound and interval.
      false_positive_rate: The rate alpha* that the attack behind counts.csv aims at.
    """

    num_shadow: Annotated[int, Meta(ge=20)] = 128
    num_points: PositiveInt = 1
    num_base_shadow: Annotated[int, Meta(ge=4)] = 64
    num_challenges: Annotated[int, Meta(ge=20)] = 512
    epochs: PositiveInt = 50
    batch_size: PositiveInt = 50
    learning_rate: PositiveFloat = 0.1
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    clip_norm: PositiveFloat | None = None
    noise_multiplier: NonNegativeFloat | None = None
    microbatches: PositiveInt | None = None
    epsilon: PositiveFloat | None = None
    output_noise: NonNegativeFloat = 0.0
    initial_weights: Literal["random", "same"] = "random"
    models_per_block: PositiveInt = 32
    delta: OpenUnitFloat = 1e-5
    confidence: OpenUnitFloat = 0.9
    false_positive_rate: OpenUnitFloat = 0.1

    def __post_init__(self) -> None:
        """Checks that DP-SGD has both of its keys, one noise, and no micro-batch too many."""
        if self.microbatches is not None and self.clip_norm is None:
            raise ValueError("microbatches are DP-SGD's; set clip_norm and epsilon too")
        if self.microbatches is not None and self.microbatches > self.batch_size:
            raise ValueError(
                f"microbatches must be at most batch_size, {self.batch_size}, got "
                f"{self.microbatches}"
            )
        if self.noise_multiplier is not None and self.epsilon is not None:
            raise ValueError("noise_multiplier and epsilon both say DP-SGD's noise; set one")
        has_noise = self.noise_multiplier is not None or self.epsilon is not None
        if (self.clip_norm is not None) != has_noise:
            raise ValueError(
                "clip_norm and noise_multiplier (or epsilon) make DP-SGD together; set both"
            )


class AttackConfig(Table, frozen=True):
    """Everything that defines an attack on a task's models, which are trained centrally."""

    task: Task
    attack: Attack = Attack()
    seed: NonNegativeInt = 0


def load_attack_config(path: Path, overrides: list[str]) -> AttackConfig:
    """Reads the config of an attack.

    Args:
      path: The TOML file.
      overrides: Entries `section.key=value`.

    Raises:
      InputError: The file cannot be read, is not TOML, or does not describe an attack.
    """
    config = parse_tables(read_tables(path, overrides), AttackConfig, str(path))
    return in_folder(config, path.parent)
