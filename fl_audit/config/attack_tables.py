"""The config of `fl-audit attack`: a task and central training, or the config of a run."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fl_audit.canaries.canary_tables import Canaries
from fl_audit.config.file import config_of_table, in_folder, parse_tables, read_tables
from fl_audit.config.run_tables import Config
from fl_audit.config_tables.audit import Audit
from fl_audit.config_tables.kinds import (
    NonNegativeFloat,
    NonNegativeInt,
    OpenUnitFloat,
    PositiveFloat,
    PositiveInt,
    Table,
)
from fl_audit.config_tables.plugins import import_plugins
from fl_audit.tasks.task_kinds import Task

# The table [attack], for central training or for federated runs.


_Shadows = Annotated[int, Meta(ge=20, multiple_of=2)]
_BaseShadows = Annotated[int, Meta(ge=4, multiple_of=2)]
_Challenges = Annotated[int, Meta(ge=20)]


class Judging(Table, frozen=True):
    """The keys of every attack for judging its models.

    Attributes:
      confidence: Confidence of every bound and interval.
      false_positive_rate: Target false positive rate of the attack in counts.csv.
    """

    confidence: OpenUnitFloat = 0.9
    false_positive_rate: OpenUnitFloat = 0.1


class Attack(Judging, frozen=True):
    """An attack on points of central training, with shadow models.

    Attributes:
      num_shadow: Models on random halves of the points, to choose the points to attack.
      num_points: Points to attack.
      num_base_shadow: Shadow models per point, half of them with the point.
      num_challenges: Attacked models per point; a coin decides whether each trains on the point.
      epochs: Passes over the training points.
      batch_size: Points in a step (DP-SGD: expected).
      learning_rate: Learning rate of SGD.
      momentum: Momentum of SGD.
      clip_norm: Clip norm of DP-SGD; default: none.
      noise_multiplier: Standard deviation of DP-SGD's noise, in clip norms.
      microbatches: Micro-batches whose mean gradients are clipped, instead of examples' gradients;
        weakens the guarantee.
      epsilon: Target upper bound, instead of `noise_multiplier`.
      output_noise: Standard deviation of noise on trained weights.
      initial_weights: `random` for each model, or the `same` for all.
      models_per_block: Models that train at once; default by size.
      delta: Delta of the estimates.
    """

    num_shadow: _Shadows = 128
    num_points: PositiveInt = 1
    num_base_shadow: _BaseShadows = 64
    num_challenges: _Challenges = 512
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
    models_per_block: PositiveInt | None = None
    delta: OpenUnitFloat = 1e-5

    def __post_init__(self) -> None:
        """Raises ValueError for missing DP-SGD keys, two noises, or too many micro-batches."""
        if self.microbatches is not None and self.clip_norm is None:
            raise ValueError("microbatches are only for DP-SGD; set clip_norm and epsilon too")
        if self.microbatches is not None and self.microbatches > self.batch_size:
            raise ValueError(
                f"microbatches must be at most batch_size, {self.batch_size}, got "
                f"{self.microbatches}"
            )
        if self.noise_multiplier is not None and self.epsilon is not None:
            raise ValueError(
                "noise_multiplier and epsilon both determine DP-SGD's noise; set one of them"
            )
        has_noise = self.noise_multiplier is not None or self.epsilon is not None
        if (self.clip_norm is not None) != has_noise:
            raise ValueError(
                "clip_norm and noise_multiplier (or epsilon) make DP-SGD together; set both"
            )

    @property
    def num_members(self) -> int:
        """The number of attacked points."""
        return self.num_points


class FederatedAttack(Judging, frozen=True):
    """The attack of `fl-audit attack` on the clients of a run; `fl-audit run` ignores this table.

    Attributes:
      num_shadow: Runs with a random half of the clients, to choose the clients to attack.
      num_clients: Clients to attack.
      num_base_shadow: Shadow runs per client, half of them with the client.
      num_challenges: Attacked runs per client; in each, a coin decides whether the client
        participates.
      initial_weights: `random` for each run, or the `same` for all.
    """

    num_shadow: _Shadows = 40
    num_clients: PositiveInt = 1
    num_base_shadow: _BaseShadows = 32
    num_challenges: _Challenges = 100
    initial_weights: Literal["random", "same"] = "same"

    @property
    def num_members(self) -> int:
        """The number of attacked clients."""
        return self.num_clients


AnyAttack = Attack | FederatedAttack


def num_models(attack: AnyAttack) -> int:
    """The number of models, or federated runs, that an attack trains."""
    return attack.num_shadow + attack.num_members * (attack.num_base_shadow + attack.num_challenges)


_FEDERATED_SECTIONS = {"mechanism", "participation"}
"""The sections that a federated run requires and central training lacks."""


class AttackConfig(Table, frozen=True):
    """Everything that defines an attack on centrally trained models of a task.

    Attributes:
      seed: The seed of all randomness.
      plugins: Modules that register custom kinds, as in the config of a run.
    """

    task: Task
    attack: Attack = Attack()
    seed: NonNegativeInt = 0
    plugins: tuple[str, ...] | UnsetType = UNSET


class FederatedAttackConfig(Config, frozen=True):
    """Everything that defines an attack on a run's clients: the run, and [attack]."""

    attack: FederatedAttack = FederatedAttack()


def load_attack_config(path: Path, overrides: list[str]) -> AttackConfig | FederatedAttackConfig:
    """Loads an attack's config; resets a run's canaries, runtime, ray, and audit except delta."""
    table = read_tables(path, overrides)
    if not _FEDERATED_SECTIONS & table.keys():
        import_plugins(table.get("plugins"), str(path))
        return in_folder(parse_tables(table, AttackConfig, str(path)), path.parent)
    table = {"canaries": {"count": 0}, **table}
    config_of_table(table, path, str(path))  # the same checks as for `run`
    config = in_folder(parse_tables(table, FederatedAttackConfig, str(path)), path.parent)
    return msgspec.structs.replace(
        config,
        runtime="local",
        canaries=Canaries(count=0),
        audit=Audit(delta=config.audit.delta),
        ray=None,
    )
