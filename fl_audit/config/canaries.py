"""Tables of canaries."""

from typing import Annotated, Literal

from msgspec import Meta

from fl_audit.config.table import PositiveInt, Table


class Canaries(Table, frozen=True, tag_field="kind", tag="vectors"):
    """The canary pool, of which a fair coin includes each (Steinke et al. Algorithm 1).

    Attributes:
      count: size of the pool, included and excluded together.
      max_per_round: canaries that a round may hold on average. Each is an update as long as the
        model, and where they outnumber the real clients the model learns little.
      family: law of the vectors.
      store: where gaussian vectors are kept, rounded to 16 bits a coordinate, instead of being
        made anew for every score; 2 x count x parameters bytes.
      store_path: the file of a store on disk; one that is there is used if it is of this pool. A
        relative path starts at the config file's folder.
    """

    count: Annotated[int, Meta(ge=2)]
    max_per_round: PositiveInt = 200
    family: Literal["gaussian", "rademacher", "hadamard"] = "rademacher"
    store: Literal["none", "memory", "disk"] = "none"
    store_path: str | None = None
