"""Tables of what clients and the server do with examples and updates."""

from typing import Annotated, Literal

from msgspec import Meta

from fl_audit.kinds.table import PositiveFloat, PositiveInt, Table

Decay = Annotated[float, Meta(ge=0, lt=1)]
"""Share of a running mean that a step keeps."""


class LocalSteps(Table, frozen=True, kw_only=True):
    """What clients have in common that take steps on their own examples.

    Attributes:
      learning_rate: of the local steps.
      batch_size: Examples a step.
      epochs: Passes over the client's examples.
      optimizer: of the local steps, without a memory of earlier rounds; what an adaptive one has
        beside its learning rate is as TFF sets it.
      momentum: of `sgd`.
    """

    learning_rate: PositiveFloat = 0.1
    batch_size: PositiveInt = 16
    epochs: PositiveInt = 1
    optimizer: Literal["sgd", "adagrad", "adam", "yogi"] = "sgd"
    momentum: Decay = 0.0

    def __post_init__(self) -> None:
        """Checks that the optimizer knows its keys."""
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum goes with optimizer 'sgd', not {self.optimizer!r}")


class FedAvg(LocalSteps, frozen=True, kw_only=True, tag_field="kind", tag="fed_avg"):
    """A client takes steps on its own loss (McMahan et al. 2017, algorithm 1)."""


class FedProx(LocalSteps, frozen=True, kw_only=True, tag_field="kind", tag="fed_prox"):
    """A client's loss grows with the distance from the round's model (Li et al. 2020).

    Attributes:
      proximal_strength: mu of mu/2 times the squared distance, which is added to the loss.
    """

    proximal_strength: PositiveFloat


class FedSgd(Table, frozen=True, kw_only=True, tag_field="kind", tag="fed_sgd"):
    """A client gives the gradient at the round's model, mean over its examples.

    McMahan et al. 2017, section 2. The server's learning rate is the only one.

    Attributes:
      batch_size: Examples whose gradient is computed at once; changes nothing but rounding, and
        memory.
    """

    batch_size: PositiveInt = 16

    @property
    def epochs(self) -> int:
        """Passes over a client's examples; a second one would give the same gradient."""
        return 1


Client = FedAvg | FedProx | FedSgd


class ServerSgd(Table, frozen=True, kw_only=True, tag_field="kind", tag="sgd"):
    """The server adds the aggregate, with momentum where it is not 0."""

    learning_rate: PositiveFloat = 1.0
    momentum: Decay = 0.0


class AdaptiveServer(Table, frozen=True, kw_only=True):
    """What adaptive servers have in common (Reddi et al. 2020, algorithm 2).

    Attributes:
      learning_rate: Eta.
      tau: How little the server adapts: coordinates whose past aggregates are far below it move
        in proportion to the aggregate, those far above it all alike.
    """

    learning_rate: PositiveFloat = 0.01
    tau: PositiveFloat = 1e-3


class ServerAdagrad(AdaptiveServer, frozen=True, kw_only=True, tag_field="kind", tag="adagrad"):
    """FedAdagrad: aggregates over the root of tau^2 plus the sum of all squares so far."""


class ServerAdam(AdaptiveServer, frozen=True, kw_only=True, tag_field="kind", tag="adam"):
    """FedAdam, with the correction of the first rounds' bias that TFF's Adam has.

    Attributes:
      beta_1: of the running mean of aggregates.
      beta_2: of the running mean of their squares.
    """

    beta_1: Decay = 0.9
    beta_2: Decay = 0.99


class ServerYogi(AdaptiveServer, frozen=True, kw_only=True, tag_field="kind", tag="yogi"):
    """FedYogi, with the correction of the first rounds' bias that TFF's Yogi has.

    Attributes:
      beta_1: of the running mean of aggregates.
      beta_2: of their squares, which grow and shrink by at most 1 - beta_2 of the newest.
    """

    beta_1: Decay = 0.9
    beta_2: Decay = 0.99


Server = ServerSgd | ServerAdagrad | ServerAdam | ServerYogi
