"""Tables of what clients and the server do with examples and updates."""

from typing import Annotated

from msgspec import Meta

from fl_audit.config.table import PositiveFloat, PositiveInt, Table


class Client(Table, frozen=True, tag_field="kind", tag="fed_avg"):
    """What a real client does in a round: plain SGD on its own examples.

    Attributes:
      learning_rate: of the local SGD.
      batch_size: examples a step.
      epochs: passes over the client's examples.
    """

    learning_rate: PositiveFloat = 0.1
    batch_size: PositiveInt = 16
    epochs: PositiveInt = 1


class Server(Table, frozen=True, tag_field="kind", tag="sgd"):
    """How the server applies an aggregate: SGD, with momentum where it is not 0."""

    learning_rate: PositiveFloat = 1.0
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
