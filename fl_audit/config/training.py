"""The config tables of clients and server: what they do with examples and updates."""

from typing import Annotated, Literal

from msgspec import Meta

from fl_audit.kinds.table import PositiveFloat, PositiveInt, Table

Decay = Annotated[float, Meta(ge=0, lt=1)]
"""The share of a running mean that a step keeps."""


class LocalSteps(Table, frozen=True, kw_only=True):
    """The keys that all clients have that take steps on their own examples.

    Attributes:
      learning_rate: The learning rate of the local steps.
      batch_size: The number of examples in a step.
      epochs: The number of passes over the client's examples.
      optimizer: The optimizer of the local steps, without a memory of earlier rounds; the
        parameters of an adaptive one beside its learning rate are TFF's defaults.
      momentum: The momentum of `sgd`.
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
    """A client that takes steps on its own loss (McMahan et al. 2017, algorithm 1)."""


class FedProx(LocalSteps, frozen=True, kw_only=True, tag_field="kind", tag="fed_prox"):
    """A client whose loss grows with the distance from the round's model (Li et al. 2020).

    Attributes:
      proximal_strength: The factor mu in mu/2 times the squared distance, which is added to the
        loss.
    """

    proximal_strength: PositiveFloat


class FedSgd(Table, frozen=True, kw_only=True, tag_field="kind", tag="fed_sgd"):
    """A client that sends the gradient at the round's model, the mean over its examples.

    McMahan et al. 2017, section 2. The server's learning rate is the only one.

    Attributes:
      batch_size: The number of examples whose gradient is computed at once; it changes only
        rounding and memory.
    """

    batch_size: PositiveInt = 16

    @property
    def epochs(self) -> int:
        """The number of passes over a client's examples; a second would give the same gradient."""
        return 1


Client = FedAvg | FedProx | FedSgd


class ServerSgd(Table, frozen=True, kw_only=True, tag_field="kind", tag="sgd"):
    """A server that adds the aggregate, with momentum where it is not 0.

    Attributes:
      learning_rate: The factor of the aggregate.
      momentum: The share of the last step that is added to a step.
    """

    learning_rate: PositiveFloat = 1.0
    momentum: Decay = 0.0


class AdaptiveServer(Table, frozen=True, kw_only=True):
    """The keys that adaptive servers have in common (Reddi et al. 2020, algorithm 2).

    Attributes:
      learning_rate: The server's learning rate eta.
      tau: The degree of adaptivity tau; the smaller, the more the server adapts. Coordinates whose
        past aggregates are far below it move in proportion to the aggregate, those far above it all
        alike.
    """

    learning_rate: PositiveFloat = 0.01
    tau: PositiveFloat = 1e-3


class ServerAdagrad(AdaptiveServer, frozen=True, kw_only=True, tag_field="kind", tag="adagrad"):
    """FedAdagrad: aggregates over the root of tau^2 plus the sum of all squares so far."""


class ServerAdam(AdaptiveServer, frozen=True, kw_only=True, tag_field="kind", tag="adam"):
    """FedAdam, with the correction of the first rounds' bias that TFF's Adam has.

    Attributes:
      beta_1: The decay of the running mean of aggregates.
      beta_2: The decay of the running mean of their squares.
    """

    beta_1: Decay = 0.9
    beta_2: Decay = 0.99


class ServerYogi(AdaptiveServer, frozen=True, kw_only=True, tag_field="kind", tag="yogi"):
    """FedYogi, with the correction of the first rounds' bias that TFF's Yogi has.

    Attributes:
      beta_1: The decay of the running mean of aggregates.
      beta_2: The decay of their squares, which grow and shrink by at most 1 - beta_2 of the newest.
    """

    beta_1: Decay = 0.9
    beta_2: Decay = 0.99


Server = ServerSgd | ServerAdagrad | ServerAdam | ServerYogi
